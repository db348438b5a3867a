"""What the dumps of all parts have in common, which rows are wanted and rows in batches; and the commit log, record by
record, across damage."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from rmqadmin.core.messages.lookup import found_message
from rmqadmin.core.messages.message_rows import message_values, unpacked
from rmqadmin.core.results import TIME, Notice, R, ResultOf, Row, doc
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.message.record import StoredMessage, decode_record_untrusted

if TYPE_CHECKING:
    from rmqserver.store.checks.log_walk import LogStretch
    from rmqserver.store.found.found_files import FoundFiles
    from rmqserver.store.found.survey import Survey

_FIRST_BATCH_ROWS, _BATCH_ROWS = 20, 500


class DumpWindow(msgspec.Struct, frozen=True):
    """The offsets wanted, from ``begin`` on and below ``end``, of the kind that the part has; None for no bound."""

    begin: int | None = None
    end: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    table: str | None = None

    def has(self, offset: int) -> bool:
        return (self.begin is None or self.begin <= offset) and (self.end is None or offset < self.end)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        return self.topic in (None, topic) and self.queue_id in (None, queue_id)

    def refuse_unused(self, part: str, *used: str) -> None:
        """UsageError for a bound that does not apply to the part."""
        options = {"begin": "--from", "end": "--to", "topic": "--topic", "queue_id": "--queue", "table": "--table"}
        for field, option in options.items():
            if field not in used and getattr(self, field) is not None:
                raise UsageError(f"{option} does not apply to {part}", hint="rmqadmin store dump --help")


def record_at(log: FoundFiles, log_offset: int, size_bytes: int) -> StoredMessage | None:
    """The record at a place of the commit log; None if none of this size is there."""
    try:
        return decode_record_untrusted(log.read(log_offset, size_bytes))
    except ProtocolError:
        return None


class DumpedRows:
    """The first ``limit`` of some rows, in batches. OSErrors of the disk become StorageErrors."""

    def __init__(self, rows: Iterable[Row], limit: int | None):
        self._rows = iter(rows)
        self._limit = limit
        self.problem_count = 0
        self.was_stopped = False
        """Whether there were more than the limit."""

    def batches(self) -> Iterator[Sequence[Row]]:
        from rmqserver.store.disk.disk import storage_error

        left, size = self._limit, _FIRST_BATCH_ROWS
        try:
            while left is None or left > 0:
                batch = list(islice(self._rows, size if left is None else min(size, left)))
                if not batch:
                    return
                self.problem_count += sum(getattr(row, "problem", None) is not None for row in batch)
                yield batch
                size, left = _BATCH_ROWS, None if left is None else left - len(batch)
            self.was_stopped = next(self._rows, None) is not None
        except OSError as error:
            raise storage_error(error, "cannot read", error.filename or "the store") from error


class Dump(ResultOf[R], frozen=True):
    """The base of the dumps. ``rows`` may be called once."""

    found: DumpedRows

    def rows(self) -> Sequence[Row]:
        return [row for batch in self.batches() for row in batch]

    def batches(self) -> Iterator[Sequence[Row]]:
        return self.found.batches()

    def remark(self) -> str | None:
        parts = []
        if self.found.was_stopped:
            parts.append("there is more: stopped by --limit")
        if self.found.problem_count:
            parts.append(f"{self.found.problem_count:,} with a problem: store verify says what it means")
        return "; ".join(parts) or None


class LogRow(Row, frozen=True):
    log_offset: Annotated[int, doc("its place in the commit log", key=True)]
    size_bytes: Annotated[int, doc("size of the record, or of the bytes that are none")]
    topic: Annotated[str | None, doc("topic name", vital=True)]
    queue_id: Annotated[int | None, doc("queue id")]
    queue_offset: Annotated[int | None, doc("its place in the queue")]
    stored_ms: Annotated[int | None, TIME, doc("when it was stored")]
    problem: Annotated[str | None, doc("why no record can be taken from here", sparse=True)]
    tags: Annotated[str | None, doc("tag")]
    keys: Annotated[str | None, doc("keys, separated by blanks")]
    message_id: Annotated[str | None, doc("unique key, made by the producer", minor=True)]
    body_size_bytes: Annotated[int | None, doc("size of the body, decompressed", minor=True)]
    body: Annotated[str | None, doc("the body if it is text", minor=True)]
    body_base64: Annotated[str | None, doc("the body if it is not", wide=True)]
    body_compression: Annotated[str | None, doc("how it is compressed still: it could not be unpacked", wide=True)]
    body_crc: Annotated[int | None, doc("checksum of the body as stored", wide=True)]
    born_ms: Annotated[int | None, TIME, doc("when it was made, by the producer's clock", wide=True)]
    born_host: Annotated[str | None, doc("address of the producer", wide=True)]
    store_host: Annotated[str | None, doc("address of the broker", wide=True)]
    reconsume_times: Annotated[int | None, doc("how often it has come back", wide=True)]
    sys_flag: Annotated[int | None, doc("bits: compressed, transaction, IPv6", wide=True)]
    flag: Annotated[int | None, doc("the application's own number", wide=True)]
    prepared_transaction_offset: Annotated[int | None, doc("log offset of its half message, or 0", wide=True)]
    properties: Annotated[dict[str, str] | None, doc("all properties", wide=True)]
    properties_base64: Annotated[str | None, doc("the properties' bytes if they are not UTF-8", wide=True)]
    path: Annotated[str, doc("file, below the store's directory", wide=True)]
    at_byte: Annotated[int, doc("where in the file", wide=True)]
    raw_base64: Annotated[str | None, doc("the first bytes of what is no record", wide=True)]


_NOTHING: dict[str, Any] = dict.fromkeys(LogRow.__struct_fields__)
_OF_MESSAGES = frozenset(LogRow.__struct_fields__)
_RAW_MAX_BYTES = 256


class DumpedLog(Dump[LogRow], frozen=True):
    """Of ``log``: records of the commit log in order, and stretches that hold none."""


def log_rows(found: Survey, window: DumpWindow, notice: Notice) -> Iterator[LogRow]:
    """Records and damage, which is of no topic or queue. ``window`` counts log offsets."""
    from rmqserver.store.checks.log_walk import LogStretch, walk
    from rmqserver.store.found.found_files import commit_log_of

    log = commit_log_of(found)
    start = max(log.min_offset, window.begin or 0)
    for each in walk(log, start):
        if isinstance(each, LogStretch):
            if window.end is not None and each.log_offset >= window.end:
                return
            if each.log_offset == start > log.min_offset and each.record is None and each.head is None:
                found_there = " or behind it" if each.is_tail else f": the next one is at {each.end_offset}"
                notice(f"no record begins at log offset {start}{found_there}")
            else:
                yield _stretch_row(found, log, each)
            continue
        for record in each:
            if window.end is not None and record.log_offset >= window.end:
                return
            if window.has_queue(record.topic, record.queue_id):
                stored = decode_record_untrusted(log.read(record.log_offset, record.size_bytes))
                place = _place(found, log, stored.log_offset, stored.size_bytes)
                yield LogRow(**(_NOTHING | place | _message(stored, notice)))


def _message(stored: StoredMessage, notice: Notice) -> dict[str, Any]:
    values = message_values(unpacked(found_message(stored, "", ""), notice))
    place = {"log_offset", "size_bytes", "path", "at_byte"}
    return {name: value for name, value in values.items() if name in _OF_MESSAGES and name not in place} | {
        "body_crc": stored.body_crc,
        "prepared_transaction_offset": stored.prepared_transaction_offset,
    }


def _stretch_row(found: Survey, log: FoundFiles, stretch: LogStretch) -> LogRow:
    size = stretch.end_offset - stretch.log_offset
    raw = log.read(stretch.log_offset, min(size, _RAW_MAX_BYTES))
    values: dict[str, Any] = {"problem": str(stretch.reason), "raw_base64": base64.b64encode(raw).decode()}
    told = stretch.record or stretch.head
    if told is not None:
        values |= {
            "queue_id": told.queue_id, "queue_offset": told.queue_offset, "stored_ms": told.store_timestamp_ms,
        }  # fmt: skip
    if stretch.record is not None:
        values["topic"] = stretch.record.topic
        # What can still be read of a record with a wrong body or place. The body is included as it is.
        stored = record_at(log, stretch.record.log_offset, stretch.record.size_bytes)
        values |= {} if stored is None else _message(stored, lambda _: None)
    return LogRow(**(_NOTHING | values | _place(found, log, stretch.log_offset, size)))


def _place(found: Survey, log: FoundFiles, log_offset: int, size_bytes: int) -> dict[str, Any]:
    base = log.base_of(log_offset)
    path = found.below(log.path(base))
    return {"log_offset": log_offset, "size_bytes": size_bytes, "path": path, "at_byte": log_offset - base}
