"""Where the queues ended when the store was closed, as a file (``queueEnds``, ours alone), and which files they have
got since (``FileNotes``). A queue is opened when it is first used, and nothing else tells a queue that has lost its
files from one that never had any: its next message would get a queue offset that an older one has. The files save no
work, and a store without them is a sound one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.packed_file import PackedFile
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import ConsumeQueue
from rmqserver.store.queues.file_notes import FileNotes, NotedFile

Ends = dict[str, dict[int, tuple[int, int]]]
"""By topic and queue id: the first queue offset of the queue's first file, and the one behind its last message."""


class SavedEnds(msgspec.Struct, array_like=True):
    """The log began at ``log_min_offset``; ``log_offset`` is that of its last record. The queues in ``short`` were
    found to end too early: the next start opens them."""

    log_min_offset: int
    log_offset: int
    ends: Ends
    short: list[tuple[str, int]]


FILE = PackedFile(b"RMQE", 1, SavedEnds)


class KnownEnds:
    """No queue ends earlier, unless its topic is deleted or the log is cut. The file is removed before that, so it also
    counts after a kill."""

    def __init__(self, path: str, notes_path: str, disk: Disk):
        self._notes = FileNotes(notes_path, disk)
        self._path = path
        self._disk = disk
        self._ends: Ends = {}
        self._short: dict[tuple[str, int], None] = {}
        self._is_there = self._read_only = False
        self.log_min_offset = -1
        """Where the log began. If it still does, no first file of a queue was removed since."""
        self.log_offset = 0
        """That of a record: the ends cover this record and all before it. 0 if no end is known."""

    def load(self, log_offset_max: int, *, is_closed: bool, has_notes: bool, read_only: bool) -> None:
        """``log_offset_max`` is the newest record whose unit is known to be in a file; with ``is_closed`` the store was
        closed behind it. A file that says other things is of another time of the log, and is removed. ``has_notes``:
        one of our brokers was killed, and what it noted of new files counts. OSError."""
        self._read_only = read_only
        self._is_there = self._disk.is_file(self._path)
        if has_notes:
            self._notes.load()
        elif not read_only:
            self._notes.remove()
        saved = FILE.read(self._disk, self._path)
        low = log_offset_max if is_closed else 1
        if saved is None or not 0 < low <= saved.log_offset <= log_offset_max:
            self._remove_file()
            self.log_min_offset = self._notes.log_min_offset
            return
        self._ends, self.log_min_offset, self.log_offset = saved.ends, saved.log_min_offset, saved.log_offset
        self._short = dict.fromkeys(saved.short)

    def of(self, topic: str, queue_id: int) -> int:
        """The queue ends there or behind that; 0 if nothing is known."""
        queues = self._ends.get(topic)
        end = queues[queue_id][1] if queues is not None and queue_id in queues else 0
        return max(end, self._notes.end_of(topic, queue_id))

    def all(self) -> Iterator[tuple[str, int, int, int]]:
        """Topic, queue id, first queue offset of the first file, and end of each queue."""
        for topic, queue_id, first, last in self._notes.all():
            if queue_id not in self._ends.get(topic, ()):
                yield topic, queue_id, first.first, last.end
        for topic, queues in self._ends.items():
            for queue_id, (first_offset, _) in queues.items():
                yield topic, queue_id, first_offset, self.of(topic, queue_id)

    def note(self, queue: ConsumeQueue, position: int, log_min_offset: int) -> None:
        """The queue has a file for the unit at ``position``, a queue offset, and the unit is in it."""
        if position < self.of(queue.topic, queue.queue_id):
            return
        unit = queue.unit(position)
        noted = NotedFile(
            queue.segments.min_offset // UNIT_SIZE_BYTES, position + 1, unit[0] if unit is not None else 0
        )
        self._notes.add(queue.topic, queue.queue_id, noted, log_min_offset)

    def drop_behind(self, log_offset: int) -> None:
        """Forgets the noted files of records behind ``log_offset``, the last of the log."""
        self._notes.drop_behind(log_offset)

    @property
    def short(self) -> Collection[tuple[str, int]]:
        """The queues that were found to end too early when the store was last open."""
        return self._short

    def note_short(self, topic: str, queue_id: int) -> None:
        self._short[topic, queue_id] = None

    def forget(self, topic: str, queue_id: int | None = None) -> None:
        """Call it before the queue, or the whole topic, is deleted. OSError."""
        queues = self._ends.get(topic, {})
        for each in list(queues) if queue_id is None else [queue_id]:
            queues.pop(each, None)
            self._short.pop((topic, each), None)
        self._notes.forget(topic, queue_id)
        self.keep_as_notes()

    def keep_as_notes(self) -> None:
        """From here on, a power cut voids what is known. OSError."""
        if self._is_there and not self._read_only:
            known = [(name, number, NotedFile(first, end, 0)) for name, number, first, end in self.all()]
            self._notes.add_all(known, self.log_min_offset)
            self._remove_file()

    def forget_all(self) -> None:
        """Call it before the log is cut. OSError."""
        self._remove_file()
        if not self._read_only:
            self._notes.remove()
        self._ends, self._short, self.log_min_offset, self.log_offset = {}, {}, -1, 0

    def _remove_file(self) -> None:
        if self._is_there and not self._read_only:
            self._disk.unlink(self._path)
            self._disk.sync_directory(self._path.rpartition("/")[0])
            self._is_there = False

    def save(self, log_min_offset: int, log_offset: int, opened: Iterable[ConsumeQueue]) -> None:
        """Writes the file for a store that is about to be closed: its log begins at ``log_min_offset``, and the last
        record is at ``log_offset``. ``opened`` are the queues that were used. Of others, what was known is true still:
        retention opens those of which it removes files. OSError."""
        for topic, queue_id, first, end in list(self.all()):
            self._ends.setdefault(topic, {})[queue_id] = first, end
        for queue in opened:
            if queue.segments.bases:
                first = queue.segments.min_offset // UNIT_SIZE_BYTES
                self._ends.setdefault(queue.topic, {})[queue.queue_id] = first, queue.next_offset
            self._short.pop((queue.topic, queue.queue_id), None)
        FILE.write(self._disk, self._path, SavedEnds(log_min_offset, log_offset, self._ends, list(self._short)))
        self._is_there = True
        self._notes.remove()
