"""What is in a store: its topics or queues as rows, with everything else below them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from rmqadmin.core.results import DUE, TIME, Result, Row, doc
from rmqadmin.core.stores.waiting import delayed_count, half_count, pop_entry_count, timers_of
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.names import DLQ_PREFIX, LIGHT_QUEUE_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from rmqserver.store.checks.found_tables import FoundTables
    from rmqserver.store.checks.survey import Survey
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


class InspectedTopics(Result, frozen=True):
    """Topics by name, with the light queues behind them."""

    row_type: ClassVar[type[Row]] = StoredTopicRow
    topics: Sequence[StoredTopicRow]
    told: StoreSummary

    def rows(self) -> Sequence[StoredTopicRow]:
        return self.topics

    def summary(self) -> StoreSummary:
        return self.told


class InspectedQueues(Result, frozen=True):
    """With --queues: consume queues by topic and number."""

    row_type: ClassVar[type[Row]] = StoredQueueRow
    queues: Sequence[StoredQueueRow]
    told: StoreSummary

    def rows(self) -> Sequence[StoredQueueRow]:
        return self.queues

    def summary(self) -> StoreSummary:
        return self.told


@contextlib.contextmanager
def inventory(found: Survey) -> Iterator[Inventory]:
    """Opens the store, read-only, for the length of the context."""
    from rmqserver.store.checks.dry_run import listening

    said: list[str] = []
    with listening(said):
        opened = Inventory(found, said)
        try:
            yield opened
        finally:
            opened.close()


class Inventory:
    """An open store. If its queues cannot be read, ``store`` is None and ``problem`` says why. ``said`` is a growing
    list of what the store logs about damage."""

    def __init__(self, found: Survey, said: list[str]):
        from rmqserver.store.checks.found_tables import FoundTables
        from rmqserver.store.message_store import MessageStore

        self.found = found
        self.said = said
        self.tables: FoundTables = FoundTables(found.paths.config, found.disk)
        self.problem: str | None = None
        self.store: MessageStore | None = MessageStore(found.root, found.options, found.disk, read_only=True)
        try:
            self.store.open()
        except StorageError as error:
            self.store, self.problem = None, str(error)

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def queue_rows(self) -> list[StoredQueueRow]:
        if self.store is None:
            return []
        queues = self.store.queues
        rows = [_queue_row(self.store, name, queue_id) for name in queues.names() for queue_id in queues.ids_of(name)]
        return sorted(rows, key=lambda row: (_is_light(row.topic), row.topic, row.queue_id))

    def summary(self, queues: Sequence[StoredQueueRow]) -> StoreSummary:
        found, store, tables = self.found, self.store, self.tables
        plain = [row for row in queues if not _is_light(row.topic)]
        timers = timers_of(found, store) if store is not None else None
        log_names = [name for name in found.disk.listdir(found.paths.commit_log) if name.isdecimal()]
        return StoreSummary(
            store=found.root,
            state=_state(found),
            written_by=str(found.writer),
            problem=self.problem,
            said=list(self.said) or None,
            log_begin_offset=store.log.min_offset if store is not None else int(log_names[0]) if log_names else 0,
            log_end_offset=store.confirmed_offset if store is not None else None,
            log_files=len(log_names),
            log_file_size_bytes=found.options.commit_log_file_size_bytes,
            oldest_ms=_store_time(store, store.log.min_offset) if store is not None else None,
            newest_ms=max((row.newest_ms for row in queues if row.newest_ms is not None), default=None),
            topics=len({row.topic for row in plain}),
            queues=len(plain),
            messages=sum(row.messages for row in plain),
            light_queues=len(queues) - len(plain),
            retry_messages=sum(row.messages for row in plain if row.topic.startswith(RETRY_PREFIX)),
            dead_letters=sum(row.messages for row in plain if row.topic.startswith(DLQ_PREFIX)),
            delayed=_counted(delayed_count, self),
            timers=timers.waiting_count if timers is not None else None,
            next_timer_ms=timers.next_due_ms if timers is not None else None,
            half_messages=_counted(half_count, self),
            pop_entries=_counted(pop_entry_count, self),
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


def _queue_row(store: MessageStore, topic: str, queue_id: int) -> StoredQueueRow:
    try:
        queue = store.queue(topic, queue_id)
    except StorageError as error:
        return _unread_queue(topic, queue_id, str(error))
    if queue is None:
        return _unread_queue(topic, queue_id, "it is gone")
    first, last = queue.unit(queue.min_offset), queue.unit(queue.max_offset - 1)
    return StoredQueueRow(
        topic=queue.topic,
        queue_id=queue.queue_id,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
        messages=queue.max_offset - queue.min_offset,
        oldest_ms=_store_time(store, first[0]) if first is not None else None,
        newest_ms=_store_time(store, last[0]) if last is not None else None,
        problem=None,
    )


def _unread_queue(topic: str, queue_id: int, problem: str) -> StoredQueueRow:
    return StoredQueueRow(
        topic=topic, queue_id=queue_id, min_offset=0, max_offset=0, messages=0, oldest_ms=None, newest_ms=None,
        problem=problem,
    )  # fmt: skip


def _store_time(store: MessageStore, log_offset: int) -> int | None:
    return store.store_time(log_offset) if store.log.has(log_offset, 1) else None


def _is_light(topic: str) -> bool:
    return topic.startswith(LIGHT_QUEUE_PREFIX)


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
    with inventory(found) as opened:
        rows = opened.queue_rows()
        return InspectedQueues(rows, opened.summary(rows))


def inspected_topics(found: Survey, chosen: Callable[[Sequence[str]], list[str]]) -> InspectedTopics:
    """``chosen`` tells which topics are shown."""
    whole = inspected_queues(found)
    by_topic: dict[str, list[StoredQueueRow]] = {}
    for row in whole.queues:
        by_topic.setdefault(row.topic, []).append(row)
    return InspectedTopics([_topic_row(name, by_topic[name]) for name in chosen(list(by_topic))], whole.told)


def _topic_row(topic: str, queues: Sequence[StoredQueueRow]) -> StoredTopicRow:
    return StoredTopicRow(
        topic=topic,
        queues=len(queues),
        messages=sum(row.messages for row in queues),
        oldest_ms=min((row.oldest_ms for row in queues if row.oldest_ms is not None), default=None),
        newest_ms=max((row.newest_ms for row in queues if row.newest_ms is not None), default=None),
        problem=next((row.problem for row in queues if row.problem is not None), None),
    )
