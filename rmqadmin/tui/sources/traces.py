"""What happened to one message: the brokers where its groups are, and what tracing clients reported."""

from __future__ import annotations

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_history import find_traces
from rmqproto.bodies.routes import BrokerData
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.message import properties as props
from rmqproto.names import TRACE_TOPIC
from rmqproto.trace_steps import TraceStep, trace_steps

OFF, NO_TOPIC, NONE = (
    "Tracing is off: the broker that stored the message told its producer so (TRACE_ON is false).",
    f"There is no topic {TRACE_TOPIC}: tracing is off on this cluster (traceTopicEnable).",
    "Nobody traced this message, or the trace is older than its topic keeps. Clients trace only if they are told to.",
)


class Trace(msgspec.Struct, frozen=True):
    """``steps`` in chronological order. If there are none, ``absence`` says why."""

    steps: list[TraceStep]
    absence: str | None = None


def read_brokers(admin: AdminClient, message: FoundMessage) -> list[BrokerData]:
    """Reads the brokers of the message's topic, where its groups are."""
    return admin.topic_route(message.stored.topic).broker_datas


def read_trace(admin: AdminClient, message: FoundMessage) -> Trace:
    """Reads what clients wrote about a message into the trace topic."""
    is_off = message.properties.get(props.TRACE_ON) == "false"
    try:
        route = admin.topic_route(TRACE_TOPIC)
    except RefusedError as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return Trace([], OFF if is_off else NO_TOPIC)
    steps = trace_steps(find_traces(admin, route.broker_datas, TRACE_TOPIC, message.message_id))
    return Trace(steps, None if steps else OFF if is_off else NONE)
