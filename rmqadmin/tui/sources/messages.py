"""Messages: the newest of a queue or a topic, window by window; look-ups by id or key; dead-letter queues; and what
tracing clients reported of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.dead_letters import DeadLetters, dead_letter_groups, joined, read_dead_letters_of
from rmqadmin.core.messages.lookup import FoundMessage, find_traces
from rmqadmin.core.messages.queue_reading import QueuePlace, pulls
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.memory.readings import Depth
from rmqadmin.tui.sources.found import Found, ask_brokers, askable, read_askable
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import TopicOffset
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, RefusedError, RocketMQError
from rmqproto.message import properties as props
from rmqproto.names import TRACE_TOPIC
from rmqproto.times import TIMESTAMP_MAX_MS, TimeRange
from rmqproto.trace import TraceStep, trace_steps

WINDOW_COUNT = 200
"""Messages shown at once, all queues together."""

WINDOW_SIZE_MAX_BYTES = 32 * 1024 * 1024
"""Bytes of bodies kept in memory. A window that would hold more is cut short, and says so."""

SEARCH_COUNT = 64


# --- dead-letter queues ----------------------------------------------------------------------------------------------


def read_dead_letter_groups(admin: AdminClient, memory: ClusterMemory) -> Found[str]:
    """Reads the groups that have a dead-letter topic, from the nameserver, which forgets topics of brokers that are
    gone."""
    cluster = read_askable(admin, memory)
    return Found(dead_letter_groups(admin), {name: memory.gone_text(name) or "gone" for name in cluster.gone})


def read_depths(admin: AdminClient, memory: ClusterMemory, topics: Mapping[str, str]) -> dict[str, Depth]:
    return {group: read_depth(admin, memory, topic) for group, topic in topics.items()}


def read_depth(admin: AdminClient, memory: ClusterMemory, topic: str) -> Depth:
    try:
        brokers = admin.topic_route(topic).broker_datas
        answers, lacks = ask_brokers(
            memory, askable(brokers), lambda broker: read_dead_letters_of(admin, broker.selected_addr() or "", topic)
        )
    except RocketMQError as error:
        return Depth(DeadLetters(error=str(error)))
    lacks |= memory.lost_of(topic, {broker.broker_name for broker in brokers})
    return Depth(joined([answer for _, answer in answers]), tuple(lacks))


# --- the messages of queues ------------------------------------------------------------------------------------------


class Window(msgspec.Struct, frozen=True):
    """A window of a topic's messages, newest first. ``newer_count``: messages in newer windows. ``last_number``: the
    number of the oldest window. ``total_count``: all messages in the queues of brokers that answered. ``cut_short``
    says why some messages of the window are missing."""

    found: Found[FoundMessage]
    newer_count: int
    last_number: int
    total_count: int
    cut_short: str | None = None


def read_window(
    admin: AdminClient, memory: ClusterMemory, topic: str, only: MessageQueue | None, number: int
) -> Window:
    """Reads a window of a topic or of one queue. Window 0 is the newest. All queues have the same share of a window, so
    the windows together show each message once. Pulling does not change any group's offset."""
    route = admin.topic_route(topic)
    brokers = [
        broker for broker in askable(route.broker_datas) if only is None or broker.broker_name == only.broker_name
    ]
    if not brokers:
        name = only.broker_name if only else topic
        raise NotFoundError(f"no broker of {topic} can be asked: {name} {memory.gone_text(name) or 'has none'}")
    answers, lacks = ask_brokers(
        memory, brokers, lambda broker: admin.topic_stats(broker.selected_addr() or "", topic).offset_table
    )
    if only is None:
        lacks |= memory.lost_of(topic, {broker.broker_name for broker in route.broker_datas})
    ends = [
        (broker, queue, end)
        for broker, table in answers
        for queue, end in table.items()
        if end.max_offset > end.min_offset and only in (None, queue)
    ]
    share = max(1, WINDOW_COUNT // max(1, len(ends)))
    messages: list[FoundMessage] = []
    problems: list[str] = []
    size_bytes, cut_short = 0, None
    for broker, queue, end in ends:
        if size_bytes >= WINDOW_SIZE_MAX_BYTES:
            cut_short = f"not all queues: the messages take more than {WINDOW_SIZE_MAX_BYTES >> 20} MiB"
            break
        try:
            place = _place(queue, broker.selected_addr() or "", end, share, number)
            pulled = [message for pull in pulls(admin, place, is_exact=True) for message in pull.messages]
        except RocketMQError as error:
            problems.append(str(error))
            continue
        messages += pulled
        size_bytes += sum(message.stored.size_bytes for message in pulled)
    if problems and not messages:
        raise RocketMQError(problems[0])
    counts = [end.max_offset - end.min_offset for _, _, end in ends]
    return Window(
        Found(newest_first(messages), lacks, problems),
        newer_count=sum(min(count, number * share) for count in counts),
        last_number=max(((count - 1) // share for count in counts), default=0),
        total_count=sum(counts),
        cut_short=cut_short,
    )


def _place(queue: MessageQueue, addr: str, end: TopicOffset, share: int, number: int) -> QueuePlace:
    """A queue's share of a window."""
    stop = max(end.min_offset, end.max_offset - number * share)
    return QueuePlace(queue, addr, max(end.min_offset, stop - share), stop)


def key_of(message: FoundMessage) -> str:
    return f"{message.broker_addr}/{message.stored.log_offset}"


def _age_order(message: FoundMessage) -> tuple[int, int, int]:
    return message.stored.store_timestamp_ms, message.stored.queue_offset, message.stored.log_offset


# --- looking messages up ---------------------------------------------------------------------------------------------


def search(admin: AdminClient, topic: str, wanted: str, between: TimeRange | None) -> Found[FoundMessage]:
    """Looks up the messages of a topic with this id, unique key or key, each once; if ``between``, only those stored in
    that time."""
    route = admin.topic_route(topic)
    found = lookup.by_id(admin, route, topic, wanted)
    found += lookup.by_key(admin, route.broker_datas, topic, wanted, max_count=SEARCH_COUNT)
    return Found(newest_first(one for one in found if between is None or _is_within(between, one)))


def _is_within(between: TimeRange, message: FoundMessage) -> bool:
    stored_ms = message.stored.store_timestamp_ms
    return (between.begin_ms or 0) <= stored_ms <= (TIMESTAMP_MAX_MS if between.end_ms is None else between.end_ms)


def newest_first(messages: Iterable[FoundMessage]) -> dict[str, FoundMessage]:
    """The messages by key, each once, newest first."""
    return {key_of(one): one for one in sorted(messages, key=_age_order, reverse=True)}


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
