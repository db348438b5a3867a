"""Faults of the index, and whether a start repairs them."""

from __future__ import annotations

from rmqproto.wording import counted
from rmqserver.store.checks.checked_store import CheckedStore
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.checks.index_check import CheckedIndexFile, IndexCheck
from rmqserver.store.index.index_file import file_size_bytes

MADE_ANEW = "makes it anew from the log"
MISSED = "leaves it: look-ups by key miss messages"


def add_all(checked: CheckedStore) -> None:
    _add_sizes(checked)
    index = checked.index
    if index is None:
        if not checked.found.has_index_counts:
            checked.add(
                Severity.WARNING if checked.found.is_clean else Severity.NOTE, FindingKind.INDEX_COUNTS,
                "nothing tells how many slots these files have: not checked", "index",
                becomes="takes the counts of its configuration",
            )  # fmt: skip
        return
    for file in index.files:
        if file.problem is None:
            continue
        if _is_untrusted(checked, file):
            checked.add(
                Severity.NOTE, FindingKind.UNCLEAN, "no checkpoint speaks of it, and after a crash none is needed",
                _path(checked, file), becomes=MADE_ANEW,
            )  # fmt: skip
        else:
            _add_difference(checked, file, *file.problem)
    _add_missing(checked, index)


def _path(checked: CheckedStore, file: CheckedIndexFile) -> str:
    return checked.found.below(file.found.path)


def _is_untrusted(checked: CheckedStore, file: CheckedIndexFile) -> bool:
    """Whether both brokers remove the file at a start: after a crash they remove files newer than the checkpoint."""
    found = checked.found
    return not found.is_clean and file.found.header.end_timestamp_ms > found.checkpoint.index_timestamp_ms


def _add_sizes(checked: CheckedStore) -> None:
    disk, options = checked.found.disk, checked.found.options
    expected = file_size_bytes(options.index_slot_count, options.index_unit_count)
    for path in checked.found.paths.index_paths() if checked.found.has_index_counts else ():
        size = disk.file_size(path)
        if size and size != expected:
            checked.add(
                Severity.ERROR, FindingKind.FILE_SIZE, f"{size:,} bytes, where files have {expected:,}",
                checked.found.below(path), min(size, expected), becomes=("refuses to start", "reads what is there"),
            )  # fmt: skip
        elif not size:
            checked.add(
                Severity.NOTE, FindingKind.FILE_SIZE, "an empty file: a crash came while it was made",
                checked.found.below(path), becomes=("removes it", "fills it"),
            )  # fmt: skip


def _add_missing(checked: CheckedStore, index: IndexCheck) -> None:
    dry = checked.dry.store.index if checked.dry.refusal is None else None
    is_mended = dry is not None and (not index.files or dry.end_log_offset >= index.behind[1])
    for count, where, log_offset, is_made in (
        (index.outside_count, "before the entries of a file", index.outside_at, False),
        (index.behind_count, "behind the last file's entries", index.behind[0], is_mended),
    ):
        if not count:
            continue
        is_usual = not index.files or (is_made and not checked.found.is_clean)
        checked.add_of_log(
            Severity.NOTE if is_usual else Severity.WARNING if is_made else Severity.ERROR, FindingKind.INDEX_DIFFERS,
            f"no entries for {counted(count, 'message')} {where}" if index.files else "there is no index", log_offset,
            count=count,
            becomes=(
                MADE_ANEW if is_made else MISSED,
                MISSED if checked.found.is_clean or not index.files else MADE_ANEW,
            ),
        )  # fmt: skip


def _add_difference(checked: CheckedStore, file: CheckedIndexFile, what: str, at: int) -> None:
    is_mended = checked.dry.refusal is None and not _is_kept(checked, file)
    severity = Severity.WARNING if is_mended else Severity.ERROR
    if checked.found.is_in_use:  # the header is written before or after the entries
        severity = Severity.NOTE
    checked.add(
        severity, FindingKind.INDEX_DIFFERS, f"differs from the log, first here: {what}", _path(checked, file), at,
        becomes=(MADE_ANEW if is_mended else MISSED, MISSED),
    )  # fmt: skip


def _is_kept(checked: CheckedStore, file: CheckedIndexFile) -> bool:
    """Whether a start of our broker keeps the file as it is."""
    disk = checked.dry.disk
    return disk.is_file(file.found.path) and file.found.path not in disk.removed_paths()
