"""What is in a store: its topics or queues as rows, with everything else below them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from rmqadmin.core.results import DUE, TIME, FoundRows, R, Row, doc, row_of
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from rmqserver.store.found.found_files import FoundFiles
    from rmqserver.store.found.found_tables import FoundTables
    from rmqserver.store.found.inventory import FoundOffset, FoundQueue, Inventory
    from rmqserver.store.found.survey import Survey
    from rmqserver.store.message_store import MessageStore


BLOCK_BYTES = 512
"""The unit of ``st_blocks``."""


class StoredTopicRow(Row, frozen=True):
    topic: Annotated[str, doc("topic; %LMQ% begins the name of a light queue", key=True)]
    queues: Annotated[int, doc("consume queues")]
    messages: Annotated[int, doc("messages that can be read", vital=True)]
    oldest_ms: Annotated[int | None, TIME, doc("when the oldest was stored")]
    newest_ms: Annotated[int | None, TIME, doc("when the newest was stored")]
    problem: Annotated[str | None, doc("why some of its queues cannot be read", sparse=True)]


class StoredQueueRow(Row, frozen=True):
    topic: Annotated[str, doc("topic; %LMQ% begins the name of a light queue", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    min_offset: Annotated[int, doc("queue offset of the first message", vital=True)]
    max_offset: Annotated[int, doc("queue offset behind the last", vital=True)]
    messages: Annotated[int, doc("messages that can be read")]
    oldest_ms: Annotated[int | None, TIME, doc("when the first was stored")]
    newest_ms: Annotated[int | None, TIME, doc("when the last was stored")]
    problem: Annotated[str | None, doc("why it cannot be read; its numbers are then 0", sparse=True)]


class StoreSummary(Row, frozen=True):
    store: Annotated[str, doc("directory")]
    state: Annotated[str, doc("whether a broker runs on it, has stopped cleanly, or has not")]
    written_by: Annotated[str, doc("who stopped, or was killed, on it last, as far as it can be told")]
    problem: Annotated[str | None, doc("why the queues cannot be read")]
    said: Annotated[list[str] | None, doc("warnings about damage, logged when the store was opened")]
    log_begin_offset: Annotated[int, doc("log offset where the commit log begins")]
    log_end_offset: Annotated[int | None, doc("log offset where the commit log ends")]
    log_files: Annotated[int, doc("files of the commit log")]
    log_file_size_bytes: Annotated[int, doc("size of each file of the commit log (mappedFileSizeCommitLog)")]
    oldest_ms: Annotated[int | None, TIME, doc("when its first record was stored")]
    newest_ms: Annotated[int | None, TIME, doc("when its last record was stored")]
    topics: Annotated[int, doc("topics with consume queues, light queues not counted")]
    queues: Annotated[int, doc("consume queues of these topics")]
    messages: Annotated[int, doc("messages in these queues")]
    light_queues: Annotated[int, doc("light queues (LMQ), those of lite topics too")]
    retry_messages: Annotated[int, doc("messages in retry topics")]
    dead_letters: Annotated[int, doc("messages in dead-letter topics")]
    delayed: Annotated[int | None, doc("messages of delay levels that wait")]
    timers: Annotated[int | None, doc("timer messages that wait")]
    next_timer_ms: Annotated[int | None, DUE, doc("when the next timer message is due")]
    half_messages: Annotated[int | None, doc("half messages whose transaction has not ended")]
    pop_entries: Annotated[int | None, doc("check points and acknowledgements of POP that are not processed yet")]
    index_files: Annotated[int, doc("index files")]
    index_entries: Annotated[int | None, doc("entries in the index files; null if that cannot be known")]
    flushed_ms: Annotated[
        int | None, TIME, doc("store time of the newest message that the checkpoint says is on the device")
    ]
    tables: Annotated[dict[str, int], doc("tables below config/, and how many entries each has")]
    on_disk_bytes: Annotated[
        dict[str, int], doc("bytes on the disk by part; most files are larger than their contents")
    ]
    disk_ratio: Annotated[float, doc("how full the file system is")]


class _Inspected(FoundRows[R], frozen=True):
    told: StoreSummary

    def summary(self) -> StoreSummary:
        return self.told


class InspectedTopics(_Inspected[StoredTopicRow], frozen=True):
    """Topics by name, with the light queues behind them."""


class InspectedQueues(_Inspected[StoredQueueRow], frozen=True):
    """With --queues: consume queues by topic and number."""


def queue_rows(queues: Sequence[FoundQueue]) -> list[StoredQueueRow]:
    return [row_of(StoredQueueRow, one, messages=one.count) for one in queues]


def summary_of(opened: Inventory, queues: Sequence[FoundQueue]) -> StoreSummary:
    from rmqserver.store.found.inventory import store_time
    from rmqserver.store.found.what_waits import delayed_count, half_count, pop_entry_count, timers_of

    found, store, tables = opened.found, opened.store, opened.tables
    plain = [one for one in queues if not one.is_light]
    timers = timers_of(found, store) if store is not None else None
    log_names = [name for name in found.disk.listdir(found.paths.commit_log) if name.isdecimal()]
    return StoreSummary(
        store=found.root,
        state=_state(found),
        written_by=str(found.writer),
        problem=opened.problem,
        said=list(opened.said) or None,
        log_begin_offset=store.log.min_offset if store is not None else int(log_names[0]) if log_names else 0,
        log_end_offset=store.confirmed_offset if store is not None else None,
        log_files=len(log_names),
        log_file_size_bytes=found.options.commit_log_file_size_bytes,
        oldest_ms=store_time(store, store.log.min_offset) if store is not None else None,
        newest_ms=max((one.newest_ms for one in queues if one.newest_ms is not None), default=None),
        topics=len({one.topic for one in plain}),
        queues=len(plain),
        messages=sum(one.count for one in plain),
        light_queues=len(queues) - len(plain),
        retry_messages=sum(one.count for one in plain if one.topic.startswith(RETRY_PREFIX)),
        dead_letters=sum(one.count for one in plain if one.topic.startswith(DLQ_PREFIX)),
        delayed=_counted(delayed_count, opened),
        timers=timers.waiting_count if timers is not None else None,
        next_timer_ms=timers.next_due_ms if timers is not None else None,
        half_messages=_counted(half_count, opened),
        pop_entries=_counted(pop_entry_count, opened),
        index_files=len(found.paths.index_paths()),
        index_entries=_index_entries(found),
        flushed_ms=found.checkpoint.log_timestamp_ms or None,
        tables={name: table.entry_count for name in tables.names() if (table := tables.used(name)) is not None},
        on_disk_bytes=_disk_use(found.root),
        disk_ratio=found.disk.usage(found.root).used_percent / 100,
    )


def _counted(count: Callable[[MessageStore, FoundTables], int], inventory: Inventory) -> int | None:
    """The count; None if a queue that it needs cannot be read."""
    if inventory.store is None:
        return None
    try:
        return count(inventory.store, inventory.tables)
    except (StorageError, ProtocolError):
        return None


def _state(found: Survey) -> str:
    if found.is_in_use:
        owner = found.owner_id if not found.lock_owner_id else str(found.lock_owner_id)
        return f"a broker runs on it (process {owner})" if owner.isdecimal() else "a broker runs on it"
    if found.is_clean:
        return "stopped cleanly"
    return f"not stopped cleanly (process {found.owner_id})" if found.owner_id.isdecimal() else "not stopped cleanly"


def _index_entries(found: Survey) -> int | None:
    from rmqserver.store.index.index_file import HEADER, IndexFile

    if not found.has_index_counts:
        return None
    counts = found.options.index_slot_count, found.options.index_unit_count
    paths = [path for path in found.paths.index_paths() if found.disk.file_size(path) >= HEADER.size]
    files = [IndexFile(found.disk.open(path, read_only=True), *counts) for path in paths]
    return sum(file.header.next_unit - 1 for file in files)


def _disk_use(root: str) -> dict[str, int]:
    """Bytes that files take on disk, by the first part of their path."""
    found: dict[str, int] = {}
    for path, stat in files_below(root):
        part = os.path.relpath(path, root).partition(os.sep)[0]
        found[part] = found.get(part, 0) + stat.st_blocks * BLOCK_BYTES
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def files_below(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files that exist while this runs: a running broker removes some."""
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            with contextlib.suppress(FileNotFoundError):
                yield path, os.lstat(path)


def inspected_queues(found: Survey) -> InspectedQueues:
    from rmqserver.store.found.inventory import inventory

    with inventory(found) as opened:
        queues = opened.queues()
        return InspectedQueues(queue_rows(queues), summary_of(opened, queues))


def inspected_topics(found: Survey, chosen: Callable[[Sequence[str]], list[str]]) -> InspectedTopics:
    """``chosen`` tells which topics are shown."""
    whole = inspected_queues(found)
    by_topic: dict[str, list[StoredQueueRow]] = {}
    for row in whole.found:
        by_topic.setdefault(row.topic, []).append(row)
    rows = [
        StoredTopicRow(
            topic=topic,
            queues=len(queues := by_topic[topic]),
            messages=sum(row.messages for row in queues),
            oldest_ms=min((row.oldest_ms for row in queues if row.oldest_ms is not None), default=None),
            newest_ms=max((row.newest_ms for row in queues if row.newest_ms is not None), default=None),
            problem=next((row.problem for row in queues if row.problem is not None), None),
        )
        for topic in chosen(list(by_topic))
    ]
    return InspectedTopics(rows, whole.told)


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


class InspectedFiles(_Inspected[StoredFileRow], frozen=True):
    """With --files: files by path."""


def inspected_files(found: Survey) -> InspectedFiles:
    from rmqserver.store.found.found_files import commit_log_of

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


class StoredGroupRow(Row, frozen=True):
    group: Annotated[str, doc("consumer group", key=True)]
    topic: Annotated[str | None, doc("topic of which it has offsets; null for a group that has none", key=True)]
    queues: Annotated[int, doc("queues of it with an offset")]
    lag_count: Annotated[int, doc("messages in these behind its offsets", vital=True)]
    known: Annotated[bool, doc("whether subscriptionGroup.json names the group", minor=True)]
    offsets: Annotated[dict[str, int], doc("committed queue offsets by queue id", wide=True)]


class InspectedGroups(_Inspected[StoredGroupRow], frozen=True):
    """With --groups: groups by name, with each topic of theirs."""


def inspected_groups(found: Survey) -> InspectedGroups:
    from rmqserver.store.found.inventory import inventory

    with inventory(found) as opened:
        queues = opened.queues()
        return InspectedGroups(_rows(opened.tables, opened.offsets(queues)), summary_of(opened, queues))


def _rows(tables: FoundTables, offsets: Sequence[FoundOffset]) -> list[StoredGroupRow]:
    from rmqserver.store.found.found_tables import GROUPS

    known, rows = tables.keys(GROUPS) or frozenset(), []
    for (group, topic), found in groupby(offsets, lambda one: (one.group, one.topic)):
        of_topic = list(found)
        row = StoredGroupRow(
            group=group, topic=topic, queues=len(of_topic), lag_count=sum(one.lag_count for one in of_topic),
            known=group in known, offsets={str(one.queue_id): one.offset for one in of_topic},
        )  # fmt: skip
        rows.append(row)
    silent = known - {row.group for row in rows}
    rows += [StoredGroupRow(group=name, topic=None, queues=0, lag_count=0, known=True, offsets={}) for name in silent]
    return sorted(rows, key=lambda row: (row.group, row.topic or ""))
