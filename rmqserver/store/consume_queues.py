"""Every topic and queue of a store, by name: the table that the hot path looks up, and the directory tree behind it
(``consumequeue/<topic>/<queueId>``). A queue that no message has reached has no file."""

from __future__ import annotations

from collections.abc import Iterator

from rmqproto.java_hash import abs_hash, extend_hash, extend_hash_utf8, tag_code
from rmqproto.names import SCHEDULE_TOPIC
from rmqproto.record import MAGIC_V1, MAGIC_V2, RECORD_V4, TOPIC_V1_LENGTH_MAX, topic_field
from rmqserver.store.consume_queue import ConsumeQueue
from rmqserver.store.disk import Disk
from rmqserver.store.results import MessageRefused, PutStatus
from rmqserver.store.segments import FileCache, SegmentedFile

NO_TAG = -1
"""In place of the hash of a tag's index entry, for messages without tags."""

TAGS_CACHED_MAX = 1000
"""For each topic: tags come from clients."""


class Topic:
    """What appending to a topic needs to know of it, worked out once."""

    __slots__ = ("field", "index_prefix_hash", "is_schedule", "magic", "name", "overhead_bytes", "queues", "tags")

    def __init__(self, name: str):
        self.name = name
        self.field = topic_field(name)
        self.magic = MAGIC_V1 if len(self.field) <= TOPIC_V1_LENGTH_MAX + 1 else MAGIC_V2
        self.overhead_bytes = RECORD_V4.size + len(self.field) + 2
        self.index_prefix_hash = extend_hash(0, name + "#")
        self.is_schedule = name == SCHEDULE_TOPIC
        self.queues: dict[int, ConsumeQueue] = {}
        self.tags: dict[bytes, tuple[int, int]] = {}
        """What ``tag`` has said before."""

    def tag(self, tags: bytes) -> tuple[int, int]:
        """What stands for a record's TAGS in its consume queue unit, and the hash of their index entry."""
        found = self.tags.get(tags)
        if found is None:
            if len(self.tags) >= TAGS_CACHED_MAX:
                self.tags.clear()
            entry_hash = abs_hash(extend_hash_utf8(self.index_prefix_hash, b"T#" + tags)) if tags else NO_TAG
            found = self.tags[tags] = tag_code(tags.decode("utf-8", "replace")), entry_hash
        return found


class ConsumeQueues:
    def __init__(self, directory: str, file_size_bytes: int, disk: Disk, cache: FileCache):
        self.directory = directory
        self.topics: dict[str, Topic] = {}
        self.behind: dict[ConsumeQueue, None] = {}
        """Queues with visible units that are not in their file yet, oldest first."""
        self.changed_paths: dict[str, None] = {}
        """Files written since the last ``take_changed_paths``."""
        self._file_size_bytes = file_size_bytes
        self._disk = disk
        self._cache = cache

    def load(self, *, clean: bool, read_only: bool) -> None:
        """Every ``<topic>/<number>`` below the directory; other names are passed over."""
        for topic in self._disk.listdir(self.directory):
            for name in self._disk.listdir(f"{self.directory}/{topic}"):
                if name.isdecimal():
                    self.add(self.topic(topic), int(name)).load(clean=clean, read_only=read_only)

    def topic(self, name: str) -> Topic:
        """The topic's entry, new if it was not there. MessageRefused for a name that can be no directory's: brokers
        check names, but records come from files too."""
        found = self.topics.get(name)
        if found is None:
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, f"{name!r} can be no topic's name")
            found = self.topics[name] = Topic(name)
        return found

    def add(self, topic: Topic, queue_id: int) -> ConsumeQueue:
        """The topic's queue, new and empty if it was not there."""
        found = topic.queues.get(queue_id)
        if found is None:
            path = f"{self.directory}/{topic.name}/{queue_id}"
            segments = SegmentedFile(path, self._file_size_bytes, self._disk, self._cache)
            found = topic.queues[queue_id] = ConsumeQueue(topic.name, queue_id, segments)
        return found

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        entry = self.topics.get(topic)
        return entry.queues.get(queue_id) if entry is not None else None

    def all(self) -> Iterator[ConsumeQueue]:
        for topic in self.topics.values():
            yield from topic.queues.values()

    @property
    def newest_log_offset(self) -> int:
        """Start of the newest record that any queue knows, or -1 (Apache's D in recovery)."""
        newest = -1
        for queue in self.all():
            if queue.indexed_log_offset and (unit := queue.unit(queue.max_offset - 1)):
                newest = max(newest, unit[0])
        return newest

    def write_queue(self, queue: ConsumeQueue) -> None:
        first = queue.written_offset
        queue.write_behind()
        self.behind.pop(queue, None)
        self.changed_paths.update(dict.fromkeys(queue.paths_since(first)))

    def take_changed_paths(self) -> list[str]:
        paths = list(self.changed_paths)
        self.changed_paths.clear()
        return paths

    def delete_topic(self, name: str) -> None:
        """Forgets the topic and removes its directories; its records stay in the log until they expire."""
        topic = self.topics.pop(name, None)
        if topic is None:
            return
        for queue in topic.queues.values():
            self.delete_queue(queue)
        self._disk.rmdir(f"{self.directory}/{name}")

    def delete_queue(self, queue: ConsumeQueue) -> None:
        queue.is_deleted = True
        self.behind.pop(queue, None)
        queue.segments.delete_all()
        self._disk.rmdir(queue.segments.directory)
