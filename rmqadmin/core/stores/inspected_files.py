"""The files of a store: the size of each, what it holds, and its range of offsets and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from rmqadmin.core.results import TIME, Result, Row, doc
from rmqadmin.core.stores.inspected import BLOCK_BYTES, StoreSummary, files_below, inspected_queues

if TYPE_CHECKING:
    from rmqserver.store.checks.found_files import FoundFiles
    from rmqserver.store.checks.survey import Survey

_Held = tuple[int | None, int | None, int | None, int | None]
_NOTHING: _Held = (None, None, None, None)


class StoredFileRow(Row, frozen=True):
    path: Annotated[str, doc("file, below the store's directory", key=True)]
    size_bytes: Annotated[int, doc("size of the file", vital=True)]
    on_disk_bytes: Annotated[int, doc("bytes that it takes on the disk: files are larger than their contents")]
    begin_offset: Annotated[int | None, doc("log offset, queue offset, or timer log position of its first byte")]
    end_offset: Annotated[int | None, doc("the same behind its last byte; of index files: log offsets of messages")]
    oldest_ms: Annotated[int | None, TIME, doc("when its first message was stored")]
    newest_ms: Annotated[int | None, TIME, doc("when its last message was stored; of index files only", wide=True)]
    changed_ms: Annotated[int, TIME, doc("when the file was last written", minor=True)]


class InspectedFiles(Result, frozen=True):
    """With --files: files by path."""

    row_type: ClassVar[type[Row]] = StoredFileRow
    files: Sequence[StoredFileRow]
    told: StoreSummary

    def rows(self) -> Sequence[StoredFileRow]:
        return self.files

    def summary(self) -> StoreSummary:
        return self.told


def inspected_files(found: Survey) -> InspectedFiles:
    from rmqserver.store.checks.found_files import commit_log_of

    whole, log, rows = inspected_queues(found), commit_log_of(found), []
    for path, stat in files_below(found.root):
        begin, end, oldest_ms, newest_ms = _held(found, log, path)
        row = StoredFileRow(
            path=found.below(path), size_bytes=stat.st_size, on_disk_bytes=stat.st_blocks * BLOCK_BYTES,
            begin_offset=begin, end_offset=end, oldest_ms=oldest_ms, newest_ms=newest_ms,
            changed_ms=stat.st_mtime_ns // 1_000_000,
        )  # fmt: skip
        rows.append(row)
    return InspectedFiles(sorted(rows, key=lambda row: row.path), whole.told)


def _held(found: Survey, log: FoundFiles, path: str) -> _Held:
    """The first and last offset of a file, and its first and last time."""
    from rmqserver.store.disk.segments import is_stream_name
    from rmqserver.store.log.scan import first_record
    from rmqserver.store.options import UNIT_SIZE_BYTES

    part, name = found.below(path).partition("/")[0], path.rpartition("/")[2]
    if part == "index":
        return _held_by_index(found, path)
    if not is_stream_name(name):
        return _NOTHING
    base = int(name)
    if part == "commitlog":
        first = first_record(log, base) if base in log.bases and len(log.read(base, 8)) == 8 else None
        oldest_ms = first.store_timestamp_ms if first is not None else None
        return base, base + found.options.commit_log_file_size_bytes, oldest_ms, None
    if part == "timerlog":
        return base, base + found.timer_options.log_file_size_bytes, None, None
    if part == "consumequeue":
        size = found.options.consume_queue_file_size_bytes
        return base // UNIT_SIZE_BYTES, (base + size) // UNIT_SIZE_BYTES, None, None
    return _NOTHING


def _held_by_index(found: Survey, path: str) -> _Held:
    from rmqserver.store.index.index_file import HEADER, IndexHeader, is_index_name

    data = found.disk.open(path, read_only=True).pread(HEADER.size, 0) if found.disk.is_file(path) else b""
    if len(data) < HEADER.size or not is_index_name(path.rpartition("/")[2]):
        return _NOTHING
    header = IndexHeader(*HEADER.unpack(data))
    return (
        header.begin_log_offset, header.end_log_offset, header.begin_timestamp_ms or None,
        header.end_timestamp_ms or None,
    )  # fmt: skip
