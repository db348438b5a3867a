"""Compares the marks of a store (``abort``, ``lock``, ``failed_flush``, ``checkpoint``) with its content, reports files
that are missing or strange, and what was not checked."""

from __future__ import annotations

from collections.abc import Iterator

from rmqserver.store.checks import set_check
from rmqserver.store.checks.checked_store import CheckedStore
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.checks.log_check import LogCheck
from rmqserver.store.checks.queue_check import QueueCheck
from rmqserver.store.disk.checkpoint import CHECKPOINT_SIZE_BYTES, FIELDS_SIZE_BYTES
from rmqserver.store.found.found_files import FoundFiles, OddFile
from rmqserver.store.found.survey import Queues, Survey, holds_rocksdb
from rmqserver.store.log.scan import is_record
from rmqserver.store.options import StoreOptions

CHECKPOINT_PATH = "checkpoint"

_KNOWN = frozenset({
    "commitlog", "consumequeue", "batchconsumequeue", "compaction", "index", "config", "checkpoint", "timerwheel",
    "timerlog", "abort", "abort.bak", "lock", "failed_flush", "snapshots", "namesrv", "consumequeue_ext",
    "rocksdbstore", "consumequeue_r", "queueEnds", "queueFiles", *set_check.PATHS,
})  # fmt: skip


def add_all(checked: CheckedStore, records: LogCheck) -> None:
    _add_state(checked)
    _add_checkpoint(checked, records)
    _add_sizes(checked)
    _add_unchecked(checked)


def _add_state(checked: CheckedStore) -> None:
    found = checked.found
    if found.is_in_use:
        checked.add(
            Severity.NOTE, FindingKind.IN_USE,
            "a broker runs on this store: what it writes meanwhile is not checked", "lock",
        )  # fmt: skip
    if not found.is_clean:
        process = f" of process {found.owner_id}" if found.owner_id.isdecimal() else ""
        checked.add(
            Severity.NOTE, FindingKind.UNCLEAN, f"the mark{process} is there: it runs, or did not stop cleanly",
            "abort", becomes="reads the end of the log anew",
        )  # fmt: skip
    if found.has_failed_flush:
        checked.add(
            Severity.WARNING, FindingKind.FLUSH_FAILED,
            "a flush failed: of what was written then, copies may lack some", "failed_flush",
            becomes=("writes it anew before it trusts it", "knows nothing of it"),
        )  # fmt: skip


def _add_checkpoint(checked: CheckedStore, records: LogCheck) -> None:
    found, checkpoint = checked.found, checked.found.checkpoint
    size = found.checkpoint_size_bytes
    if size is None:
        if records.record_count:
            checked.add(  # a broker writes the first one after a minute
                Severity.WARNING if found.is_clean else Severity.NOTE, FindingKind.CHECKPOINT, "there is none",
                CHECKPOINT_PATH, becomes=("begins with what the queues know", "makes one"),
            )  # fmt: skip
        return
    if size != CHECKPOINT_SIZE_BYTES:
        is_usual = size >= FIELDS_SIZE_BYTES or not found.is_clean  # a crash may leave its name without its bytes
        checked.add(
            Severity.NOTE if is_usual else Severity.WARNING, FindingKind.CHECKPOINT,
            f"{size:,} bytes, where it has {CHECKPOINT_SIZE_BYTES:,}", CHECKPOINT_PATH, becomes="takes what is there",
        )  # fmt: skip
    if any(found.disk.read_bytes(found.paths.checkpoint)[FIELDS_SIZE_BYTES:]):
        checked.add(
            Severity.WARNING, FindingKind.CHECKPOINT, "bytes behind its fields that no broker writes", CHECKPOINT_PATH,
            FIELDS_SIZE_BYTES, becomes="nothing",
        )  # fmt: skip
    end = records.end_offset
    if 0 < checkpoint.queues_log_offset >= end and not found.is_in_use:
        checked.add(
            Severity.ERROR, FindingKind.LOG_LOST,
            f"the record at log offset {checkpoint.queues_log_offset} was flushed, and the log ends at {end}",
            CHECKPOINT_PATH, 40, log_offset=end, begin_ms=records.last_ms,
            becomes=("says so, and goes on without it", "goes on without it"),
        )  # fmt: skip
    for what, at in _odd_fields(checked, records):
        checked.add(
            Severity.WARNING, FindingKind.CHECKPOINT, what, CHECKPOINT_PATH, at,
            becomes=(
                "begins to read the log where it can trust it",
                "may begin to read the log too late, or trust a torn index",
            ),
        )  # fmt: skip


def _odd_fields(checked: CheckedStore, records: LogCheck) -> Iterator[tuple[str, int]]:
    """Each problem in words, with its place in the file."""
    checkpoint, last_ms = checked.found.checkpoint, records.last_ms
    end, log = records.end_offset, checked.log
    times = (
        ("log", checkpoint.log_timestamp_ms), ("consume queue", checkpoint.queues_timestamp_ms),
        ("index", checkpoint.index_timestamp_ms),
    )  # fmt: skip
    for number, (name, time_ms) in enumerate(times):
        if time_ms < 0 or (last_ms is not None and time_ms > last_ms and not checked.found.is_in_use):
            yield f"its {name} time {time_ms} is later than the last message's, {last_ms}", 8 * number
    offsets = (("consume queues'", checkpoint.queues_log_offset, 40), ("own", checkpoint.own_log_offset, 48))
    for name, offset, at in offsets:
        is_known = offset in (0, -1) or offset < log.min_offset or offset >= end
        if offset < -1 or (not is_known and not is_record(log, offset)):
            yield f"at its {name} log offset {offset} no record begins", at
    if checkpoint.own_log_offset >= end > 0 and checkpoint.own_log_offset != checkpoint.queues_log_offset:
        yield f"its own log offset {checkpoint.own_log_offset} is behind the log's end", 48
    is_closed = checked.found.is_clean and checkpoint.is_ours and end > checkpoint.queues_log_offset
    if is_closed and (
        checkpoint.queues_log_offset != records.last_offset
        or not checkpoint.log_timestamp_ms == checkpoint.queues_timestamp_ms == last_ms
    ):
        yield "it is not that of the last message, though the store was closed", 0


def _add_sizes(checked: CheckedStore) -> None:
    """Every broker needs the sizes with which the files were made, and no file of a store names them."""
    options, defaults = checked.found.options, StoreOptions()
    told = (
        ("mappedFileSizeCommitLog", options.commit_log_file_size_bytes, defaults.commit_log_file_size_bytes),
        ("mappedFileSizeConsumeQueue", options.consume_queue_file_size_bytes, defaults.consume_queue_file_size_bytes),
        ("maxHashSlotNum", options.index_slot_count, defaults.index_slot_count),
        ("maxIndexNum", options.index_unit_count, defaults.index_unit_count),
    )
    other = [f"{name}={size}" for name, size, default in told if size != default]
    if other:
        checked.add(
            Severity.NOTE, FindingKind.SIZES, f"a broker needs {', '.join(other)}", "",
            ours="refuses to start with other sizes", apache="refuses to start with other sizes",
        )  # fmt: skip


def _add_unchecked(checked: CheckedStore) -> None:
    found = checked.found
    for name in sorted(set(found.disk.listdir(found.root)) - _KNOWN):
        checked.add(Severity.NOTE, FindingKind.STRANGER, "no broker reads it here", name)
    for name, reason in _unchecked(found):
        checked.add(Severity.NOTE, FindingKind.NOT_CHECKED, reason, name)


def _unchecked(found: Survey) -> Iterator[tuple[str, str]]:
    """What a broker reads and this check does not, and why."""
    if found.queues is Queues.ROCKSDB:
        yield "consumequeue", "RocksDB: its queues are not read here"
    if found.has_extensions:
        yield "consumequeue", "its units name entries of consumequeue_ext, which are not read here"
        yield "consumequeue_ext", "not read here"
    if holds_rocksdb(found.disk, f"{found.root}/rocksdbstore"):
        yield "rocksdbstore", "RocksDB: not read here"
    compacted = f"{found.root}/compaction/compactionLog"
    if found.disk.is_directory(compacted) and found.disk.listdir(compacted):
        yield "compaction", "compacted topics of Apache's broker: not read here"


def add_files(checked: CheckedStore, queues: QueueCheck) -> None:
    """Files that are missing, have another size, or do not belong there."""
    _add_files(checked, checked.log, is_log=True)
    for queue in queues.queues.values():
        _add_files(checked, queue.files)


def apache_refusal(files: FoundFiles) -> str:
    """Why Apache's broker would not load these files (``MappedFileQueue.load``, 5.5.0); empty if it would."""
    for odd in files.odd:
        is_last = files.bases and odd.name == files.path(files.bases[-1]).rpartition("/")[2]
        if not odd.is_gap and not (is_last and odd.size_bytes == 0):
            return f"{odd.name} in {files.directory.rpartition('/')[2]}/ has {odd.size_bytes} bytes"
    return ""


def _add_files(checked: CheckedStore, files: FoundFiles, *, is_log: bool = False) -> None:
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
