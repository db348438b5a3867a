"""The commit log, record by record, across damage."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from rmqadmin.core.messages.lookup import found_message
from rmqadmin.core.messages.message_rows import message_values, unpacked
from rmqadmin.core.results import TIME, Notice, Row, doc
from rmqadmin.core.stores.dumps.dump import Dump, DumpWindow, record_at
from rmqproto.message.record import StoredMessage, decode_record_untrusted

if TYPE_CHECKING:
    from rmqserver.store.checks.found_files import FoundFiles
    from rmqserver.store.checks.log_walk import LogStretch
    from rmqserver.store.checks.survey import Survey


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
    """The records and the damage. ``window`` counts log offsets. With a topic or queue, damage is still shown, because
    nobody knows what it belonged to."""
    from rmqserver.store.checks.found_files import commit_log_of
    from rmqserver.store.checks.log_walk import LogStretch, walk

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
