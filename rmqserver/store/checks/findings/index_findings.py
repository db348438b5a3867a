"""Faults of the index, and whether a start repairs them. A file that differs from its rebuilt version is compared entry
by entry here, by reading its part of the log again."""

from __future__ import annotations

from collections.abc import Iterator

from rmqproto.wording import counted
from rmqserver.store.checks.findings.checked_store import CheckedStore
from rmqserver.store.checks.findings.finding import FindingKind, Severity
from rmqserver.store.checks.looks.index_check import CheckedIndexFile, IndexCheck
from rmqserver.store.checks.looks.index_diff import EntryRun, EntryState, IndexDiff
from rmqserver.store.checks.looks.log_walk import walk
from rmqserver.store.disk.disk import is_empty
from rmqserver.store.fate import FATE_MASK, INDEXED
from rmqserver.store.index.file import HEADER, INDEX_UNIT, SLOT, file_size_bytes, index_item
from rmqserver.store.log.scan import is_record
from rmqserver.store.queues.consume_queues import Topic
from rmqserver.store.queues.round import IndexItem

MADE_ANEW = "makes it anew from the log"
MISSED = "leaves it: look-ups by key miss messages"


def add_all(checked: CheckedStore) -> None:
    _add_sizes(checked)
    index = checked.index
    if index is None:
        if not checked.found.has_index_counts:
            checked.add(
                Severity.WARNING if checked.found.is_clean else Severity.NOTE, FindingKind.INDEX_COUNTS,
                "nothing tells how many slots these files have: not checked",
                "index", ours=checked.ours.refused("takes the counts of its configuration"),
                apache=checked.apache.refused("takes the counts of its configuration"),
            )  # fmt: skip
        return
    for file in index.files:
        _add_rubbish(checked, file)
        if file.is_equal:
            continue
        if _is_untrusted(checked, file):
            checked.add(
                Severity.NOTE, FindingKind.UNCLEAN, "no checkpoint speaks of it, and after a crash none is needed",
                _path(checked, file), ours=checked.ours.refused(MADE_ANEW), apache=checked.apache.refused(MADE_ANEW),
            )  # fmt: skip
        else:
            _add_differences(checked, file)
    _add_missing(checked, index)


def _path(checked: CheckedStore, file: CheckedIndexFile) -> str:
    return checked.found.below(file.found.path)


def _is_untrusted(checked: CheckedStore, file: CheckedIndexFile) -> bool:
    """Whether both brokers remove the file at a start: after a crash they remove files newer than the checkpoint."""
    found = checked.found
    return not found.is_clean and file.found.header.end_timestamp_ms > found.checkpoint.index_timestamp_ms


def _add_rubbish(checked: CheckedStore, file: CheckedIndexFile) -> None:
    """Checks the bytes behind the last entry. A broker that runs or was killed may leave entries there that no header
    counts yet."""
    at = file.found.units_at + INDEX_UNIT.size * (file.found.entry_count + 1)
    if checked.found.is_clean and not is_empty(file.found.file, at, file.found.file.size()):
        checked.add(
            Severity.WARNING, FindingKind.INDEX_ENTRY, "bytes behind the last entry that no broker has written",
            _path(checked, file), at, ours=checked.ours.refused("writes over them"),
            apache=checked.apache.refused("writes over them"),
        )  # fmt: skip


def _add_sizes(checked: CheckedStore) -> None:
    disk, options = checked.found.disk, checked.found.options
    expected = file_size_bytes(options.index_slot_count, options.index_unit_count)
    for path in checked.found.paths.index_paths() if checked.found.has_index_counts else ():
        size = disk.file_size(path)
        if size and size != expected:
            checked.add(
                Severity.ERROR, FindingKind.FILE_SIZE, f"{size:,} bytes, where files have {expected:,}",
                checked.found.below(path), min(size, expected), ours=checked.ours.refused("refuses to start"),
                apache=checked.apache.refused("reads what is there"),
            )  # fmt: skip
        elif not size:
            checked.add(
                Severity.NOTE, FindingKind.FILE_SIZE, "an empty file: a crash came while it was made",
                checked.found.below(path), ours=checked.ours.refused("removes it"),
                apache=checked.apache.refused("fills it"),
            )  # fmt: skip


def _add_missing(checked: CheckedStore, index: IndexCheck) -> None:
    end = checked.records.end_offset
    for count, where, log_offset in (
        (index.before_count, "before the first file's", checked.log.min_offset),
        (index.between_count, "between two files'", checked.log.min_offset),
        (index.behind_count, "behind the last file's", index.behind[0] if index.behind else end),
    ):
        if not count:
            continue
        dry = checked.dry.store.index if checked.dry.refusal is None else None
        last = index.behind[1] if index.behind else 0
        is_mended = dry is not None and (
            not index.files or (count == index.behind_count and dry.end_log_offset >= last)
        )
        is_usual = not index.files or (is_mended and not checked.found.is_clean)
        checked.add_of_log(
            Severity.NOTE if is_usual else Severity.WARNING if is_mended else Severity.ERROR, FindingKind.INDEX_MISSING,
            f"{counted(count, 'message')} {where} entries" if index.files else "there is no index", log_offset,
            count=count, ours=checked.ours.refused(MADE_ANEW if is_mended else MISSED),
            apache=checked.apache.refused(MISSED if checked.found.is_clean or not index.files else MADE_ANEW),
        )  # fmt: skip


# -- one file


def _add_differences(checked: CheckedStore, file: CheckedIndexFile) -> None:
    found, diff = file.found, IndexDiff(file, checked.log.min_offset)
    diff.run(_items(checked, found.first_offset, found.last_offset))
    is_mended = checked.dry.refusal is None and not _is_kept(checked, file)
    ours = checked.ours.refused(MADE_ANEW if is_mended else MISSED)
    apache = checked.apache.refused(MISSED)
    severity = Severity.WARNING if is_mended else Severity.ERROR
    if checked.found.is_in_use:  # the header is written before or after the entries
        severity = Severity.NOTE
    for what, at in _header_differences(file, diff):
        checked.add(
            severity, FindingKind.INDEX_HEADER, what, _path(checked, file), at,
            log_offset=found.first_offset, ours=ours, apache=apache,
        )  # fmt: skip
    for run in diff.runs:
        kind, what, at = _told(file, run)
        is_harmless = run.state is EntryState.TWICE
        checked.add(
            Severity.NOTE if is_harmless else Severity.WARNING if is_mended else Severity.ERROR, kind, what,
            _path(checked, file), at, log_offset=run.log_offset if run.log_offset >= 0 else None, count=run.count,
            ours="leaves it: it harms nobody" if is_harmless else ours,
            apache="leaves it: it harms nobody" if is_harmless else apache,
        )  # fmt: skip


def _is_kept(checked: CheckedStore, file: CheckedIndexFile) -> bool:
    """Whether a start of our broker keeps the file as it is."""
    disk = checked.dry.disk
    return disk.is_file(file.found.path) and file.found.path not in disk.removed_paths()


def _items(checked: CheckedStore, first: int, last: int) -> Iterator[IndexItem]:
    """What the index must hold for the log between two offsets."""
    log, topics = checked.log, checked.queues.topics
    start = max(first, log.min_offset)
    if not is_record(log, start):
        start = max(log.base_of(start), log.min_offset)
    for each in walk(log, start):
        for found in each if isinstance(each, list) else [each.record] if each.record is not None else []:
            if found.log_offset > last:
                return
            topic: Topic = topics.get(found.topic) or Topic(found.topic)
            if found.log_offset >= first and topic.fates[found.sys_flag & FATE_MASK] & INDEXED:
                yield index_item(topic, found.log_offset, found.store_timestamp_ms, found.properties)


def _header_differences(file: CheckedIndexFile, diff: IndexDiff) -> Iterator[tuple[str, int]]:
    """Each difference in words, with its place in the file."""
    found, header = file.found, file.found.told
    told = {
        0: ("begin time", header.begin_timestamp_ms, diff.begin_ms),
        8: ("end time", header.end_timestamp_ms, diff.end_ms),
        16: ("begin log offset", header.begin_log_offset, found.first_offset),
        24: ("end log offset", header.end_log_offset, found.last_offset),
        32: ("slots in use", header.used_slot_count, diff.used_slot_count),
        36: ("next entry", header.next_unit, found.entry_count + 1),
    }
    for at, (name, says, is_really) in told.items():
        if is_really is not None and says != is_really:
            yield f"{name} {says} is not {is_really}", at


def _told(file: CheckedIndexFile, run: EntryRun) -> tuple[FindingKind, str, int]:
    entry_at = file.found.units_at + INDEX_UNIT.size * run.number
    entries = counted(run.count, "entry", "entries")
    match run.state:
        case EntryState.SLOT:
            slots = counted(run.count, "slot")
            return (
                FindingKind.INDEX_SLOT,
                f"{slots} not leading to the newest entry",
                HEADER.size + SLOT.size * run.number,
            )
        case EntryState.MISSING:
            return FindingKind.INDEX_MISSING, f"{entries} of messages are not there", entry_at
        case EntryState.CHAIN:
            return FindingKind.INDEX_ENTRY, f"{entries} not leading to the one before in the slot", entry_at
        case EntryState.TWICE:
            return FindingKind.INDEX_ENTRY, f"{entries} of messages that have theirs before", entry_at
        case EntryState.STRAY:
            return (
                FindingKind.INDEX_ENTRY,
                f"{entries} pointing to log offset {run.log_offset}, where no message begins",
                entry_at,
            )
        case EntryState.WRONG:
            return (
                FindingKind.INDEX_ENTRY,
                f"{entries} not those of the message at log offset {run.log_offset}",
                entry_at,
            )
