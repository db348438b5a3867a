"""Finds stored messages by either id and by key, on every broker of a topic, and tells what happened to a message: its
tracks, traces of clients, and its retries.

A message has two ids that look alike (32 hex digits): the offset id, made by the broker, which holds its address, and
the unique key, made by the producer. An id counts as an offset id only if its address is that of one of the topic's
brokers. mqadmin first tries to connect to whatever address the digits give.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import read_offsets
from rmqadmin.core.servers.broker_answers import Answers, answers_of, ask_each
from rmqproto import trace
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import CONSUME_ACTIVELY
from rmqproto.bodies.routes import BrokerData, TopicRoute
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, ProtocolError, RefusedError
from rmqproto.ha import MASTER_ID
from rmqproto.java.java_numbers import LONG_MAX
from rmqproto.message import properties as props
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.properties import told_causes
from rmqproto.message.record import StoredMessage, host_text
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, dlq_topic, group_in_topic, retry_topic
from rmqproto.times import TimeRange, iso_local
from rmqproto.trace import FoundTrace, TraceRecord
from rmqproto.wording import counted

ANY_TIME = TimeRange(None, None)
UNIQUE_KEY_COUNT = 32
"""The most messages asked for under one unique key, which resends and retries share."""


class FoundMessage(msgspec.Struct, frozen=True):
    """A stored message and the broker that has it. ``properties`` are parsed once. ``packed``: the compression of a
    body that could not be decompressed."""

    stored: StoredMessage
    broker_name: str
    broker_addr: str
    properties: dict[str, str]
    packed: str | None = None

    @property
    def message_id(self) -> str:
        """The unique key, or the offset id of a message whose producer gave it none."""
        return self.properties.get(props.UNIQUE_KEY) or self.stored.message_id


def found_message(stored: StoredMessage, broker_name: str, broker_addr: str) -> FoundMessage:
    """A found message. Properties that are not UTF-8 are read as Java does, so that it hides no other."""
    properties = props.parse(str(stored.properties_raw, "utf-8", "replace"))
    return FoundMessage(stored, broker_name, broker_addr, properties)


def by_id(
    admin: AdminClient, route: TopicRoute, topic: str, message_id: str, answers: Answers | None = None
) -> list[FoundMessage]:
    """The message with an offset id, or those with a unique key, oldest first. ``answers``: see ``by_unique_key``."""
    return by_offset_id(admin, route.broker_datas, message_id, topic) or by_unique_key(
        admin, route.broker_datas, topic, message_id, answers=answers
    )


def by_offset_id(
    admin: AdminClient, brokers: Sequence[BrokerData], message_id: str, topic: str | None
) -> list[FoundMessage]:
    """The message with an offset id; empty if it is none, is of another broker, or no message begins there."""
    try:
        parsed = parse_offset_id_untrusted(message_id)
    except ProtocolError:
        return []
    addr = parsed.address
    owners = [broker for broker in brokers if addr in broker.broker_addrs.values()]
    return at_log_offset(admin, owners[0], addr, parsed.log_offset, topic) if owners else []


def unknown_broker_of(brokers: Sequence[BrokerData], message_id: str) -> str | None:
    """The address in an offset id that is of none of the brokers; None for another text, as most unique keys are."""
    try:
        parsed = parse_offset_id_untrusted(message_id)
    except ProtocolError:
        return None
    is_known = parsed.address in targets.replicas_of_all(brokers)
    return parsed.address if 0 < parsed.port < 1 << 16 and not is_known else None


def at_log_offset(
    admin: AdminClient, broker: BrokerData, addr: str, log_offset: int, topic: str | None
) -> list[FoundMessage]:
    """The message that begins at a log offset. Empty if none does."""
    try:
        return [found_message(admin.view_message(addr, log_offset, topic), broker.broker_name, addr)]
    except ProtocolError:
        return []
    except RefusedError as error:
        if error.code != ResponseCode.SYSTEM_ERROR:  # a lack of permission, say, does not mean no message
            raise
        return []


def by_unique_key(
    admin: AdminClient,
    brokers: Sequence[BrokerData],
    topic: str,
    unique_key: str,
    *,
    within: TimeRange = ANY_TIME,
    answers: Answers | None = None,
) -> list[FoundMessage]:
    """The messages with a unique key on any of the brokers, oldest first; resends and retries share a key. With
    ``answers``, which records the failures, only those on brokers that answer."""

    found = _indexed(admin, brokers, within, answers, topic, unique_key, max_count=UNIQUE_KEY_COUNT, unique_key=True)
    same = [message for message in found if message.properties.get(props.UNIQUE_KEY) == unique_key]
    return sorted(same, key=lambda message: message.stored.store_timestamp_ms)


def _indexed(
    admin: AdminClient,
    brokers: Sequence[BrokerData],
    within: TimeRange,
    answers: Answers | None,
    *what: str,
    **how: Any,
) -> list[FoundMessage]:
    """What the index of each broker has. ``what`` and ``how`` are as for ``AdminClient.query_message``."""
    by_addr = targets.by_selected_addr(brokers)
    begin_ms, end_ms = within.begin_ms or 0, LONG_MAX if within.end_ms is None else within.end_ms

    def ask(addr: str) -> list[FoundMessage]:
        stored = admin.query_message(addr, *what, begin_ms=begin_ms, end_ms=end_ms, **how)
        return [found_message(message, by_addr[addr].broker_name, addr) for message in stored]

    return [message for part in answers_of(ask, by_addr, answers).values() for message in part]


INDEX_HINT = (
    "The index of its brokers was asked. It lacks messages whose commit log files are deleted, and those stored with "
    "messageIndexEnable=false."
)


def nothing_found(
    topic: str, what: str, between: TimeRange, look_up: Callable[[], Sequence[FoundMessage]]
) -> NotFoundError:
    """The error for a look-up in the index that found nothing. ``what`` names what was looked for. If only a window of
    time was asked for, ``look_up`` looks at any time, so that the window is not taken for the topic."""
    if between.begin_ms is None and between.end_ms is None:
        return NotFoundError(f"no message of the topic {topic} with {what} was found", hint=INDEX_HINT)
    times = sorted(message.stored.store_timestamp_ms for message in look_up())
    if not times:
        said = f"no message of the topic {topic} with {what} was found, neither in this window nor outside of it"
        return NotFoundError(said, hint=INDEX_HINT)
    stored = " to ".join(iso_local(ms) for ms in dict.fromkeys((times[0], times[-1])))
    return NotFoundError(
        f"no message of the topic {topic} with {what} was found in this window",
        hint=f"Outside of it there {'is 1' if len(times) == 1 else f'are {len(times)}'}, stored {stored}.",
    )


class KeyType(StrEnum):
    """What to ask the index for: keys or tags."""

    KEYS = "K"
    TAGS = "T"


def by_key(
    admin: AdminClient,
    brokers: Sequence[BrokerData],
    topic: str,
    key: str,
    *,
    key_type: KeyType = KeyType.KEYS,
    max_count: int,
    within: TimeRange = ANY_TIME,
    last_key: str | None = None,
    answers: Answers | None = None,
) -> list[FoundMessage]:
    """Messages with this key, or tag, on any of the brokers. The index knows only hashes, so each message is checked.
    ``answers`` is as for ``by_unique_key``."""

    def has_key(message: FoundMessage) -> bool:
        if key_type is KeyType.TAGS:
            return message.properties.get(props.TAGS) == key
        return key in message.properties.get(props.KEYS, "").split(" ")

    # Brokers before 5.5 do not know index types, and treat every request as one for keys.
    index_type = key_type.value if key_type is KeyType.TAGS else None
    how: dict[str, Any] = {"max_count": max_count, "index_type": index_type, "last_key": last_key}
    found = _indexed(admin, brokers, within, answers, topic, key, **how)
    return [message for message in found if message.stored.topic == topic and has_key(message)]


# --- what became of it -----------------------------------------------------------------------------------------------


class Track(msgspec.Struct, frozen=True):
    """What a group has done with a message, by mqadmin's name for it. ``reason`` says why that is unknown; ``error`` is
    the same as mqadmin prints it."""

    group: str
    state: str
    error: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        return f"{self.group}: {self.state}"


def tracks(admin: AdminClient, message: FoundMessage) -> list[Track]:
    """One track for each group that consumes the topic or has offsets in it (``messageTrackDetail``)."""
    groups = admin.groups_of_topic(message.broker_addr, message.stored.topic)
    return ask_each(lambda group: _track(admin, message, group), groups)


def _track(admin: AdminClient, message: FoundMessage, group: str) -> Track:
    stored = message.stored
    broker = BrokerData(broker_addrs={MASTER_ID: message.broker_addr}, broker_name=message.broker_name)
    try:
        clients = admin.consumer_connection(message.broker_addr, group)
        if clients.consume_type == CONSUME_ACTIVELY:
            return Track(group, "PULL")
        if clients.message_model == "BROADCASTING":
            return Track(group, "CONSUME_BROADCASTING")
        offsets = read_offsets(admin, [broker], group, stored.topic).offsets
        entry = offsets.get(MessageQueue(stored.topic, message.broker_name, stored.queue_id))
        if entry is None or entry.consumer_offset <= stored.queue_offset:
            return Track(group, "NOT_CONSUME_YET")
    except RefusedError as error:
        text = f"CODE:{error.code} DESC:{error.remark}"
        if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
            from rmqadmin.core.error_table import EXPLANATIONS  # 5 ms

            return Track(group, "NOT_ONLINE", text, EXPLANATIONS[error.code].meaning)
        return Track(group, "UNKNOWN", text, str(error))
    wanted = clients.subscription_table.get(stored.topic)
    wanted_tags = set(wanted.tags_set or ()) if wanted else set()
    if wanted_tags and "*" not in wanted_tags and message.properties.get(props.TAGS) not in wanted_tags:
        return Track(group, "CONSUMED_BUT_FILTERED")
    return Track(group, "CONSUMED")


TRACE_COUNT = 64
"""How many trace messages are read for one message, as in mqadmin."""


def find_traces(
    admin: AdminClient,
    brokers: Sequence[BrokerData],
    topic: str,
    message_id: str,
    *,
    max_count: int = TRACE_COUNT,
    within: TimeRange = ANY_TIME,
    answers: Answers | None = None,
) -> list[FoundTrace]:
    """The records about a message in a trace topic, from at most ``max_count`` trace messages per broker. A trace
    message that cannot be read is ignored. ``answers`` is as for ``by_key``."""
    found = by_key(admin, brokers, topic, message_id, max_count=max_count, within=within, answers=answers)
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
    """What the message tells about its failure, as labels and values; empty for one that has not failed."""
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
                found += by_unique_key(admin, route.broker_datas, topic, unique_key)
    copies = {(one.broker_name, one.stored.log_offset): _copy(one) for one in found}
    return sorted(copies.values(), key=lambda copy: copy.stored_ms)


def _copy(message: FoundMessage) -> StoredCopy:
    stored, what = message.stored, "sent"
    if stored.topic.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        what = "dead letter" if stored.topic.startswith(DLQ_PREFIX) else f"retry {stored.reconsume_times}"
    return StoredCopy(
        what, stored.store_timestamp_ms, stored.topic, message.broker_name, stored.queue_id, stored.queue_offset
    )
