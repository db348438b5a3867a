"""Consume queues that are not as the log says, and whether a start makes them anew."""

from __future__ import annotations

from collections import Counter

from rmqproto.names import LIGHT_QUEUE_PREFIX, is_system_topic
from rmqproto.wording import counted
from rmqserver.store.checks.checked_store import CheckedStore
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.checks.found_tables import TOPICS
from rmqserver.store.checks.queue_check import CheckedQueue, Difference
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import FILES_RECOVERED

MADE_ANEW = "makes it anew from the log"
PASSED_OVER = "leaves it: consumers never get what is missing"
SERVED = "leaves it: consumers get what it points to, or pass over it"

_NAMES_SHOWN = 10


def add_all(checked: CheckedStore) -> None:
    for queue in checked.queues.queues.values():
        if not queue.is_there and _is_deleted(checked, queue.topic):
            checked.add(
                Severity.NOTE, FindingKind.TOPIC_DELETED,
                f"{counted(queue.unit_count, 'message')} of a topic that is deleted", _path(checked, queue),
                topic=queue.topic, queue_id=queue.queue_id, count=queue.unit_count,
                ours="leaves them until they expire", apache="leaves them until they expire",
            )  # fmt: skip
            continue
        if queue.difference is not None:
            _add_difference(checked, queue, queue.difference)
        _add_unnamed(checked, queue)
    if checked.known_topics is None:
        _add_missing_table(checked)


def _is_deleted(checked: CheckedStore, topic: str) -> bool:
    known = checked.known_topics
    return known is not None and topic not in known and not topic.startswith(LIGHT_QUEUE_PREFIX)


def _path(checked: CheckedStore, queue: CheckedQueue) -> str:
    return checked.found.below(queue.files.directory)


def _add_unnamed(checked: CheckedStore, queue: CheckedQueue) -> None:
    known, topic = checked.known_topics, queue.topic
    if known is None or topic in known or _needs_no_name(topic):
        return
    checked.add(
        Severity.WARNING, FindingKind.TABLE_TOPIC,
        f"{counted(queue.unit_count, 'message')} of a topic that config/topics.json does not name",
        _path(checked, queue), topic=topic, queue_id=queue.queue_id, count=queue.unit_count,
        ours="serves them when the topic is made again", apache="serves them when the topic is made again",
    )  # fmt: skip


def _needs_no_name(topic: str) -> bool:
    """Whether brokers serve the topic though config/topics.json does not name it."""
    return topic.startswith(LIGHT_QUEUE_PREFIX) or is_system_topic(topic)


def _add_missing_table(checked: CheckedStore) -> None:
    """Brokers begin with an empty table. Without messages, that is a store which no topic was made in."""
    counts: Counter[str] = Counter()
    for queue in checked.queues.queues.values():
        if queue.unit_count and not _needs_no_name(queue.topic):
            counts[queue.topic] += queue.unit_count
    if not counts:
        return
    shown = ", ".join(sorted(counts)[:_NAMES_SHOWN]) + (", …" if len(counts) > _NAMES_SHOWN else "")
    checked.add(
        Severity.WARNING, FindingKind.TABLE_TOPIC,
        f"no table of topics, and {counted(sum(counts.values()), 'message')} of {counted(len(counts), 'topic')}: "
        f"{shown}", checked.found.below(f"{checked.found.paths.config}/{TOPICS}"), count=len(counts),
        becomes="serves them when the topics are made again",
    )  # fmt: skip


def _add_difference(checked: CheckedStore, queue: CheckedQueue, first: Difference) -> None:
    at = first.queue_offset * UNIT_SIZE_BYTES
    base = queue.files.base_of(at)
    is_there = base in queue.files.bases
    path = checked.found.below(queue.files.path(base)) if is_there else _path(checked, queue)
    is_harmless = queue.is_mended or first.is_tail
    if is_harmless and not checked.found.is_clean:
        severity = Severity.NOTE
    # Without a table of topics, a deleted topic looks like one that lost its queues.
    elif is_harmless or (not queue.files.bases and checked.known_topics is None):
        severity = Severity.WARNING
    else:
        severity = Severity.ERROR
    checked.add(
        severity, FindingKind.QUEUE_DIFFERS, f"differs from the log, first here: {first.what}", path,
        at - base if is_there else None, log_offset=first.log_offset, topic=queue.topic, queue_id=queue.queue_id,
        queue_offset=first.queue_offset,
        becomes=(_becomes_ours(checked, queue, first), _becomes_apache(checked, queue, first)),
    )  # fmt: skip


def _becomes_ours(checked: CheckedStore, queue: CheckedQueue, first: Difference) -> str:
    if first.is_tail:
        return "nothing" if checked.found.is_clean else "clears it"
    if queue.is_mended:
        return MADE_ANEW
    return PASSED_OVER if first.is_empty else SERVED


def _becomes_apache(checked: CheckedStore, queue: CheckedQueue, first: Difference) -> str:
    """Apache's broker ends a queue at the first empty unit of its last three files, and dispatches records from where
    it starts to read the log."""
    if first.is_tail:
        return "writes over it"
    if not first.is_empty:
        return SERVED
    first_read = queue.files.bases[-FILES_RECOVERED:][:1]
    if first_read and first.queue_offset * UNIT_SIZE_BYTES < first_read[0]:
        return PASSED_OVER
    is_read = first.log_offset >= checked.apache.dispatched_from
    return MADE_ANEW if is_read else "ends the queue here: consumers never get what is behind"
