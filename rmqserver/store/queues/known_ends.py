"""Where queues ended when the store was closed (``queueEnds``, ours alone)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.whole_files import PackedFile
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import ConsumeQueue

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
    """Where the queues ended when the store was closed (``queueEnds``, a file of ours alone). Nothing else tells a
    queue that has lost its files from one that never had any: its next message would get a queue offset that an older
    one has. A store without the file is a sound one.

    No queue ends earlier, unless its topic is deleted or the log is cut. The file is removed before that, so it also
    counts after a kill."""

    def __init__(self, path: str, disk: Disk):
        self._path = path
        self._disk = disk
        self._ends: Ends = {}
        self._short: dict[tuple[str, int], None] = {}
        self._is_there = self._read_only = False
        self.log_min_offset = -1
        """Where the log began. If it still does, no first file of a queue was removed since."""
        self.log_offset = 0
        """That of a record: the ends cover this record and all before it. 0 if no end is known."""

    def load(self, log_offset_max: int, *, is_closed: bool, read_only: bool) -> None:
        """``log_offset_max`` is the newest record whose unit is known to be in a file; with ``is_closed`` the store was
        closed behind it. A file that says other things is of another time of the log, and is removed. OSError."""
        self._read_only = read_only
        self._is_there = self._disk.is_file(self._path)
        saved = FILE.read(self._disk, self._path)
        low = log_offset_max if is_closed else 1
        if saved is None or not 0 < low <= saved.log_offset <= log_offset_max:
            self.remove_file()
            return
        self._ends, self.log_min_offset, self.log_offset = saved.ends, saved.log_min_offset, saved.log_offset
        self._short = dict.fromkeys(saved.short)

    def of(self, topic: str, queue_id: int) -> int:
        """The queue ends there or behind that; 0 if nothing is known."""
        queues = self._ends.get(topic)
        return queues[queue_id][1] if queues is not None and queue_id in queues else 0

    def all(self) -> Iterator[tuple[str, int, int, int]]:
        """Topic, queue id, first queue offset of the first file, and end of each queue."""
        for topic, queues in self._ends.items():
            for queue_id, (first_offset, end) in queues.items():
                yield topic, queue_id, first_offset, end

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
        self.remove_file()

    def forget_all(self) -> None:
        """Call it before the log is cut. OSError."""
        self.remove_file()
        self._ends, self._short, self.log_min_offset, self.log_offset = {}, {}, -1, 0

    def remove_file(self) -> None:
        """From here on, what is known ends with the process. OSError."""
        if self._is_there and not self._read_only:
            self._disk.unlink(self._path)
            self._disk.sync_directory(self._path.rpartition("/")[0])
            self._is_there = False

    def save(self, log_min_offset: int, log_offset: int, opened: Iterable[ConsumeQueue]) -> None:
        """Writes the file for a store that is about to be closed: its log begins at ``log_min_offset``, and the last
        record is at ``log_offset``. ``opened`` are the queues that were used. Of others, what was known is true still:
        retention opens those of which it removes files. OSError."""
        for queue in opened:
            if queue.segments.bases:
                first = queue.segments.min_offset // UNIT_SIZE_BYTES
                self._ends.setdefault(queue.topic, {})[queue.queue_id] = first, queue.next_offset
            self._short.pop((queue.topic, queue.queue_id), None)
        FILE.write(self._disk, self._path, SavedEnds(log_min_offset, log_offset, self._ends, list(self._short)))
        self._is_there = True
