"""Resolves "earliest", "latest", times and group names to the queue offsets that a read covers. The same code serves a
live cluster and store files, since both know the ends of queues."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, RocketMQError, UsageError
from rmqproto.names import is_system_topic
from rmqreplay.source.offset_ranges import OffsetRange, queue_text

T = TypeVar("T")

EARLIEST = -2
LATEST = -1
"""As in Spark's Kafka source; only in an ``OffsetTable``."""

OffsetTable = dict[str, dict[str, dict[int, int]]]
"""topic -> broker name -> queue id -> number."""


def nested(values: Mapping[MessageQueue, T]) -> dict[str, dict[str, dict[int, T]]]:
    """The values as in an ``OffsetTable``."""
    table: dict[str, dict[str, dict[int, T]]] = {}
    for queue, value in values.items():
        table.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[queue.queue_id] = value
    return table


@dataclass(frozen=True, slots=True)
class Where:
    """The start or end of a range. One field is set; ``keyword`` is earliest, latest or group."""

    keyword: str = ""
    group: str = ""
    table: OffsetTable = field(default_factory=dict)
    timestamp_ms: int | None = None
    timestamps_ms: OffsetTable = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRanges:
    """Which queues to read, and from where to where. At most one of ``topics``, ``topic_pattern`` and ``assigned``
    (topic -> broker name -> queue ids) is set; none means all topics."""

    topics: list[str] | None = None
    topic_pattern: str | None = None
    assigned: dict[str, dict[str, list[int]]] | None = None
    start: Where = Where(keyword="earliest")
    end: Where = Where(keyword="latest")
    missing_timestamp: str = "error"
    """What a starting time behind a queue's end is: error, or latest, which reads nothing."""
    fail_on_data_loss: bool = True
    include_internal_topics: bool = False


class DataLossError(RocketMQError):
    """Part of the requested range no longer exists."""


class Positions(Protocol):
    """The positions of queues, as a cluster or a store knows them."""

    def topics(self) -> list[str]: ...

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic, sorted; [] for an unknown topic."""

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """The first queue offset that exists, and the one that the next message will get."""

    def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time; the end if all are older."""

    def committed(self, group: str, queue: MessageQueue) -> int | None: ...


@dataclass(slots=True)
class Resolved:
    """``ranges``: each contains messages. ``gaps``: requested ranges that are gone (only with failOnDataLoss=false)."""

    ranges: list[OffsetRange] = field(default_factory=list)
    gaps: list[OffsetRange] = field(default_factory=list)


def resolve(options: WantedRanges, positions: Positions) -> Resolved:
    """The ranges that the options ask for. NotFoundError for a topic, queue or group that does not exist; DataLossError
    if part of the range is gone."""
    found = Resolved()
    queues = _wanted_queues(options, positions)
    _check_places(options.start, "starting", queues, positions)
    _check_places(options.end, "ending", queues, positions)
    for queue in queues:
        first, last = positions.bounds(queue)
        start = _place(options.start, queue, positions, first, last)
        end = _place(options.end, queue, positions, first, last)
        if start >= last > first and options.end.keyword == "latest":
            _check_time(options, queue)
        if start > end and queue_number(options.start.table, queue) is not None and end < last:
            raise UsageError(f"{queue_text(queue)}: the starting offset {start} is behind the ending offset {end}")
        if start < end or max(start, end) > last:
            _cut(found, options, queue, OffsetRange(queue, start, max(start, end)), first, last)
    return found


def starting_places(options: WantedRanges, positions: Positions) -> dict[MessageQueue, int]:
    """Where a stream begins in each of its queues. Errors as of ``resolve``."""
    queues = _wanted_queues(options, positions)
    _check_places(options.start, "starting", queues, positions)
    found = {}
    for queue in queues:
        first, last = positions.bounds(queue)
        start = _place(options.start, queue, positions, first, last)
        if start >= last > first:
            _check_time(options, queue)
        if not first <= start <= last and options.fail_on_data_loss:
            raise DataLossError(
                f"{queue_text(queue)}: offset {start} was asked for, {first} to {last} exist",
                hint="failOnDataLoss=false begins at the nearest",
            )
        found[queue] = min(max(start, first), last)
    return found


def _check_time(options: WantedRanges, queue: MessageQueue) -> None:
    """UsageError for a queue that would begin at a time, and has no message that late, if that is an error."""
    by_time = options.start.timestamp_ms is not None or queue_number(options.start.timestamps_ms, queue) is not None
    if by_time and options.missing_timestamp == "error":
        raise UsageError(
            f"{queue_text(queue)} has no message at or after the starting timestamp",
            hint="startingOffsetsByTimestampStrategy=latest reads nothing from such queues",
        )


def _check_places(where: Where, prefix: str, queues: Sequence[MessageQueue], positions: Positions) -> None:
    """NotFoundError for a queue in JSON that is not read, and for a group that none of the queues knows: a typing
    error there must not read everything."""
    known = {queue_text(queue): queue for queue in queues}
    for table in (where.table, where.timestamps_ms):
        named = (
            MessageQueue(topic, broker, queue_id)
            for topic, brokers in table.items()
            for broker, ids in brokers.items()
            for queue_id in ids
        )
        for queue in named:
            if queue_text(queue) not in known:
                raise NotFoundError(
                    f"option {prefix}Offsets names {queue_text(queue)}, which is none of the queues that are read",
                    hint=did_you_mean(queue_text(queue), known)
                    or f"these are read: {', '.join(sorted(known)[:8]) or 'none'}",
                )
    if where.keyword == "group" and queues and all(positions.committed(where.group, each) is None for each in queues):
        topics = ", ".join(sorted({queue.topic for queue in queues}))
        raise NotFoundError(
            f"the group {where.group} has no committed offset in {topics}",
            hint=f"check its name, or leave out {prefix}Offsets",
        )


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint that suggests the most similar name, ignoring case; None if none is similar."""
    spelled = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), spelled, 1)
    return f"did you mean {spelled[near[0]]}?" if near else None


def _cut(
    found: Resolved, options: WantedRanges, queue: MessageQueue, wanted: OffsetRange, first: int, last: int
) -> None:
    start, end = max(wanted.start, first), min(wanted.end, last)
    if (start, end) != (wanted.start, wanted.end):
        if options.fail_on_data_loss:
            raise DataLossError(
                f"{queue_text(queue)}: offsets {wanted.start} to {wanted.end} were asked for, {first} to {last} exist",
                hint="failOnDataLoss=false reads what is left",
            )
        found.gaps.append(wanted)
    if start < end:
        found.ranges.append(OffsetRange(queue, start, end))


def _wanted_queues(options: WantedRanges, positions: Positions) -> list[MessageQueue]:
    """Each once, although a user may name a topic or a queue twice."""
    if options.assigned is not None:
        return _assigned(options.assigned, positions)
    queues, known = [], positions.topics()
    for topic in wanted_topics(options, known):
        of_topic = positions.queues(topic)
        if not of_topic and options.topics is not None and options.fail_on_data_loss:
            if topic in known:
                hint = f"rmqadmin topicRoute -t '{topic}' shows its permissions; updateTopicPerm gives R"
                raise NotFoundError(f"no queue of the topic {topic} can be read", hint=hint)
            raise NotFoundError(f"there is no topic {topic}", hint=did_you_mean(topic, known))
        queues += of_topic
    return list(dict.fromkeys(queues))


def _assigned(assigned: dict[str, dict[str, list[int]]], positions: Positions) -> list[MessageQueue]:
    queues = []
    for topic, brokers in assigned.items():
        known = positions.queues(topic)
        for broker_name, ids in brokers.items():
            for queue_id in dict.fromkeys(ids):
                queue = MessageQueue(topic, broker_name, queue_id)
                if queue not in known:
                    hint = did_you_mean(queue_text(queue), map(queue_text, known))
                    raise NotFoundError(f"there is no queue {queue_text(queue)}", hint=hint)
                queues.append(queue)
    return queues


def wanted_topics(options: WantedRanges, known: Iterable[str]) -> list[str]:
    """The topics that are named or match. Internal ones are included only if they are named, or with
    includeInternalTopics."""
    if options.topics is not None:
        return options.topics
    pattern = re.compile(options.topic_pattern) if options.topic_pattern is not None else None
    return sorted(
        topic
        for topic in known
        if (pattern is None or pattern.fullmatch(topic))
        and (options.include_internal_topics or not is_system_topic(topic))
    )


def queue_number(table: dict[str, dict[str, dict[int, int]]], queue: MessageQueue) -> int | None:
    return table.get(queue.topic, {}).get(queue.broker_name, {}).get(queue.queue_id)


def _place(where: Where, queue: MessageQueue, positions: Positions, first: int, last: int) -> int:
    timestamp_ms = where.timestamp_ms
    if timestamp_ms is None:
        timestamp_ms = queue_number(where.timestamps_ms, queue)
    if timestamp_ms is not None:
        return positions.offset_for_time(queue, timestamp_ms)
    if where.keyword == "group":
        committed = positions.committed(where.group, queue)
        return first if committed is None else committed
    number = queue_number(where.table, queue)
    if number is None:
        return first if where.keyword == "earliest" else last
    return {EARLIEST: first, LATEST: last}.get(number, number)
