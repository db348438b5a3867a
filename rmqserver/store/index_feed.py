"""What the index still lacks, in log order: after a start what recovery leaves to it, read from the log, and from then
on what the rounds hand over. A broker that was killed serves again without waiting for its index."""

from __future__ import annotations

from collections import deque

from rmqproto.record import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rmqserver.store.commit_log import CommitLog
from rmqserver.store.consume_queues import ConsumeQueues, Topic
from rmqserver.store.disk import storage_error
from rmqserver.store.index import Index
from rmqserver.store.index_file import IndexItem, index_item
from rmqserver.store.log_scan import scan_portions
from rmqserver.store.running_flags import INDEX_ERROR, RunningFlags

BACKLOG_MAX = 4096
"""Messages that may wait for the index; with more, rounds work some off before they end."""

PORTION = 128
"""Messages put into the index at a time: large enough to share the cost of a call, small enough (a fifth of a
millisecond) that no answer waits for it noticeably."""

FEW = 5
"""Messages put while a client makes its next request."""


class IndexFeed:
    """An index that cannot be written any more, or is none, is fed nothing."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, index: Index | None, flags: RunningFlags):
        self._log = log
        self._queues = queues
        self._index = index
        self._flags = flags
        self._backlog: deque[list[IndexItem]] = deque()
        self._backlog_count = 0
        self._read_offset: int | None = None
        """Up to there the log has been read, while it still is."""

    def read_from(self, log_offset: int) -> None:
        """The index lacks visible records from that one on."""
        if self._index is not None and log_offset < self._log.visible_offset:
            self._read_offset = log_offset

    def add(self, items: list[IndexItem]) -> None:
        """Takes visible messages, in log order."""
        if self._read_offset is not None:
            return  # the log will be read that far
        self._backlog.append(items)
        self._backlog_count += len(items)
        while self._backlog_count > BACKLOG_MAX:
            self.put_some()

    @property
    def is_behind(self) -> bool:
        return self._read_offset is not None or bool(self._backlog)

    @property
    def behind_bytes(self) -> int:
        """Log bytes between the end of what is visible and the oldest message that the index lacks."""
        if self._read_offset is not None:
            return self._log.visible_offset - self._read_offset
        return self._log.visible_offset - self._backlog[0][0][1] if self._backlog else 0

    def put_few(self) -> None:
        """Puts the work of a moment, where there is as much; not while the log is still read."""
        if self._backlog_count >= FEW:
            self.put_some(FEW)

    def put_some(self, portion: int = PORTION) -> None:
        """Puts a portion of what is behind: so many messages, or one round's."""
        if self._index is None or self._flags.bits & INDEX_ERROR:
            self._read_offset, self._backlog_count = None, 0
            self._backlog.clear()
            return
        items = self._read_some() if self._read_offset is not None else self._take_some(portion)
        try:
            self._index.put(items)
        except OSError as error:
            self._flags.set(INDEX_ERROR, str(storage_error(error, "cannot write index file", self._index.directory)))

    def _take_some(self, portion: int) -> list[IndexItem]:
        items = self._backlog.popleft() if self._backlog else []
        while self._backlog and len(items) + len(self._backlog[0]) <= portion:
            items += self._backlog.popleft()
        self._backlog_count -= len(items)
        return items

    def _read_some(self) -> list[IndexItem]:
        """The next records of the log, of which recovery has made sure. What is not visible yet comes by ``add``."""
        assert self._read_offset is not None
        start = max(self._read_offset, self._log.min_offset)  # retention may have gone ahead
        portion = next(scan_portions(self._log.segments, start, check_crc=False), [])
        topics, end, items = self._queues.topics, self._log.visible_offset, []
        for found in portion:
            if found.log_offset >= end:
                break
            if found.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
                topic = topics.get(found.topic) or Topic(
                    found.topic
                )  # deleted: its records are there until they expire
                items.append(index_item(topic, found.log_offset, found.store_timestamp_ms, found.properties))
            start = found.log_offset + found.size_bytes
        self._read_offset = start if portion and start < end else None
        return items
