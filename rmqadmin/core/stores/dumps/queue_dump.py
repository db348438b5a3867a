"""Consume queues, unit by unit, each compared with the record it points to."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from rmqadmin.core.results import TIME, Row, doc
from rmqadmin.core.stores.dumps.dump import Dump, DumpWindow, record_at
from rmqproto.errors import StorageError, UsageError
from rmqproto.java.java_hash import abs_hash, extend_hash
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage
from rmqproto.names import LIGHT_QUEUE_PREFIX

if TYPE_CHECKING:
    from rmqserver.store.found.found_files import FoundFiles
    from rmqserver.store.found.survey import Survey
    from rmqserver.store.index.index_file import IndexFile


_UNITS_READ = 1000


class QueueUnitRow(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    queue_offset: Annotated[int, doc("its place in the queue", key=True)]
    log_offset: Annotated[int, doc("where its record lies in the commit log", vital=True)]
    size_bytes: Annotated[int, doc("size of the record")]
    tags_code: Annotated[int, doc("hash of the tag; of delayed messages, when they are due")]
    stored_ms: Annotated[int | None, TIME, doc("when the record was stored", minor=True)]
    problem: Annotated[str | None, doc("what is wrong with it", sparse=True)]
    path: Annotated[str, doc("file, below the store's directory", wide=True)]
    at_byte: Annotated[int, doc("where in the file", wide=True)]


class DumpedQueues(Dump[QueueUnitRow], frozen=True):
    """Of ``queue``: units of consume queues, by topic, queue and offset."""


def queue_rows(found: Survey, window: DumpWindow) -> Iterator[QueueUnitRow]:
    """The units. ``window``: queue offsets. StorageError if they are in no files; UsageError for no such queue."""
    from rmqserver.store.found.survey import Queues

    if found.queues is not Queues.FILES:
        raise StorageError(f"the consume queues are in {found.queues}, which is not read here")
    queues = sorted(_queues(found, window))
    if not queues and window.topic is not None:
        which = window.topic if window.queue_id is None else f"{window.topic}-{window.queue_id}"
        raise UsageError(
            f"there is no consume queue of {which}",
            hint=f"rmqadmin store inspect {shlex.quote(str(found.root))} --queues",
        )
    for topic, queue_id in queues:
        yield from _of_queue(found, topic, queue_id, window)


def _queues(found: Survey, window: DumpWindow) -> Iterator[tuple[str, int]]:
    disk, root = found.disk, found.paths.consume_queues
    for topic in disk.listdir(root) if disk.is_directory(root) else ():
        if window.topic in (None, topic) and disk.is_directory(f"{root}/{topic}"):
            for name in disk.listdir(f"{root}/{topic}"):
                if name.isdecimal() and window.has_queue(topic, int(name)):
                    yield topic, int(name)


def _of_queue(found: Survey, topic: str, queue_id: int, window: DumpWindow) -> Iterator[QueueUnitRow]:
    from rmqserver.store.found.found_files import commit_log_of, data_end, files_of
    from rmqserver.store.options import UNIT_SIZE_BYTES
    from rmqserver.store.queues.consume_queue import UNIT

    directory = f"{found.paths.consume_queues}/{topic}/{queue_id}"
    files, log = files_of(found, directory, found.options.consume_queue_file_size_bytes), commit_log_of(found)
    at = max(files.min_offset // UNIT_SIZE_BYTES, window.begin or 0)
    end = -(-data_end(files, at * UNIT_SIZE_BYTES) // UNIT_SIZE_BYTES)
    end = end if window.end is None else min(end, window.end)
    while at < end:
        data = files.span(at * UNIT_SIZE_BYTES, min(_UNITS_READ, end - at) * UNIT_SIZE_BYTES)
        for log_offset, size, code in UNIT.iter_unpack(data):
            stored, problem = _queue_record(log, topic, queue_id, at, log_offset, size)
            base = files.base_of(at * UNIT_SIZE_BYTES)
            yield QueueUnitRow(
                topic=topic, queue_id=queue_id, queue_offset=at, log_offset=log_offset, size_bytes=size, tags_code=code,
                stored_ms=stored.store_timestamp_ms if stored is not None else None, problem=problem,
                path=found.below(files.path(base)), at_byte=at * UNIT_SIZE_BYTES - base,
            )  # fmt: skip
            at += 1


def _queue_record(
    log: FoundFiles, topic: str, queue_id: int, queue_offset: int, log_offset: int, size: int
) -> tuple[StoredMessage | None, str | None]:
    """The record that a unit points to, and what is wrong with the unit or the record."""
    from rmqserver.store.queues.consume_queue import PRE_BLANK_SIZE

    if size == PRE_BLANK_SIZE and not log_offset:
        return None, "a blank: the queue begins behind it, or its message is lost"
    if not (log_offset or size):
        return None, "no unit is here"
    if size <= 0 or log_offset < 0:
        return None, "this is no unit"
    if log_offset < log.min_offset:
        return None, f"expired: the commit log begins at {log.min_offset}"
    stored = record_at(log, log_offset, size)
    if stored is None:
        return None, "no record of this size is there"
    if stored.log_offset != log_offset or stored.size_bytes != size:
        return stored, "the record there says that it is another one"
    is_light = topic.startswith(LIGHT_QUEUE_PREFIX)  # its messages are in queues of their own topics
    if not is_light and (stored.topic, stored.queue_id, stored.queue_offset) != (topic, queue_id, queue_offset):
        return stored, f"the record there is of {stored.topic}-{stored.queue_id} offset {stored.queue_offset}"
    return stored, None if stored.is_intact else "the body of its record does not have its checksum"


class IndexEntryRow(Row, frozen=True):
    file: Annotated[str, doc("index file", key=True)]
    entry: Annotated[int, doc("number of the entry", key=True)]
    log_offset: Annotated[int, doc("where its message lies in the commit log", vital=True)]
    topic: Annotated[str | None, doc("topic of the message there")]
    key: Annotated[str | None, doc("its key of this hash; one of a tag begins with T#", vital=True)]
    key_hash: Annotated[int, doc("hash of topic#key")]
    indexed_ms: Annotated[int, TIME, doc("when the message was stored, to the second", minor=True)]
    slot: Annotated[int, doc("slot of that hash", minor=True)]
    previous_entry: Annotated[int, doc("entry before it in this slot, 0 for none", minor=True)]
    problem: Annotated[str | None, doc("what is wrong with it", sparse=True)]


class DumpedIndex(Dump[IndexEntryRow], frozen=True):
    """Of ``index``: entries of its files, the oldest first."""


def index_rows(found: Survey, window: DumpWindow) -> Iterator[IndexEntryRow]:
    """The entries. ``window`` counts the log offsets of messages. StorageError if it is unknown where entries are."""
    from rmqserver.store.found.found_files import commit_log_of
    from rmqserver.store.index.index_file import HEADER, IndexFile

    if not found.has_index_counts:
        raise StorageError("how many slots the index files have is unknown, and so where their entries begin")
    log = commit_log_of(found)
    counts = found.options.index_slot_count, found.options.index_unit_count
    for path in found.paths.index_paths():
        if found.disk.file_size(path) >= HEADER.size:  # an empty file was just being created
            file = IndexFile(found.disk.open(path, read_only=True), *counts)
            for number in range(1, file.unit_count):
                if (entry := file.entry(number)) is None:
                    break
                if window.has(entry[1]):
                    yield _row(file, number, entry, log)


def _row(file: IndexFile, number: int, entry: tuple[int, int, int, int], log: FoundFiles) -> IndexEntryRow:
    key_hash, log_offset, seconds, previous = entry
    stored = record_at(log, log_offset, int.from_bytes(log.read(log_offset, 4), "big"))
    if stored is not None and stored.log_offset != log_offset:
        stored = None
    key = None if stored is None else _key(stored, key_hash)
    problem = None
    if stored is None:
        problem = "expired" if 0 <= log_offset < log.min_offset else "no record is there"
    elif key is None:
        problem = "the message there has no key of this hash"
    elif not 0 <= previous < number:
        problem = "the entry before it cannot be that one"
    return IndexEntryRow(
        file=file.path.rpartition("/")[2], entry=number, log_offset=log_offset,
        topic=stored.topic if stored is not None else None, key=key, key_hash=key_hash,
        indexed_ms=file.header.begin_timestamp_ms + 1000 * seconds,
        slot=key_hash % file.slot_count, previous_entry=previous, problem=problem,
    )  # fmt: skip


def _key(stored: StoredMessage, key_hash: int) -> str | None:
    """The key, unique key or tag of a message whose entry has this hash (``IndexService.buildIndex``, 5.5.0)."""
    found = props.parse(stored.properties_raw.decode("utf-8", "replace"))
    keys = [found.get(props.UNIQUE_KEY, ""), *found.get(props.KEYS, "").split(" ")]
    if tag := found.get(props.TAGS):
        keys.append(f"T#{tag}")
    prefix = extend_hash(0, f"{stored.topic}#")
    return next((key for key in keys if key and abs_hash(extend_hash(prefix, key)) == key_hash), None)
