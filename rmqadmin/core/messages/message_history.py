"""What happened to a message: traces of clients, and its retries."""

from collections.abc import Sequence

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.servers.broker_answers import Answers
from rmqproto import trace
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.properties import told_causes
from rmqproto.message.record import host_text
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, dlq_topic, group_in_topic, retry_topic
from rmqproto.times import TimeRange
from rmqproto.trace import FoundTrace, TraceRecord
from rmqproto.wording import counted

TRACE_COUNT = 64
"""How many trace messages are read for one message, as in mqadmin."""


def find_traces(
    admin: AdminClient,
    brokers: Sequence[BrokerData],
    topic: str,
    message_id: str,
    *,
    max_count: int = TRACE_COUNT,
    within: TimeRange = lookup.ANY_TIME,
    answers: Answers | None = None,
) -> list[FoundTrace]:
    """The records about a message in a trace topic, from at most ``max_count`` trace messages per broker. A trace
    message that cannot be read is ignored. ``answers`` is as for ``lookup.by_key``."""
    found = lookup.by_key(admin, brokers, topic, message_id, max_count=max_count, within=within, answers=answers)
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


class StoredCopy(msgspec.Struct, frozen=True):
    """One time the message was stored. ``what``: sent, retry N, dead letter."""

    what: str
    stored_ms: int
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int


def failure_facts(message: FoundMessage) -> list[tuple[str, str]]:
    """What the message itself tells about its failure, as labels and values. Empty for a message that has not
    failed."""
    from rmqreplay.sending.redrive import round_of  # only for failed messages

    stored, found = message.stored, message.properties
    group = group_in_topic(stored.topic)
    if group is None:
        return []
    redrives = round_of(found)
    count_max = found.get(props.MAX_RECONSUME_TIMES)
    facts = {
        "failed in": group,
        "origin topic": found.get(props.RETRY_TOPIC),
        "origin id": found.get(props.ORIGIN_MESSAGE_ID),
        "retries": f"{stored.reconsume_times}{f' of {count_max}' if count_max else ''}",
        "redriven": counted(redrives, "time") if redrives else None,
    }
    told = told_causes(found).items()
    return [*((label, value) for label, value in facts.items() if value), *told]


def read_copies(admin: AdminClient, message: FoundMessage) -> list[StoredCopy]:
    """Every copy that the index still has, oldest first. A message without a unique key has no other copies."""
    group = group_in_topic(message.stored.topic)
    unique_key = message.properties.get(props.UNIQUE_KEY)
    found = [message]
    if group is not None and unique_key:
        for topic in (message.properties.get(props.RETRY_TOPIC), retry_topic(group), dlq_topic(group)):
            if topic and (route := targets.find_route(admin, topic)) is not None:
                found += lookup.by_unique_key(admin, route.broker_datas, topic, unique_key)
    copies = {(one.broker_name, one.stored.log_offset): _copy(one) for one in found}
    return sorted(copies.values(), key=lambda copy: copy.stored_ms)


def _copy(message: FoundMessage) -> StoredCopy:
    stored, what = message.stored, "sent"
    if stored.topic.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        what = "dead letter" if stored.topic.startswith(DLQ_PREFIX) else f"retry {stored.reconsume_times}"
    return StoredCopy(
        what, stored.store_timestamp_ms, stored.topic, message.broker_name, stored.queue_id, stored.queue_offset
    )
