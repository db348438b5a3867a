"""What tracing clients reported about one message, from the trace topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.lookup import FoundMessage
from rmqproto import trace
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import LONG_MAX
from rmqproto.message.record import host_text
from rmqproto.trace import TraceRecord

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

TRACE_COUNT = 64
"""How many trace messages are read for one message, as in mqadmin."""

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
    """One action of a client. ``host`` is the client's address; ``outcome`` is text."""

    kind: str
    time_ms: int | None
    group: str | None
    outcome: str
    cost_ms: int | None
    host: str

    @property
    def is_of_consumer(self) -> bool:
        return self.kind in (_KINDS[trace.DELIVERED], _KINDS[trace.CONSUMED])


def find_traces(
    admin: AdminClient,
    brokers: Sequence[BrokerData],
    topic: str,
    message_id: str,
    *,
    max_count: int = TRACE_COUNT,
    begin_ms: int = 0,
    end_ms: int = LONG_MAX,
) -> list[FoundTrace]:
    """The records about a message in a trace topic, from at most ``max_count`` trace messages per broker. A trace
    message that cannot be read is ignored."""
    found = lookup.by_key(admin, brokers, topic, message_id, max_count=max_count, begin_ms=begin_ms, end_ms=end_ms)
    return [
        FoundTrace(record, host_text(one.stored.born_host))
        for one in found
        for record in _records(one)
        if record.message_id == message_id
    ]


def _records(found: FoundMessage) -> list[TraceRecord]:
    try:
        return trace.parse_trace_untrusted(found.stored.plain_body())
    except ProtocolError:
        return []


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
