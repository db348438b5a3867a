"""What tracing clients reported about one message, from the trace topic."""

from __future__ import annotations

from collections.abc import Sequence

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.lookup import FoundMessage
from rmqproto import trace
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import LONG_MAX
from rmqproto.message.record import host_text
from rmqproto.trace import TraceRecord
from rmqproto.trace_steps import FoundTrace

TRACE_COUNT = 64
"""How many trace messages are read for one message, as in mqadmin."""


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
