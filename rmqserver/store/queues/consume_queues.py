"""Every topic and queue of a store, by name: the table of the hot path, and the directory tree behind it
(``consumequeue/<topic>/<queueId>``). A queue without messages has no file. Until a queue is first used after a start,
only its directory is known, so a start takes no longer with more queues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rmqproto.errors import StorageError
from rmqproto.java.java_hash import abs_hash, extend_hash, extend_hash_utf8, tag_code
from rmqproto.message.record import MAGIC_V1, MAGIC_V2, RECORD_V4, TOPIC_V1_LENGTH_MAX, topic_field
from rmqproto.names import LIGHT_QUEUE_PREFIX, RETRY_OR_DLQ_TOPIC_LENGTH_MAX, RETRY_PREFIX
from rmqserver.core import NO_TAG
from rmqserver.store.disk.cached_reads import NotCached
from rmqserver.store.disk.disk import Disk, storage_error
from rmqserver.store.disk.segments import NAME_DIGITS, FileCache, SegmentedFile
from rmqserver.store.fate import fates
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import ConsumeQueue
from rmqserver.store.queues.file_notes import KnownEnds
from rmqserver.store.results import MessageRefused, PutStatus

LOOKED_FOR_MAX = 1000
"""Queues whose last files a start looks for, for a microsecond each: a start takes no longer with more queues."""

TAGS_CACHED_MAX = 1000
"""Limit for each topic, because tags come from clients."""


def can_be_directory(topic: str) -> bool:
    """Whether a topic's name can name a directory."""
    return topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic


class Topic:
    """What appending to a topic needs to know of it, worked out once."""

    __slots__ = (
        "fates", "field", "index_prefix_hash", "is_long", "is_too_long", "magic", "name", "overhead_bytes", "queues",
        "tags", "unopened",
    )  # fmt: skip

    def __init__(self, name: str):
        self.name = name
        self.field = topic_field(name)
        self.is_long = len(self.field) > TOPIC_V1_LENGTH_MAX + 1
        is_retry = name.startswith(RETRY_PREFIX) and len(self.field) <= RETRY_OR_DLQ_TOPIC_LENGTH_MAX + 2
        self.is_too_long = self.is_long and not is_retry
        """No record may have it."""
        self.magic = MAGIC_V2 if self.is_long else MAGIC_V1
        self.overhead_bytes = RECORD_V4.size + len(self.field) + 2
        self.index_prefix_hash = extend_hash(0, name + "#")
        self.fates = fates(name)
        self.queues: dict[int, ConsumeQueue] = {}
        self.unopened: set[int] = set()
        """Queues that have a directory and were not used yet."""
        self.tags: dict[bytes, tuple[int, int]] = {}
        """Cached results of ``tag``."""

    def tag(self, tags: bytes) -> tuple[int, int]:
        """The code for a record's TAGS in its consume queue unit, and the hash of their index entry."""
        found = self.tags.get(tags)
        if found is None:
            if len(self.tags) >= TAGS_CACHED_MAX:
                self.tags.clear()
            entry_hash = abs_hash(extend_hash_utf8(self.index_prefix_hash, b"T#" + tags)) if tags else NO_TAG
            found = self.tags[tags] = tag_code(tags.decode("utf-8", "replace")), entry_hash
        return found


class ConsumeQueues:
    """``topics`` holds the topics used so far, with the queues used so far. Every method that opens a queue raises
    StorageError if the queue cannot be read; the next use tries again."""

    def __init__(self, directory: str, file_size_bytes: int, disk: Disk, cache: FileCache, ends: KnownEnds):
        self.directory = directory
        self.ends = ends
        self.refuses_short = False
        """Set after recovery, which makes queues whole."""
        self.topics: dict[str, Topic] = {}
        self.behind: dict[ConsumeQueue, None] = {}
        """Queues with visible units that are not in their file yet, oldest first."""
        self.changed_paths: dict[str, None] = {}
        """Files written since the last ``take_changed_paths``."""
        self.log_min_offset = 0
        self.heads_log_min_offset = 0
        """Where the log started when first files of queues were last removed."""
        self.log_end_offset: int | None = None
        """Where the log started and, after recovery, ended: a queue that is opened forgets everything outside."""
        self.light_count = 0
        """Light queues among the topics and directories."""
        self._unopened: set[str] = set()
        """Directories of topics that were not used yet."""
        self._with_several: list[tuple[str, int]] | None = None
        self._was_clean = True
        self._read_only = False
        self._file_size_bytes = file_size_bytes
        self._disk = disk
        self._cache = cache

    def look(self, *, clean: bool, read_only: bool) -> None:
        """Finds out which topics have a directory. Their queues are opened on demand; if the store was not stopped
        ``clean``, that also repairs what a crash left of them. StorageError if a file stands where a topic's directory
        should be: nothing could be sent to that topic."""
        self.topics.clear()
        self._unopened = set(self._disk.listdir(self.directory))
        for path in (f"{self.directory}/{name}" for name in self._unopened):
            if not self._disk.is_directory(path):
                raise StorageError(f"{path} is a file, not a topic's directory", hint="move it away")
        self.light_count = sum(name.startswith(LIGHT_QUEUE_PREFIX) for name in self._unopened)
        self._was_clean, self._read_only = clean, read_only

    def topic(self, name: str) -> Topic:
        """The topic's entry, new if there was none. MessageRefused if no directory can have the name: brokers check
        names, but records also come from files."""
        found = self.topics.get(name)
        if found is None:
            if not can_be_directory(name):
                raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, f"{name!r} cannot be a topic's name")
            found = Topic(name)
            if name in self._unopened:
                found.unopened = self._queue_ids(name)
                self._unopened.discard(name)
            elif name.startswith(LIGHT_QUEUE_PREFIX):
                self.light_count += 1
            self.topics[name] = found
        return found

    def _queue_ids(self, topic: str) -> set[int]:
        """Every ``<topic>/<number>`` there is; other names are skipped."""
        path = f"{self.directory}/{topic}"
        try:
            return {int(name) for name in self._disk.listdir(path) if name.isdecimal()}
        except OSError as error:
            raise storage_error(error, "cannot look into", path) from error

    def add(self, topic: Topic, queue_id: int) -> ConsumeQueue:
        """The topic's queue, new and empty if there was none."""
        found = topic.queues.get(queue_id)
        if found is None:
            path = f"{self.directory}/{topic.name}/{queue_id}"
            segments = SegmentedFile(path, self._file_size_bytes, self._disk, self._cache)
            found = ConsumeQueue(topic.name, queue_id, segments)
            try:
                if queue_id in topic.unopened:
                    found.load(clean=self._was_clean, read_only=self._read_only)
                    found.forget_before(self.log_min_offset)
                    if self.log_end_offset is not None:
                        found.truncate(self.log_end_offset, read_only=self._read_only)
            except OSError as error:
                raise storage_error(error, "cannot open consume queue", path) from error
            if self.refuses_short:
                self._refuse_short(found)
            topic.unopened.discard(queue_id)
            topic.queues[queue_id] = found
        return found

    def _refuse_short(self, queue: ConsumeQueue) -> None:
        end = self.ends.of(queue.topic, queue.queue_id)
        if queue.next_offset >= end:
            return
        self.ends.note_short(queue.topic, queue.queue_id)
        raise StorageError(
            f"{queue.segments.directory}: the queue had messages up to queue offset {end - 1}, "
            f"and its files end at {queue.next_offset}",
            hint="stop the broker and start it again: it makes the queue again from the log",
        )

    def open_doubtful(self) -> list[ConsumeQueue]:
        """Opens the queues that have lost their topic's directory, their last or their first file, or that were refused
        when the store was last open: recovery makes them whole. Returns those without their first file, for which that
        takes a new queue. A short queue that is not found here is refused when it is used."""
        ends, there = self.ends, set(self.names())
        for topic, queue_id, _, _ in ends.all():
            if topic not in there:
                self.add(self.topic(topic), queue_id)
        for topic, queue_id in ends.short:
            self.add(self.topic(topic), queue_id)
        others = (each for each in ends.all() if each[0] in there and each[:2] not in ends.short)
        keeps_heads = ends.log_min_offset == self.log_min_offset  # nothing has expired since
        headless: list[ConsumeQueue] = []
        for topic, queue_id, first, end in itertools.islice(others, LOOKED_FOR_MAX):
            lacks_head = keeps_heads and not self._has_file(topic, queue_id, first)
            if lacks_head or not self._has_file(topic, queue_id, end - 1):
                queue = self.add(self.topic(topic), queue_id)
                if lacks_head and queue.segments.bases:
                    headless.append(queue)
        return headless

    def _has_file(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        at = queue_offset * UNIT_SIZE_BYTES
        path = f"{self.directory}/{topic}/{queue_id}/{at - at % self._file_size_bytes:0{NAME_DIGITS}d}"
        return self._disk.is_file(path)

    def find(self, topic: str, queue_id: int, *, opens: bool = True) -> ConsumeQueue | None:
        """None if there is no such queue. NotCached if it has to be opened first, unless ``opens``."""
        entry = self.topics.get(topic)
        if entry is None:
            if topic not in self._unopened:
                return None
            entry = self.topic(topic)
        if (queue := entry.queues.get(queue_id)) is not None:
            return queue
        is_known = queue_id in entry.unopened or (self.refuses_short and self.ends.of(topic, queue_id) > 0)
        if is_known and not opens:
            raise NotCached([])
        return self.add(entry, queue_id) if is_known else None

    def names(self) -> list[str]:
        """The topics that have a queue, or a directory for one."""
        return [*self.topics, *self._unopened]

    def of_topic(self, name: str) -> list[ConsumeQueue]:
        """The topic's queues, by number. Opens them."""
        return [self.add(self.topics[name], queue_id) for queue_id in self.ids_of(name)]

    def ids_of(self, name: str) -> list[int]:
        """Numbers of the topic's queues. Opens none of them."""
        entry = self.topics.get(name) or (self.topic(name) if name in self._unopened else None)
        return [] if entry is None else sorted({*entry.queues, *entry.unopened})

    def all(self) -> Iterator[ConsumeQueue]:
        """Opens each queue when its turn comes: a dozen take a millisecond."""
        for name in self.names():
            yield from self.of_topic(name)

    def look_for_several_files(self) -> None:
        """Finds the queues with more than one file, for the next ``with_old_files``. Waits for the device; any
        thread."""
        self._with_several = [queue for queue in self._several_files() if queue is not None]

    def _several_files(self) -> Iterator[tuple[str, int] | None]:
        """Looks at a queue in each step: None if it has a single file."""
        for name in self._disk.listdir(self.directory):
            for queue_id in sorted(self._queue_ids(name)):
                files = self._disk.listdir(f"{self.directory}/{name}/{queue_id}")
                yield (name, queue_id) if len(files) > 1 else None

    def with_old_files(self) -> Iterator[ConsumeQueue | None]:
        """Those that are open, and those with several files, which it opens. Queues that come later have no old files.
        Unless ``look_for_several_files`` was called before, steps with None look for them."""
        for topic in list(self.topics.values()):
            yield from list(topic.queues.values())
        found, self._with_several = self._with_several, None
        for queue in self._several_files() if found is None else found:
            yield None if queue is None else self.find(*queue)

    def opened(self) -> Iterator[ConsumeQueue]:
        for topic in self.topics.values():
            yield from topic.queues.values()

    @property
    def newest_log_offset(self) -> int:
        """Start of the newest record that any queue knows, or -1 (Apache's D in recovery)."""
        newest = max(self.all(), key=lambda queue: queue.indexed_log_offset, default=None)
        if newest is None or not newest.indexed_log_offset:
            return -1
        unit = newest.unit(newest.max_offset - 1)
        return unit[0] if unit is not None else -1

    def write_queue(self, queue: ConsumeQueue) -> None:
        first, file_count = queue.written_offset, len(queue.segments.bases)
        queue.write_behind()
        self.behind.pop(queue, None)
        self.changed_paths.update(dict.fromkeys(queue.paths_since(first)))
        bases = queue.segments.bases
        if len(bases) > file_count or (bases and first * UNIT_SIZE_BYTES <= bases[-1]):
            self.note_last_file(queue)

    def note_last_file(self, queue: ConsumeQueue) -> None:
        """Has a start after kill -9 know that the queue has it. Does nothing if the file holds no message."""
        if queue.segments.bases:
            first_in_it = max(queue.segments.bases[-1] // UNIT_SIZE_BYTES, queue.min_offset)
            if first_in_it < queue.written_offset:
                self.ends.note(queue, first_in_it, self.heads_log_min_offset)

    def take_changed_paths(self) -> list[str]:
        paths = list(self.changed_paths)
        self.changed_paths.clear()
        return paths

    def delete_topic(self, name: str) -> None:
        """Forgets the topic and removes its directories; its records stay in the log until they expire."""
        topic = self.topic(name) if name in self._unopened else self.topics.get(name)
        if topic is None:
            return
        self.ends.forget(name)
        if not name.startswith(LIGHT_QUEUE_PREFIX):  # those go in numbers
            self.ends.prepare()()  # else a start after a power cut would miss the files, and make them again
        del self.topics[name]
        self.light_count -= name.startswith(LIGHT_QUEUE_PREFIX)
        for queue in topic.queues.values():
            self.delete_queue(queue)
        for queue_id in topic.unopened:
            path = f"{self.directory}/{name}/{queue_id}"
            for each in reversed(self._disk.listdir(path)):  # the last first: a crash leaves no gap
                self._disk.unlink(f"{path}/{each}")
            self._disk.rmdir(path)
        self._disk.rmdir(f"{self.directory}/{name}")

    def begin_anew(self, topic: Topic, queue: ConsumeQueue) -> ConsumeQueue:
        """Replaces the queue by an empty one; in a store that is read only, in memory."""
        if not self._read_only:
            self.ends.forget(topic.name, queue.queue_id)
            self.delete_queue(queue)
        del topic.queues[queue.queue_id]
        return self.add(topic, queue.queue_id)

    def delete_queue(self, queue: ConsumeQueue) -> None:
        queue.is_deleted = True
        self.behind.pop(queue, None)
        queue.segments.delete_all()
        self._disk.rmdir(queue.segments.directory)
