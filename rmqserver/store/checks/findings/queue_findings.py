"""Faults of consume queues, and whether a start repairs them."""

from __future__ import annotations

from collections import Counter

from rmqproto.names import LIGHT_QUEUE_PREFIX, is_system_topic
from rmqproto.wording import counted
from rmqserver.store.checks.findings.checked_store import CheckedStore
from rmqserver.store.checks.findings.finding import FindingKind, Severity
from rmqserver.store.checks.found_files import FoundFiles
from rmqserver.store.checks.found_tables import TOPICS
from rmqserver.store.checks.looks.checked_queue import CheckedQueue, UnitRun, UnitState
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import FILES_RECOVERED, UNIT

PASSED_OVER = "leaves it: consumers never get them"
SERVED = "leaves it: consumers get what it points to, or pass over it"

_SHIFT_MS_MAX = 30 * 24 * 3_600_000
_MS_PER_S = 1000

_NAMES_SHOWN = 10


def add_all(checked: CheckedStore) -> None:
    for queue in checked.queues.queues():
        topic = checked.queues.topics[queue.topic]
        if not topic.is_there and _is_deleted(checked, queue.topic):
            checked.add(
                Severity.NOTE, FindingKind.TOPIC_DELETED,
                f"{counted(queue.unit_count, 'message')} of a topic that is deleted", _path(checked, queue),
                topic=queue.topic, queue_id=queue.queue_id, count=queue.unit_count,
                ours="leaves them until they expire", apache="leaves them until they expire",
            )  # fmt: skip
            continue
        if _has_other_delay(queue):
            _add_other_delay(checked, queue)
            continue
        for run in queue.runs:
            _add_run(checked, queue, run)
        if queue.dropped_runs:
            checked.add(
                Severity.ERROR, FindingKind.UNIT_WRONG,
                f"and {counted(queue.dropped_runs, 'more run')} of such units",
                _path(checked, queue), topic=queue.topic, queue_id=queue.queue_id, count=queue.dropped_runs,
            )  # fmt: skip
        _add_unnamed(checked, queue)
    if checked.known_topics is None:
        _add_missing_table(checked)


def _is_deleted(checked: CheckedStore, topic: str) -> bool:
    known = checked.known_topics
    return known is not None and topic not in known and not topic.startswith(LIGHT_QUEUE_PREFIX)


def _path(checked: CheckedStore, queue: CheckedQueue) -> str:
    return checked.found.below(queue.files.directory)


def _has_other_delay(queue: CheckedQueue) -> bool:
    """Whether the due times of all units of a delay level differ from its default by the same amount."""
    if len(queue.shifts) != 1:
        return False
    ((shift, count),) = queue.shifts.items()
    is_plausible = abs(shift) <= _SHIFT_MS_MAX and not shift % _MS_PER_S
    return 1 < count == queue.unit_count == sum(run.count for run in queue.runs) and is_plausible


def _add_other_delay(checked: CheckedStore, queue: CheckedQueue) -> None:
    ((shift, count),) = queue.shifts.items()
    checked.add(
        Severity.NOTE, FindingKind.UNIT_WRONG,
        f"all {count:,} messages are due {shift:+,} ms from what the default delay of level {queue.queue_id + 1} says: "
        "messageDelayLevel was another", _path(checked, queue), topic=queue.topic, queue_id=queue.queue_id, count=count,
        ours="delivers them when they are due", apache="delivers them when they are due",
    )  # fmt: skip


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
    for queue in checked.queues.queues():
        if queue.unit_count and not _needs_no_name(queue.topic):
            counts[queue.topic] += queue.unit_count
    if not counts:
        return
    shown = ", ".join(sorted(counts)[:_NAMES_SHOWN]) + (", …" if len(counts) > _NAMES_SHOWN else "")
    checked.add(
        Severity.WARNING, FindingKind.TABLE_TOPIC,
        f"no table of topics, and {counted(sum(counts.values()), 'message')} of {counted(len(counts), 'topic')}: "
        f"{shown}", checked.found.below(f"{checked.found.paths.config}/{TOPICS}"), count=len(counts),
        ours=checked.ours.refused("serves them when the topics are made again"),
        apache=checked.apache.refused("serves them when the topics are made again"),
    )  # fmt: skip


def _add_run(checked: CheckedStore, queue: CheckedQueue, run: UnitRun) -> None:
    at = run.queue_offset * UNIT_SIZE_BYTES
    base = queue.files.base_of(at)
    is_there = base in queue.files.bases
    path = checked.found.below(queue.files.path(base)) if is_there else _path(checked, queue)
    severity, kind, what, lost_messages = _judged(checked, queue, run)
    becomes_ours, becomes_apache = _becomes(checked, queue, run)
    checked.add(
        severity, kind, what, path, at - base if is_there else None, log_offset=run.log_offset, topic=queue.topic,
        queue_id=queue.queue_id, queue_offset=run.queue_offset, count=run.count, lost_messages=lost_messages,
        ours=becomes_ours, apache=becomes_apache,
    )  # fmt: skip


def _judged(checked: CheckedStore, queue: CheckedQueue, run: UnitRun) -> tuple[Severity, FindingKind, str, int]:
    """Severity, kind, description, and the number of lost messages that no other finding reports."""
    units = counted(run.count, "unit")
    match run.state:
        case UnitState.MISSING:
            where = "" if queue.files.bases else ": the queue has no file"
            what = f"no unit for {counted(run.count, 'message')}{where}"
            return _missing_severity(checked, queue, run), FindingKind.UNIT_MISSING, what, 0
        case UnitState.WRONG:
            severity = Severity.WARNING if _is_mended(checked, queue, run) else Severity.ERROR
            return severity, FindingKind.UNIT_WRONG, f"{units}: {_difference(run)}", 0
        case UnitState.OTHER_PLACE:
            what = f"the message at log offset {run.log_offset} says that it is here, where the unit of another one is"
            return Severity.ERROR, FindingKind.UNIT_WRONG, what, 0
        case UnitState.STRAY:
            what = f"{units} pointing to log offset {run.log_offset}, where no message of this place begins"
            return Severity.ERROR, FindingKind.UNIT_WRONG, what, 0
        case UnitState.LOST:
            what = f"{units} pointing to log offset {run.log_offset}, where the log has no record"
            return _lost_severity(checked, run), FindingKind.UNIT_LOST, what, 0
        case UnitState.HOLE:
            what = f"nothing for {counted(run.count, 'message')}, and none in the log either"
            return Severity.ERROR, FindingKind.UNIT_MISSING, what, run.count
        case UnitState.RUBBISH:
            severity = Severity.WARNING if checked.found.is_clean else Severity.NOTE
            return severity, FindingKind.UNIT_TAIL, "bytes behind the last unit that are none", 0


def _missing_severity(checked: CheckedStore, queue: CheckedQueue, run: UnitRun) -> Severity:
    if _is_mended(checked, queue, run):
        is_usual = not checked.found.is_clean and run.end_offset == queue.next_offset
        return Severity.NOTE if is_usual else Severity.WARNING
    # Without a table of topics, a deleted topic looks like one that lost its queues.
    is_known = bool(queue.files.bases) or checked.known_topics is not None
    return Severity.ERROR if is_known else Severity.WARNING


def _lost_severity(checked: CheckedStore, run: UnitRun) -> Severity:
    """A power cut may have taken the end of a log before it was acknowledged; the log's own finding says so."""
    return Severity.ERROR if run.log_offset < checked.records.end_offset else Severity.WARNING


def _difference(run: UnitRun) -> str:
    wanted, there = UNIT.unpack(run.expected[: UNIT.size]), UNIT.unpack(run.found)
    names = ("log offset", "size", "tags code")
    texts = [
        f"{name} {found} is not {right}"
        for name, found, right in zip(names, there, wanted, strict=True)
        if found != right
    ]
    return ", ".join(texts)


def _is_mended(checked: CheckedStore, queue: CheckedQueue, run: UnitRun) -> bool:
    """Whether a start of our broker would leave the units as the log calls for them."""
    dry, files = checked.dry, queue.files
    if dry.refusal is not None or not run.expected:
        return False
    cache = FileCache(dry.disk, 1, read_only=True)
    after = FoundFiles(files.directory, files.file_size_bytes, dry.disk, cache)
    return after.span(run.queue_offset * UNIT_SIZE_BYTES, len(run.expected)) == run.expected


def _becomes(checked: CheckedStore, queue: CheckedQueue, run: UnitRun) -> tuple[str, str]:
    match run.state:
        case UnitState.MISSING:
            is_mended = _is_mended(checked, queue, run)
            ours = "makes them anew from the log" if is_mended else PASSED_OVER
            apache = _apache_makes(checked, queue, run)
        case UnitState.WRONG:
            is_mended = _is_mended(checked, queue, run)
            ours, apache = "makes them anew from the log" if is_mended else SERVED, SERVED
        case UnitState.LOST if run.log_offset >= checked.records.end_offset:
            ours = apache = "forgets them"
        case UnitState.RUBBISH:
            ours = "nothing" if checked.found.is_clean else "clears them"
            apache = "writes over them"
        case UnitState.HOLE:
            ours = apache = "leaves it: there is nothing to make it from"
        case _:
            ours = apache = SERVED
    return checked.ours.refused(ours), checked.apache.refused(apache)


def _apache_makes(checked: CheckedStore, queue: CheckedQueue, run: UnitRun) -> str:
    """Apache's broker ends a queue at the first empty unit of its last three files, and dispatches records from where
    it starts to read the log."""
    is_read = run.log_offset >= checked.apache.dispatched_from
    is_tail = run.end_offset == queue.next_offset
    first_read = queue.files.bases[-FILES_RECOVERED:][:1]
    is_seen = not first_read or run.queue_offset * UNIT_SIZE_BYTES >= first_read[0]
    if is_tail or is_seen:
        if is_read:
            return "makes them anew from the log"
        return PASSED_OVER if is_tail else "ends the queue here: consumers never get what is behind"
    return PASSED_OVER
