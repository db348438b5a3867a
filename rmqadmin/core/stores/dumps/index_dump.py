"""The index, entry by entry, each with the key it was made for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

from rmqadmin.core.results import TIME, Row, doc
from rmqadmin.core.stores.dumps.dump import Dump, DumpWindow
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.java.java_hash import abs_hash, extend_hash
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted

if TYPE_CHECKING:
    from rmqserver.store.checks.found_files import FoundFiles
    from rmqserver.store.checks.looks.index_check import FoundIndexFile
    from rmqserver.store.checks.survey import Survey


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


class DumpedIndex(Dump, frozen=True):
    """Of ``index``: entries of its files, the oldest first."""

    row_type: ClassVar[type[Row]] = IndexEntryRow


def index_rows(found: Survey, window: DumpWindow) -> Iterator[IndexEntryRow]:
    """The entries. ``window`` counts the log offsets of messages. StorageError if it is unknown where entries are."""
    from rmqserver.store.checks.found_files import commit_log_of
    from rmqserver.store.checks.looks.index_check import FoundIndexFile
    from rmqserver.store.index.index_file import HEADER

    if not found.has_index_counts:
        raise StorageError("how many slots the index files have is unknown, and so where their entries begin")
    log = commit_log_of(found)
    counts = found.options.index_slot_count, found.options.index_unit_count
    for path in found.paths.index_paths():
        if found.disk.file_size(path) >= HEADER.size:  # an empty file was just being created
            file = FoundIndexFile(found.disk.open(path, read_only=True), *counts)
            for number in range(1, file.entry_count + 1):
                if window.has(file.entry(number)[1]):
                    yield _row(file, number, log)


def _row(file: FoundIndexFile, number: int, log: FoundFiles) -> IndexEntryRow:
    key_hash, log_offset, seconds, previous = file.entry(number)
    stored = _record(log, log_offset)
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


def _record(log: FoundFiles, log_offset: int) -> StoredMessage | None:
    size = int.from_bytes(log.read(log_offset, 4), "big")
    try:
        stored = decode_record_untrusted(log.read(log_offset, size))
    except ProtocolError:
        return None
    return stored if stored.log_offset == log_offset else None


def _key(stored: StoredMessage, key_hash: int) -> str | None:
    """The key, unique key or tag of a message whose entry has this hash (``IndexService.buildIndex``, 5.5.0)."""
    found = props.parse(stored.properties_raw.decode("utf-8", "replace"))
    keys = [found.get(props.UNIQUE_KEY, ""), *found.get(props.KEYS, "").split(" ")]
    if tag := found.get(props.TAGS):
        keys.append(f"T#{tag}")
    prefix = extend_hash(0, f"{stored.topic}#")
    return next((key for key in keys if key and abs_hash(extend_hash(prefix, key)) == key_hash), None)
