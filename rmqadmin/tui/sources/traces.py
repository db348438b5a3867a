"""What became of one message: what each group did with it, as its offsets tell, and what clients said they did with it,
as far as they trace."""

from __future__ import annotations

import msgspec

from rmqadmin import lookup
from rmqadmin.lookup import FoundMessage, Track
from rmqclient.admin import AdminClient
from rmqproto import properties as props
from rmqproto import trace
from rmqproto.bodies import BrokerData
from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError, RefusedError
from rmqproto.names import TRACE_TOPIC
from rmqproto.record import host_text
from rmqproto.trace import TraceRecord

TRACE_COUNT = 64
"""Trace messages read of one message, as mqadmin reads."""

OFF, NO_TOPIC, NONE = (
    "Tracing is off: the broker that stored the message told its producer so (TRACE_ON is false).",
    f"There is no topic {TRACE_TOPIC}: tracing is off on this cluster (traceTopicEnable).",
    "Nobody traced this message, or the trace is older than its topic keeps. Clients trace only if they are told to.",
)


_KINDS = {
    trace.PUBLISHED: "sent", trace.DELIVERED: "delivered", trace.CONSUMED: "consumed",
    trace.TRANSACTION_ENDED: "transaction", trace.RECALLED: "recalled",
}  # fmt: skip
"""Types of records, as screens call them."""


class TraceStep(msgspec.Struct, frozen=True):
    """What one client did. ``host`` is its address; ``outcome`` in words."""

    kind: str
    time_ms: int | None
    group: str | None
    outcome: str
    cost_ms: int | None
    host: str

    @property
    def is_of_consumer(self) -> bool:
        return self.kind in (_KINDS[trace.DELIVERED], _KINDS[trace.CONSUMED])


class Trace(msgspec.Struct, frozen=True):
    """``steps`` in the order of time; where there is none, ``absence`` says why."""

    steps: list[TraceStep]
    absence: str | None = None


def read_brokers(admin: AdminClient, message: FoundMessage) -> list[BrokerData]:
    """Those of the message's topic: its groups are there."""
    return admin.topic_route(message.stored.topic).broker_datas


def read_tracks(admin: AdminClient, message: FoundMessage) -> list[Track]:
    """What each group of its topic did with a message, as `queryMsgById` shows it."""
    return lookup.tracks(admin, message)


def read_trace(admin: AdminClient, message: FoundMessage) -> Trace:
    """What clients wrote about a message into the trace topic. A trace message that cannot be read is passed over."""
    try:
        route = admin.topic_route(TRACE_TOPIC)
    except RefusedError as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return Trace([], OFF if message.properties.get(props.TRACE_ON) == "false" else NO_TOPIC)
    wanted = message.message_id
    found = lookup.by_key(admin, route.broker_datas, TRACE_TOPIC, wanted, max_count=TRACE_COUNT)
    records = [(record, one) for one in found for record in _records(one) if record.message_id == wanted]
    begun = {record.request_id: record for record, _ in records if record.kind == trace.DELIVERED}
    ended = {record.request_id for record, _ in records if record.kind == trace.CONSUMED}
    steps = [
        _step(record, begun.get(record.request_id), host_text(one.stored.born_host))
        for record, one in records
        if not (record.kind == trace.DELIVERED and record.request_id in ended)
    ]
    absence = OFF if message.properties.get(props.TRACE_ON) == "false" else NONE
    return Trace(sorted(steps, key=lambda step: step.time_ms or 0), None if steps else absence)


def _records(found: FoundMessage) -> list[TraceRecord]:
    try:
        return trace.parse_trace_untrusted(found.stored.plain_body())
    except ProtocolError:
        return []


def _step(record: TraceRecord, begun: TraceRecord | None, host: str) -> TraceStep:
    """``begun``: the record that the consumer wrote before it called its listener; of older ones, the only one with
    time and group."""
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
