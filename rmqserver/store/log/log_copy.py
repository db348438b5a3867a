"""A log that is another broker's: its bytes come as they lie there, and are followed as the store's own rounds are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rmqproto.errors import ProtocolError
from rmqserver.store.confirmation import OFFSET_MAX, Confirmation
from rmqserver.store.fate import FATE_MASK, INDEXED
from rmqserver.store.followers import Follower, Round
from rmqserver.store.index.file import IndexItem, index_item
from rmqserver.store.log.appender import Appender
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.log.scan import FoundRecord, scan_portions
from rmqserver.store.queues.consume_queues import ConsumeQueues
from rmqserver.store.queues.feed import QueueFeed


class LogCopy:
    """Of an open store to which nobody appends messages. ``end_offset`` is where the next bytes go; readers see the
    records that are whole. ``begin_at``: nothing lies before that log offset. ``readers`` are given them."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        appender: Appender,
        queue_feed: QueueFeed,
        confirmation: Confirmation,
        begin_at: Callable[[int], None],
        readers: Iterable[Follower] = (),
        *,
        index_enabled: bool,
    ):
        self._log = log
        self._queues = queues
        self._appender = appender
        self._queue_feed = queue_feed
        self._confirmation = confirmation
        self._begin_at = begin_at
        self._readers = tuple(readers)
        self._indexed = INDEXED if index_enabled else 0
        self._visible_max = OFFSET_MAX
        self._dispatched_offset = appender.end_offset
        """Where the next record begins, of which maybe only a part is there."""

    @property
    def end_offset(self) -> int:
        return self._appender.end_offset

    def append(self, log_offset: int, data: bytes) -> None:
        """Takes the bytes that are at ``log_offset``. An empty store may begin at the start of any file. ProtocolError,
        with nothing changed, if they do not go on where the log ends, or pass the end of a file; StorageError if they
        cannot be written: then the store refuses all that comes until it is opened anew."""
        self._check(log_offset, len(data))
        if not self._log.segments.bases:
            self._begin_at(log_offset)
            self._dispatched_offset = log_offset
        self._appender.copy(log_offset, data)
        self._dispatch_all()

    def show_until(self, log_offset: int) -> None:
        """Readers see nothing behind there, until this is called anew. What they see already stays."""
        self._visible_max = log_offset
        self._dispatch_all()

    def _dispatch_all(self) -> None:
        """A record whose properties have come in part looks whole: what is not there yet is zeros in the file."""
        end = min(self.end_offset, self._visible_max)
        if self._dispatched_offset >= end:
            return
        for records in scan_portions(self._log.segments, self._dispatched_offset):
            shown = [found for found in records if found.log_offset + found.size_bytes <= end]
            if shown:
                self._dispatch(shown)
            if len(shown) < len(records):
                return

    def _check(self, log_offset: int, size: int) -> None:
        segments = self._log.segments
        room = segments.file_size_bytes - log_offset % segments.file_size_bytes
        if size > room:
            raise ProtocolError(f"{size} bytes at log offset {log_offset} pass the end of a file, {room} bytes on")
        if segments.bases and log_offset != self.end_offset:
            raise ProtocolError(
                f"bytes at log offset {log_offset} do not go on where the log ends, at {self.end_offset}"
            )
        if not segments.bases and log_offset % segments.file_size_bytes:
            raise ProtocolError(f"an empty log cannot begin at log offset {log_offset}, in the middle of a file")

    def _dispatch(self, records: list[FoundRecord]) -> None:
        last = records[-1]
        self._dispatched_offset = end = last.log_offset + last.size_bytes
        self._appender.last_store_timestamp_ms = last.store_timestamp_ms
        arrivals = self._queue_feed.take(records)
        items = self._index_items(records) if self._indexed else []
        for reader in self._readers:
            reader.replay(records)
        self._confirmation.written(Round(end, last.log_offset, [], items, arrivals))

    def _index_items(self, records: list[FoundRecord]) -> list[IndexItem]:
        items = []
        for found in records:
            topic = self._queues.topics.get(found.topic)
            if topic is not None and topic.fates[found.sys_flag & FATE_MASK] & self._indexed:
                items.append(index_item(topic, found.log_offset, found.store_timestamp_ms, found.properties))
        return items
