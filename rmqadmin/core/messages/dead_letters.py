"""Dead letters by group: how many, and since when."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.files import state_dir
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, RefusedError, RocketMQError, StorageError, UsageError
from rmqproto.names import DLQ_PREFIX, group_in_topic
from rmqproto.times import TimeRange

if TYPE_CHECKING:
    from rmqadmin.core.messages.lookup import FoundMessage


Place = tuple[MessageQueue, int]
"""Queue and queue offset."""


def place_of(letter: FoundMessage) -> Place:
    stored = letter.stored
    return MessageQueue(stored.topic, letter.broker_name, stored.queue_id), stored.queue_offset


def redriven_before(admin: AdminClient, letters: Iterable[FoundMessage], ledger: str | None = None) -> set[Place]:
    """Those of the letters that a redrive has sent: the next one leaves them out. ``ledger``: the directory of all
    jobs' ledgers, if not the default one. StorageError for a ledger that cannot be read."""
    root = _with_jobs(ledger)
    if root is None:
        return set()
    from rmqreplay.ledger.letter_source import LiveLetters
    from rmqreplay.ledger.letters import letter_of
    from rmqreplay.ledger.sent_before import sent_of_letters

    found = {place_of(letter): letter_of(letter.stored, letter.properties) for letter in letters}
    return sent_of_letters(root, found, LiveLetters(admin))


def redriven_count(
    admin: AdminClient, ranges: Mapping[MessageQueue, tuple[int, int]], ledger: str | None = None
) -> int:
    """How many messages of these ranges of queue offsets a redrive has sent. Otherwise as ``redriven_before``."""
    root = _with_jobs(ledger)
    if root is None:
        return 0
    from rmqreplay.ledger.letter_source import LiveLetters
    from rmqreplay.ledger.sent_before import sent_of_ranges
    from rmqreplay.source.offset_ranges import OffsetRange

    asked: Sequence[OffsetRange] = [OffsetRange(queue, *ends) for queue, ends in ranges.items() if ends[0] < ends[1]]
    return sent_of_ranges(root, asked, LiveLetters(admin)).places.count


def _with_jobs(ledger: str | None) -> str | None:
    """The directory of the ledgers; None if it has no job, so that nothing else is loaded. StorageError if it cannot be
    read, or if the given one is none of ledgers."""
    root = os.path.abspath(ledger) if ledger is not None else str(state_dir() / "replay")
    if ledger is not None:
        from rmqreplay.ledger.sent_before import check_root

        check_root(root)
    try:
        with os.scandir(root) as entries:
            return root if any(entry.is_dir() for entry in entries) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{root} cannot be read: {error.strerror}") from None


class DeadLetters(msgspec.Struct, frozen=True):
    """A group's dead-letter queue: how many messages it holds, how many of them were redriven, and when the oldest and
    the newest were stored."""

    depth_count: int | None = None
    redriven_count: int | None = None
    oldest_ms: int | None = None
    newest_ms: int | None = None
    error: str | None = None

    @property
    def left_count(self) -> int | None:
        """How many were not redriven; None if that is not known."""
        if self.depth_count is None or self.redriven_count is None:
            return None
        return self.depth_count - self.redriven_count


def no_dead_letters(group: str) -> NotFoundError:
    return NotFoundError(
        f"group {group} has no dead letters", hint="`rmqadmin dlq ls` lists the groups that have some."
    )


def check_group(name: str) -> None:
    """UsageError for the name of a retry or dead-letter topic where the group's is asked for."""
    if (group := group_in_topic(name)) is not None:
        raise UsageError(f"{name} is a topic", hint=f"Name the group: {group}.")


def dead_letter_groups(admin: AdminClient) -> dict[str, str]:
    """The groups that have a dead-letter topic, sorted, each with the topic's name."""
    topics = sorted(topic for topic in admin.topic_list() if topic.startswith(DLQ_PREFIX))
    return {topic[len(DLQ_PREFIX) :]: topic for topic in topics}


def read_dead_letters(admin: AdminClient, topic: str, ledger: str | None = None) -> DeadLetters:
    """The contents of a dead-letter topic on all its brokers together. A failure is part of the result."""
    try:
        addrs = targets.selected_addrs(admin.topic_route(topic).broker_datas)
        return joined([read_dead_letters_of(admin, addr, topic, ledger) for addr in addrs])
    except RocketMQError as error:
        return DeadLetters(error=str(error))


def read_dead_letters_of(admin: AdminClient, broker_addr: str, topic: str, ledger: str | None = None) -> DeadLetters:
    """The contents of a dead-letter topic on one broker. ``ledger``: the directory of all redrives' ledgers, if not the
    default one; if they cannot be read, ``error`` says so."""
    depth, newest_ms, oldest = 0, 0, []
    table = targets.queue_ends(admin, broker_addr, topic)
    for queue, ends in table.items():
        depth += ends.max_offset - ends.min_offset
        newest_ms = max(newest_ms, ends.last_update_timestamp)
        if ends.max_offset > ends.min_offset:
            oldest.append(admin.earliest_store_time(broker_addr, topic, queue.queue_id))
    oldest_ms = min((ms for ms in oldest if ms is not None), default=None)
    try:
        ranges = {queue: (ends.min_offset, ends.max_offset) for queue, ends in table.items()}
        redriven = redriven_count(admin, ranges, ledger)
    except (StorageError, RefusedError) as error:  # refused: a topic of perm 2
        return DeadLetters(depth, None, oldest_ms, newest_ms or None, f"not known what was redriven: {error}")
    return DeadLetters(depth, redriven, oldest_ms, newest_ms or None)


def count_between(admin: AdminClient, topic: str, between: TimeRange, ledger: str | None = None) -> tuple[int, int]:
    """How many messages of a dead-letter topic, of those that remain, were stored in a range of times, whose end is not
    part of it; and how many of them were redriven. StorageError if the ledgers cannot be read."""
    ranges = {}
    for addr in targets.selected_addrs(admin.topic_route(topic).broker_datas):
        for queue, ends in targets.queue_ends(admin, addr, topic).items():
            begin, end = ends.min_offset, ends.max_offset
            if between.begin_ms is not None:
                if ends.last_update_timestamp < between.begin_ms:
                    continue
                begin = max(begin, admin.search_offset(addr, topic, queue.queue_id, between.begin_ms))
            if between.end_ms is not None and ends.last_update_timestamp >= between.end_ms:
                end = admin.search_offset(addr, topic, queue.queue_id, between.end_ms)
            ranges[queue] = (begin, max(begin, end))
    return sum(end - begin for begin, end in ranges.values()), redriven_count(admin, ranges, ledger)


def joined(parts: Sequence[DeadLetters]) -> DeadLetters:
    """The contents of one dead-letter topic on several brokers together. Unknown without brokers."""
    if not parts:
        return DeadLetters(error="no broker has the topic")
    redriven = [part.redriven_count for part in parts if part.redriven_count is not None]
    return DeadLetters(
        sum(part.depth_count or 0 for part in parts),
        sum(redriven) if len(redriven) == len(parts) else None,
        min((part.oldest_ms for part in parts if part.oldest_ms is not None), default=None),
        max((part.newest_ms for part in parts if part.newest_ms is not None), default=None),
        next((part.error for part in parts if part.error is not None), None),
    )
