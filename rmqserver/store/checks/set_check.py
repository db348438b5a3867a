"""Faults of the files that tell a broker its place in a set (epochs and identity, read under a controller), and of the
file of producers' numbers."""

from __future__ import annotations

from rmqproto.errors import ProtocolError
from rmqserver.store.checks.checked_store import CheckedStore
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.disk.whole_files import BACKUP
from rmqserver.store.epochs import (
    APPLIED_PART_COUNT,
    PART_COUNT,
    EpochList,
    epochs_in_untrusted,
    identity_parts_untrusted,
)
from rmqserver.store.sequences import sequence_table

EPOCHS, IDENTITY, APPLIED = "epochFileCheckpoint", "brokerIdentity", "brokerIdentity-temp"
SEQUENCES = "producerSequences"
PATHS = frozenset({EPOCHS, EPOCHS + BACKUP, IDENTITY, APPLIED, SEQUENCES, SEQUENCES + BACKUP})

REFUSED = "refuses to start under a controller"


def add_all(checked: CheckedStore, log_end: int) -> None:
    """``log_end``: the log offset behind the last record."""
    _add_epochs(checked, log_end)
    _add_identity(checked)
    _add_sequences(checked)


def _bytes(checked: CheckedStore, path: str) -> bytes | None:
    disk, full = checked.found.disk, f"{checked.found.root}/{path}"
    return disk.read_bytes(full) if disk.is_file(full) else None


def _add(
    checked: CheckedStore, severity: Severity, kind: FindingKind, what: str, path: str, ours: str, apache: str
) -> None:
    checked.add(severity, kind, what, path, becomes=(ours, apache))


def _add_epochs(checked: CheckedStore, log_end: int) -> None:
    """Checks the file, else its copy from before the last change. Apache's broker continues without epochs if neither
    can be read."""
    found: dict[str, EpochList] = {}
    problems: dict[str, str] = {}
    for path in (EPOCHS, EPOCHS + BACKUP):
        if (data := _bytes(checked, path)) is not None:
            try:
                found[path] = epochs_in_untrusted(data)
            except ProtocolError as error:
                problems[path] = str(error)
    for path, problem in problems.items():
        if not found:
            _add(checked, Severity.ERROR, FindingKind.EPOCHS, problem, path, REFUSED, "begins without epochs")
        else:
            becomes = f"takes {EPOCHS}{BACKUP}" if path == EPOCHS else "makes a new copy with the next change"
            _add(checked, Severity.WARNING, FindingKind.EPOCHS, problem, path, becomes, becomes)
    if not problems and found and EPOCHS not in found:
        what = "this copy is there alone"
        _add(checked, Severity.WARNING, FindingKind.EPOCHS, what, EPOCHS + BACKUP, "takes it", "takes it")
    for path, epochs in list(found.items())[:1]:
        _add_place(checked, path, epochs, log_end)


def _add_place(checked: CheckedStore, path: str, epochs: EpochList, log_end: int) -> None:
    if epochs.entries and epochs.entries[-1].start_offset > log_end and not checked.found.is_in_use:
        epoch, start = epochs.entries[-1]
        what = f"epoch {epoch} begins at log offset {start}, and the log ends at {log_end}"
        checked.add(
            Severity.ERROR, FindingKind.LOG_LOST, what, path, log_offset=log_end,
            ours=checked.ours.refused("as master forgets the epoch; as slave copies the log again"),
        )  # fmt: skip


def _add_identity(checked: CheckedStore) -> None:
    parts: dict[str, list[str] | None] = {}
    for path, count in ((IDENTITY, PART_COUNT), (APPLIED, APPLIED_PART_COUNT)):
        if (data := _bytes(checked, path)) is not None:
            try:
                parts[path] = identity_parts_untrusted(data, count)
            except ProtocolError as error:
                _add(checked, Severity.ERROR, FindingKind.IDENTITY, str(error), path, REFUSED, REFUSED)
                return
    if IDENTITY in parts and parts[IDENTITY] is None and parts.get(APPLIED) is None:
        _add(checked, Severity.ERROR, FindingKind.IDENTITY, "is empty", IDENTITY, REFUSED, "applies for a new id")


def _add_sequences(checked: CheckedStore) -> None:
    if (data := _bytes(checked, SEQUENCES)) is not None and sequence_table.FILE.decode_untrusted(data) is None:
        _add(
            checked, Severity.WARNING, FindingKind.SEQUENCES, "its checksum is another one", SEQUENCES,
            "makes it anew from the log", "does not read it",
        )  # fmt: skip
