"""Files that are missing, have another size, or do not belong there."""

from __future__ import annotations

from rmqserver.store.checks.checked_store import CheckedStore
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.checks.found_files import FoundFiles, OddFile


def add_all(checked: CheckedStore) -> None:
    _add_of(checked, checked.log, is_log=True)
    for queue in checked.queues.queues.values():
        _add_of(checked, queue.files)


def apache_refusal(files: FoundFiles) -> str:
    """Why Apache's broker would not load these files (``MappedFileQueue.load``, 5.5.0); empty if it would."""
    for odd in files.odd:
        is_last = files.bases and odd.name == files.path(files.bases[-1]).rpartition("/")[2]
        if not odd.is_gap and not (is_last and odd.size_bytes == 0):
            return f"{odd.name} in {files.directory.rpartition('/')[2]}/ has {odd.size_bytes} bytes"
    return ""


def _add_of(checked: CheckedStore, files: FoundFiles, *, is_log: bool = False) -> None:
    for odd in files.odd:
        path = checked.found.below(f"{files.directory}/{odd.name}")
        if odd.is_stray:
            checked.add(
                Severity.WARNING, FindingKind.FILE_STRAY, "no file of a store has such a name", path,
                becomes=("passes over it", "refuses to start"),
            )  # fmt: skip
        elif odd.is_gap:
            checked.add(
                Severity.ERROR, FindingKind.FILE_MISSING, "the file before this one is not there", path,
                becomes=("refuses to use this queue", "reads on in this file"),
            )  # fmt: skip
        else:
            _add_size(checked, files, odd, path, is_log=is_log)


def _add_size(checked: CheckedStore, files: FoundFiles, odd: OddFile, path: str, *, is_log: bool) -> None:
    is_last = int(odd.name) == files.bases[-1]
    if is_last and odd.size_bytes == 0:
        severity = Severity.NOTE if not checked.found.is_clean else Severity.WARNING
        checked.add(
            severity, FindingKind.FILE_SIZE, "an empty last file: a crash came while it was made", path,
            becomes="removes it",
        )  # fmt: skip
        return
    is_mended = not is_log and not checked.ours.refusal
    checked.add(
        Severity.ERROR, FindingKind.FILE_SIZE, f"{odd.size_bytes:,} bytes, where files have {files.file_size_bytes:,}",
        path, min(odd.size_bytes, files.file_size_bytes),
        becomes=("refuses to use this queue" if is_mended else "reads what is there", "refuses to start"),
    )  # fmt: skip
