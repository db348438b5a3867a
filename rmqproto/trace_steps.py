"""What tracing clients did with messages, step by step, from the records of the trace topic."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rmqproto import trace
from rmqproto.trace import TraceRecord

_KINDS = {
    trace.PUBLISHED: "sent", trace.DELIVERED: "delivered", trace.CONSUMED: "consumed",
    trace.TRANSACTION_ENDED: "transaction", trace.RECALLED: "recalled",
}  # fmt: skip
"""People's names for the types of records."""


class FoundTrace(msgspec.Struct, frozen=True):
    """One record, and the address (``ip:port``) of the client that wrote it."""

    record: TraceRecord
    host: str


class TraceStep(msgspec.Struct, frozen=True):
    """One action of a client. ``host`` is the client's address; ``outcome`` is text. ``topic`` is None for a
    consumer's."""

    kind: str
    time_ms: int | None
    group: str | None
    outcome: str
    cost_ms: int | None
    host: str
    message_id: str = ""
    topic: str | None = None
    retries: int = 0
    is_success: bool = False

    @property
    def is_sent(self) -> bool:
        return self.kind == _KINDS[trace.PUBLISHED]

    @property
    def is_of_consumer(self) -> bool:
        return self.kind in (_KINDS[trace.DELIVERED], _KINDS[trace.CONSUMED])


def trace_steps(found: Sequence[FoundTrace]) -> list[TraceStep]:
    """The steps in order of time. A consumer writes one record before it calls its listener and one after; together
    they are one step."""
    records = [one.record for one in found]
    begun = {record.request_id: record for record in records if record.kind == trace.DELIVERED}
    ended = {record.request_id for record in records if record.kind == trace.CONSUMED}
    steps = [
        _step(one.record, begun.get(one.record.request_id), one.host)
        for one in found
        if not (one.record.kind == trace.DELIVERED and one.record.request_id in ended)
    ]
    return sorted(steps, key=lambda step: step.time_ms or 0)


def _step(record: TraceRecord, begun: TraceRecord | None, host: str) -> TraceStep:
    """One step. ``begun`` is the record that the consumer wrote before it called its listener. For older consumers,
    only that record has the time and the group."""
    before = begun or record
    return TraceStep(
        _KINDS[record.kind],
        before.time_ms or record.time_ms,
        before.group or record.group,
        _outcome(record, before),
        record.cost_ms,
        host,
        record.message_id,
        record.topic,
        before.retry_times or 0,
        bool(record.success),
    )


def _outcome(record: TraceRecord, before: TraceRecord) -> str:
    if record.kind == trace.DELIVERED:
        words = "no outcome yet"
    elif record.state is not None:
        words = record.state.lower().replace("_", " ")
    elif record.success is None:
        words = "unknown"
    elif record.success or record.context_code is None:
        words = "success" if record.success else "failed"
    else:
        code = record.context_code
        words = trace.CONTEXT_CODES[code] if 0 <= code < len(trace.CONTEXT_CODES) else f"failed ({code})"
    return f"{words}, retry {before.retry_times}" if before.retry_times else words
