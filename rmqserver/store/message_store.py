"""The store as the broker sees it: append and commit, flush, visibility, reads, search, retention. One thread, the
broker's loop, calls everything here except ``load``. The store owns the threads that flush and that make files ahead:
they start with ``open`` and end with ``close``."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from rmqproto.errors import ProtocolError, StorageError
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.message.properties import MULTI_DISPATCH, MULTI_QUEUE_OFFSET, TAGS
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqserver.core import Appended
from rmqserver.store.append.appender import Appender
from rmqserver.store.append.confirmation import OFFSET_MAX, Confirmation, OnVisible
from rmqserver.store.append.log_copy import LogCopy
from rmqserver.store.disk.cached_reads import may_wait
from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.disk.disk import Disk, File, OsDisk, storage_error
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.fate import QUEUED, fate
from rmqserver.store.followers import Follower, Followers
from rmqserver.store.index.feed import IndexFeed
from rmqserver.store.index.index import Index
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.log.file_maker import FileMaker
from rmqserver.store.log.flusher import Doorbell, Flusher
from rmqserver.store.log.scan import search_log
from rmqserver.store.new_message import NewMessage
from rmqserver.store.options import FlushMode, StoreOptions
from rmqserver.store.queues import time_search
from rmqserver.store.queues.consume_queue import ConsumeQueue
from rmqserver.store.queues.consume_queues import ConsumeQueues
from rmqserver.store.queues.feed import QueueFeed
from rmqserver.store.queues.file_notes import KnownEnds
from rmqserver.store.queues.light import light_names
from rmqserver.store.queues.reader import TRANSFER_BYTES_MAX, Reader
from rmqserver.store.recovery.directory import StoreDirectory
from rmqserver.store.recovery.recovery import FailedFlush, Recovered, Recovery
from rmqserver.store.results import Boundary, GetResult, QueryResult
from rmqserver.store.retention import CleanReport, Retention
from rmqserver.store.running_flags import NOT_WRITEABLE, RunningFlags

P = ParamSpec("P")
R = TypeVar("R")


MESSAGES_READ_MAX = 32
"""Messages that ``messages`` reads at a time."""

WAITING_FOR_INDEX_MAX = 1000
"""Requests that wait until the index has caught up after a start."""


def says_what_failed(method: Callable[P, R]) -> Callable[P, R]:
    """For methods that read or remove files for a caller: a disk error becomes a StorageError. It stops nothing else,
    and the next call may succeed."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except OSError as error:
            raise _failed(method.__name__, error) from error

    return call


def _failed(name: str, error: OSError) -> StorageError:
    return storage_error(error, f"{name} failed on", error.filename or "a file of the store")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of a store that a test may replace by broken ones."""

    confirmation: type[Confirmation] = Confirmation
    queue_feed: type[QueueFeed] = QueueFeed
    flusher: type[Flusher] = Flusher
    failed_flush: type[FailedFlush] = FailedFlush


DEFAULT_PARTS = StoreParts()


class MessageStore:
    """A store directory in Apache's layout.

    The writing cycle of one round of the broker's loop: any number of ``append`` and ``append_batch``, then one
    ``commit``. In async mode the records are visible when ``commit`` returns. In sync mode they become visible in the
    ``on_flush_done`` after which ``flushed_offset`` has passed them; call it whenever ``flush_fd`` is readable.

    With ``background=False`` there are no threads: ``flush`` does their work when the caller wants it.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        options: StoreOptions | None = None,
        disk: Disk | None = None,
        clock_ms: Callable[[], int] = now_ms,
        on_visible: OnVisible | None = None,
        *,
        on_written: Callable[[], None] = lambda: None,
        follow: Iterable[Callable[[MessageStore], Follower]] = (),
        parts: StoreParts = DEFAULT_PARTS,
        background: bool = True,
        read_only: bool = False,
    ):
        """``on_visible`` is called within ``commit`` or ``on_flush_done``, with what readers now see: answer held pulls
        there. ``on_written`` is called before it, in a store that waits for copies. ``follow`` makes further followers
        of the log, which are shown a round after the store's own."""
        self.disk = disk or OsDisk()
        self.directory = StoreDirectory(os.fspath(directory), self.disk)
        self.read_only = read_only
        self.options = options = options or StoreOptions()
        self.clock_ms = clock_ms
        self._parts = parts
        self._background = background and not read_only
        self._cache = FileCache(self.disk, options.open_files_max, read_only=read_only)
        self._bell = Doorbell()
        self._lock: File | None = None
        self._is_open = False
        self.flags = RunningFlags()
        paths = self.directory
        self.log = CommitLog(paths.commit_log, options.commit_log_file_size_bytes, self.disk, self._cache)
        self.queues = ConsumeQueues(
            paths.consume_queues, options.consume_queue_file_size_bytes, self.disk, self._cache,
            KnownEnds(paths.queue_ends, paths.queue_files, self.disk),
        )  # fmt: skip
        self.index: Index | None = None
        if options.index_enabled:
            counts = options.index_slot_count, options.index_unit_count
            self.index = Index(paths.index, *counts, self.disk, clock_ms)
        self._maker = FileMaker(self.log, self.disk)
        self._failed_flush = parts.failed_flush(paths.failed_flush, self.disk)
        self._flusher = parts.flusher(
            self.log, self._bell, self._failed_flush.mark, interval_ms=options.flush_interval_ms,
            checkpoint_interval_ms=options.checkpoint_interval_ms,
        )  # fmt: skip
        self._queue_feed = parts.queue_feed(
            self.queues, self.log, self.disk, self.flags, options, self.directory.note_dispatched, read_only=read_only
        )
        self._index_feed: IndexFeed | None = None
        if self.index is not None and not read_only:
            self._index_feed = IndexFeed(self.index, self.log, self.queues, self.disk, self.flags)
        # The only place that names the followers of the log.
        own = self._queue_feed, self._index_feed
        self.followers = Followers([each for each in own if each is not None] + [make(self) for make in follow])
        self._confirmation = parts.confirmation(
            self.log, self.followers, self._flusher.request, on_visible,
            waits_for_flush=options.flush_mode is FlushMode.SYNC, waits_for_copies=options.waits_for_copies,
            on_written=on_written,
        )  # fmt: skip
        self._appender = Appender(
            self.log, self.queues, self.flags, options, clock_ms, self._maker, self._confirmation,
            self._flusher.keep_first_file,
        )  # fmt: skip
        self._reader = Reader(self.log, options)
        self._retention = Retention(
            self.directory, self.disk, self.log, self.followers, self.flags, self._maker.remove, options
        )
        self._copy: LogCopy | None = None
        self._when_indexed: list[Callable[[], None]] = []
        self._checkpoint = Checkpoint()
        # The hot path calls these objects directly; see Appender for the contracts.
        self.round = self._appender.round
        self.append = self._appender.append
        self.append_batch = self._appender.append_batch
        self.commit = self._appender.commit
        self.flush_fd = self._bell.fd
        """Readable when ``on_flush_done`` has something to do."""

    # -- life

    def open(self) -> Recovered:
        """Locks, loads and recovers (``recovery.py``), starts the threads, leaves the ``abort`` mark. Returns what it
        found.

        StorageError if another process holds the store, or something in it cannot be used; nothing stays open then. A
        read-only store takes no lock, starts no thread and changes no file: it rebuilds what its queues lack from the
        log, in memory.
        """
        try:
            if not self.read_only:
                self._lock = self.directory.lock()
            recovered = self._load()
            if not self.read_only:
                self.directory.mark_running(recovered.dispatched_offset)
                if self._background:  # before the appender, which asks for space at once
                    self._maker.start()
                self._appender.start_at(recovered.end_offset)
        except OSError as error:
            self._release()
            raise storage_error(error, "cannot open store", error.filename or self.directory.root) from error
        except BaseException:
            self._release()
            raise
        self._is_open = True
        if self._background:
            self._flusher.start()
        return recovered

    def _load(self) -> Recovered:
        self.directory.refuse_other_kinds()
        clean = not self.directory.is_marked_running()
        checkpoint = Checkpoint.read(self.disk, self.directory.checkpoint)
        self.log.segments.load(read_only=self.read_only)
        if self.index is not None:
            trusted_until_ms = None if clean else checkpoint.index_timestamp_ms
            self.index.load(trusted_until_ms=trusted_until_ms, read_only=self.read_only)
        failed_flush_offset = self._failed_flush.flushed_offset()
        # After a failed flush the page cache may have lost what was written.
        dispatched_offset = self.directory.dispatched_offset() if failed_flush_offset is None else 0
        is_all_kept = dispatched_offset > 0
        if not self._load_queues(checkpoint, dispatched_offset, clean=clean):
            dispatched_offset = 0
        recovery = Recovery(
            self.log, self.followers, checkpoint, dispatched_offset,
            check_crc=self.options.check_crc_on_recover, read_only=self.read_only, is_all_kept=is_all_kept,
            vouch_for_nothing=functools.partial(self._vouch_for_nothing, checkpoint),
        )  # fmt: skip
        recovered = recovery.run(clean=clean)
        self.log.uncached_offset = recovered.end_offset  # written by another process, maybe long ago
        self._flusher.flushed_offset = recovered.end_offset
        if not clean and not self.read_only:
            # Readers see from here on what a killed process had only written, so it must be on the device too.
            synced_offset = min(recovered.start_offset, recovery.synced_offset)
            self._make_durable(synced_offset, recovered.end_offset, failed_flush_offset)
        self._checkpoint = checkpoint
        self._confirmation.last_record_offset = recovered.last_record_offset
        self._appender.last_store_timestamp_ms = recovered.last_store_timestamp_ms
        return recovered

    def _load_queues(self, checkpoint: Checkpoint, dispatched_offset: int, *, clean: bool) -> bool:
        """False if the queues are not as left by the process that had dispatched up to ``dispatched_offset``."""
        if clean:
            known_offset = checkpoint.closed_offset(functools.partial(time_search.store_time_ms, self.log))
        else:  # unsynced writes of a killed process are synced with the whole file system
            known_offset = dispatched_offset if self.disk.can_sync_file_system else 0
        ends_offset = known_offset if clean else checkpoint.vouched_offset
        has_notes = not clean and self.directory.is_marked_by_ours()
        self.queues.ends.load(ends_offset, is_closed=clean, has_notes=has_notes, read_only=self.read_only)
        is_known = self._queue_feed.load(known_offset, clean=clean)
        if not is_known:
            lacks_some = max(self._queue_feed.newest_record_offset, 0) < checkpoint.queues_log_offset
            if lacks_some:
                self._vouch_for_nothing(checkpoint)
            elif not clean and not self.read_only:
                self.directory.mark_running(0)
        return is_known or not known_offset

    def _vouch_for_nothing(self, checkpoint: Checkpoint) -> None:
        """From here on, queues may be rebuilt from the start of the log. A process killed meanwhile leaves some queues
        with their newest units and others with none, so no mark on the disk may call them whole."""
        if not self.read_only:
            # First: a store that is closed and has such a checkpoint is taken for another broker's.
            self.directory.mark_running(0)
            checkpoint.without_queues().write(self.disk, self.directory.checkpoint)
            self.queues.ends.keep_as_notes()

    def _make_durable(self, start: int, end: int, failed_flush_offset: int | None) -> None:
        try:
            if failed_flush_offset is not None:
                start = min(start, max(failed_flush_offset, self.log.min_offset))
                self._failed_flush.write_anew(self.log.segments, start, end, self.queues)
            self.log.flush(start, end)
        except OSError:
            self._failed_flush.mark(start)
            raise

    def close(self, *, keeps_mark: bool = False) -> bool:
        """Flushes everything, writes the checkpoint, removes the ``abort`` mark, releases the lock. Returns False, and
        leaves the mark, if a write or a flush ever failed: the process should then exit with a status other than 0.
        With ``keeps_mark`` the mark always stays, so that the next start recovers as after a crash."""
        if not self._is_open:
            return True
        self._is_open = False
        if self.read_only:
            self._release()
            return True
        if self._copy is not None:
            with contextlib.suppress(StorageError):  # its flag stays
                self._copy.settle()
        self._flusher.stop()
        self.flush()
        is_clean = not self.flags.has_write_failed
        if is_clean and not keeps_mark:
            try:
                if log_offset := self._checkpoint.vouched_offset:
                    self.queues.ends.save(self.log.min_offset, log_offset, self.queues.opened())
                self.directory.mark_stopped()
            except OSError:
                is_clean = False
        self._release()
        return is_clean

    def abandon(self) -> None:
        """Lets go of everything, like a killed process: flushes nothing and leaves the ``abort`` mark. For a store
        without threads."""
        self._is_open = False
        self._release()

    def _release(self) -> None:
        self._maker.stop()
        self._reader.let_go()
        self._cache.clear()
        self._bell.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # -- writing

    def put(self, message: NewMessage) -> Appended:
        """Takes one message into this round, and into the light queues that it names. The hot path uses the shortcut
        ``append``: both store the same bytes and refuse the same messages. Afterwards the message's properties hold its
        offsets in the light queues."""
        queues = self._light_queues(message) if self.options.light_queues_enabled else []
        appended = self.append(
            message.topic, message.queue_id, message.flag, message.sys_flag, message.born_timestamp_ms,
            message.born_host, message.store_host, message.reconsume_times, message.body, message.properties_bytes(),
            message.prepared_offset,
        )  # fmt: skip
        if queues:
            self._appender.dispatch(appended, message.properties.get(TAGS, "").encode(), queues)
        return appended

    def _light_queues(self, message: NewMessage) -> list[ConsumeQueue]:
        """The light queues in which the message will have units. Sets their offsets in its properties."""
        named = message.properties.get(MULTI_DISPATCH)
        if named is None:
            return []
        message.properties.pop(MULTI_QUEUE_OFFSET, None)  # only the store says what the offsets are
        names = light_names(message.topic, named)
        if not names or not fate(message.sys_flag, message.topic) & QUEUED:
            return []
        queues = self._appender.light_queues(names)
        offsets = {queue.topic: str(queue.next_offset) for queue in queues}
        message.properties[MULTI_QUEUE_OFFSET] = ",".join(offsets.get(name, "") for name in named.split(","))
        return queues

    def log_copy(self) -> LogCopy:
        """A slave uses it to take in its master's log. Nothing may be appended or put then."""
        self._copy = LogCopy(
            self.log, self.queues, self._appender, self._queue_feed, self._confirmation, self._begin_at,
            [follower for follower in self.followers.all if follower.show is None],
            index_enabled=self.index is not None, background=self._background,
        )  # fmt: skip
        return self._copy

    def _begin_at(self, log_offset: int) -> None:
        """Starts the log of an empty store at ``log_offset``."""
        self._flusher.flushed_offset = log_offset  # first, or the flush thread would look for what lies before
        self.log.written_offset = self.log.confirmed_offset = log_offset

    # -- flush and visibility

    def on_flush_done(self) -> None:
        """Takes note of finished flushes, makes records visible (sync mode), and does a portion of the deferred
        work."""
        self._bell.clear()
        self._note_flushed()
        self.followers.work()
        if (self._flusher.is_checkpoint_due or self.followers.want_sync) and not self.followers.are_catching_up:
            self._prepare_checkpoint()

    def copied(self, log_offset: int) -> None:
        """With ``waits_for_copies``: every broker that must have the log has it up to this log offset."""
        self._confirmation.copied(log_offset)

    def flush(self) -> None:
        """At return, everything committed and everything derived from it is on the device and in the checkpoint, or
        ``flags`` say why not. For a store without threads, and for shutdown."""
        self.flush_log()
        self._prepare_checkpoint()
        self.flush_log()

    def flush_log(self) -> None:
        """Does what the flush thread would do now, and takes note of it. For a store without threads."""
        self._flusher.flush()
        self._note_flushed()

    def _note_flushed(self) -> None:
        if self._flusher.error is not None:
            self.flags.fail(NOT_WRITEABLE, self._flusher.error)
        self._confirmation.flushed(self._flusher.flushed_offset)

    def _prepare_checkpoint(self) -> None:
        self.followers.work_everything()
        if not self.flags.has_write_failed:
            write = functools.partial(self._checkpoint.write, self.disk, self.directory.checkpoint)
            newest = self._confirmation.last_record_offset, self._appender.last_store_timestamp_ms
            self._flusher.submit(self.followers.prepare(self._checkpoint, write, *newest))

    @property
    def confirmed_offset(self) -> int:
        """Log offset up to which records can be read. What lies before it is as safe as the flush mode promises."""
        return self.log.confirmed_offset

    @property
    def last_record_offset(self) -> int:
        """Log offset of the newest record that can be read; 0 if there is none."""
        return self._confirmation.last_record_offset

    @property
    def newest_store_time_ms(self) -> int:
        """Store time of the newest record; 0 if there is none."""
        return self._appender.last_store_timestamp_ms

    @property
    def written_offset(self) -> int:
        """Log offset up to which records were handed to the kernel."""
        return self.log.written_offset

    @property
    def end_offset(self) -> int:
        """Log offset where the next record goes."""
        return self._appender.end_offset

    @property
    def flushed_offset(self) -> int:
        """Log offset up to which records are on the device."""
        return self._flusher.flushed_offset

    @property
    def kept_offset(self) -> int:
        """Log offset up to which neither a power cut nor a new master can take anything back: it is on the device, and
        every broker that must have a copy has one."""
        return min(self.flushed_offset, self.confirmed_offset)

    @property
    def is_all_kept(self) -> bool:
        return self.kept_offset >= self.written_offset

    def dispatch_some(self) -> bool:
        """Does a portion, half a millisecond at most, of the work that the followers have deferred (consume queue
        files, index). For when the loop is idle. True if some is left."""
        is_left = self.followers.work()
        if self._when_indexed and self.has_whole_index:
            calls, self._when_indexed = self._when_indexed, []
            for call in calls:
                call()
        return is_left

    @property
    def has_whole_index(self) -> bool:
        """False after a start, until the index has what a killed process had not written of it: ``query`` then misses
        messages."""
        return self._index_feed is None or not self._index_feed.is_catching_up

    def when_indexed(self, call: Callable[[], None]) -> bool:
        """Has ``call`` called in the loop's thread when ``has_whole_index``. False if too many wait already."""
        if len(self._when_indexed) >= WAITING_FOR_INDEX_MAX:
            return False
        self._when_indexed.append(call)
        return True

    def index_few(self) -> None:
        """Indexes a few messages, if so many wait."""
        if self._index_feed is not None:
            self._index_feed.put_few()

    @property
    def dispatch_behind_bytes(self) -> int:
        """Bytes of the log that the index does not cover yet, or that readers of a copied log do not see yet."""
        copied = self._copy.behind_bytes if self._copy is not None else 0
        return copied + (self._index_feed.behind_bytes if self._index_feed is not None else 0)

    def use_options(self, options: StoreOptions) -> None:
        """Takes over the options that may change at run time: limits, delay levels, retention. File sizes, index, light
        queues, flush mode and intervals stay as they were."""
        now = self.options
        self.options = options = replace(
            options,
            flush_mode=now.flush_mode,
            commit_log_file_size_bytes=now.commit_log_file_size_bytes,
            consume_queue_file_size_bytes=now.consume_queue_file_size_bytes,
            index_enabled=now.index_enabled,
            index_slot_count=now.index_slot_count,
            index_unit_count=now.index_unit_count,
            light_queues_enabled=now.light_queues_enabled,
            waits_for_copies=now.waits_for_copies,
        )
        self._appender.use_options(options)
        self._retention.use_options(options)
        self._reader.use_options(options)

    # -- reading

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int = TRANSFER_BYTES_MAX,
        wanted: MessageFilter | None = None,
        *,
        cached_only: bool = False,
    ) -> GetResult:
        """Messages of a queue from ``queue_offset`` on (``DefaultMessageStore.getMessage``, 5.5.0): at most 32 messages
        and 256 KiB, but at least one if there is one. ``wanted`` gets each unit's tags code, and in its second stage
        the record's properties. With ``cached_only`` nothing is read if that may wait: ``result.is_loaded`` is then
        False, and ``load`` finishes the result in any thread, including the second stage. NotCached then if the queue
        is not open yet."""
        try:
            queue = self.queues.find(topic, queue_id, opens=not cached_only)
            return self._reader.get(queue, queue_offset, max_count, max_bytes, wanted, cached_only)
        except OSError as error:  # says what failed, without a call more for each pull
            raise _failed("get", error) from error

    def plain_limits(self, max_count: int, *, takes_all: bool) -> tuple[int, int, int, int]:
        """See ``Reader.plain_limits``."""
        return self._reader.plain_limits(max_count, takes_all=takes_all)

    @says_what_failed
    def load(self, result: GetResult) -> GetResult:
        """Finishes a ``cached_only`` result: its status may change from FOUND, and ``next_offset`` may move on. May
        wait for the device. Any thread."""
        return self._reader.load(result)

    def messages(self, topic: str, queue_id: int, start: int, end: int = OFFSET_MAX) -> Iterator[StoredMessage]:
        """The messages of a queue from ``start`` on, before ``end``. Those that are damaged, or that the log has lost,
        are left out. May wait for the device."""
        end = min(end, self.max_offset(topic, queue_id))
        while start < end:
            result = self.get(topic, queue_id, start, min(end - start, MESSAGES_READ_MAX))
            for record in result.records():
                try:
                    message = decode_record_untrusted(record)
                    _ = message.properties  # they may be no text
                except ProtocolError:
                    continue
                yield message
            if result.next_offset <= start:
                return
            start = result.next_offset

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first queue offset that can be read; 0 for a queue that no message has reached."""
        queue = self.queues.find(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last visible message; 0 for a queue that no message has reached."""
        queue = self.queues.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    @says_what_failed
    def get_record(self, log_offset: int) -> bytes | None:
        """The visible record that starts at a log offset. May wait for the device."""
        return self.log.record(log_offset)

    @says_what_failed
    def offset_for_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:  # fmt: skip
        """See ``time_search.offset_for_time``; 0 for a queue that no message has reached."""
        queue = self.queues.find(topic, queue_id)
        return time_search.offset_for_time(self.log, queue, timestamp_ms, boundary) if queue is not None else 0

    @says_what_failed
    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Store time, in ms, of the queue's first message; -1 if it has none."""
        queue = self.queues.find(topic, queue_id)
        return time_search.earliest_store_time_ms(self.log, queue) if queue is not None else -1

    @says_what_failed
    def store_time(self, log_offset: int) -> int | None:
        """Store time, in ms, of the record at a log offset."""
        return time_search.store_time_ms(self.log, log_offset)

    @says_what_failed
    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, kind: str = "K"
    ) -> QueryResult:  # fmt: skip
        """Records whose unique key or key (kind ``U`` or ``K``) or tag (``T``) has the hash of ``key``, in log order.
        Includes hash collisions. May wait for the device, but never for the index (``has_whole_index``)."""
        if self.index is None:
            return QueryResult([], 0, 0)
        found: list[int] = []
        if self.read_only:  # the log is searched for what the index files of this store lack, or hold only in part
            start = max(self.index.end_log_offset, self.log.min_offset)
            found = search_log(self.log.segments, start, topic, key, kind, begin_ms, end_ms)[-max_count:]
        elif self._index_feed is not None:
            may_wait(self._index_feed.catch_up)
        if len(found) < max_count:
            wanted = f"T#{key}" if kind == "T" else key
            found += self.index.query(topic, wanted, max_count - len(found), begin_ms, end_ms)
        records = [record for log_offset in sorted(set(found)) if (record := self.log.record(log_offset))]
        return QueryResult(records, self.index.end_timestamp_ms, self.index.end_log_offset)

    # -- housekeeping

    @says_what_failed
    def delete_topic(self, topic: str) -> None:
        """Removes the topic's queues. Its records stay in the log until they expire; those not visible yet never will
        be. A new topic of the same name starts at queue offset 0."""
        self.queues.delete_topic(topic)
        self._queue_feed.write_everything()

    @says_what_failed
    def clean_expired(self, at_ms: int | None = None, *, force: bool = False) -> CleanReport:
        """Measures the disk, sets or clears the flags, removes what retention allows (``retention.py``). Call it about
        every ten seconds. ``force`` deletes expired files at any hour. What queues and index hold of removed files goes
        by ``clean_some``; until then, a queue may begin before the log does."""
        self._reader.let_go()
        now_ms = self.clock_ms() if at_ms is None else at_ms
        return self._retention.clean(now_ms, self.flushed_offset, force=force)

    @says_what_failed
    def look_for_old_files(self) -> None:
        """Lists the directories of all queues for ``clean_some``, which else does that. Waits for the device; any
        thread."""
        self.queues.look_for_several_files()

    @property
    def has_old_files(self) -> bool:
        """Whether queues may have files for a part of the log that is gone."""
        return self.queues.heads_log_min_offset < self.log.min_offset

    @says_what_failed
    def clean_some(self) -> bool:
        """Removes a portion of what ``clean_expired`` has left: a millisecond of work. False if nothing is left."""
        return self._retention.clean_some()

    @says_what_failed
    def why_not_writeable(self) -> str:
        """Why messages are refused, or soon will be: it measures the disk now. Empty if they are taken."""
        return self.flags.reason or self._retention.why_full()

    def lack_of_room(self) -> str:
        """Why a copied log must not grow now; empty if it may."""
        return self._retention.lack_of_room()

    def has_room_again(self) -> bool:
        """Whether this store, which takes nothing because it lacked room and for no other reason, may be opened again:
        a broker whose store does not open ends, and serves no consumer any more."""
        has_room = self.flags.has_only_lacked_room and not self.lack_of_room()
        return has_room and self.directory.has_room_for_files()


@says_what_failed
def open_read_only(directory: str | os.PathLike[str], options: StoreOptions | None = None) -> MessageStore:
    """Opens a store for looking at, even while a broker runs on it. File sizes are taken from the files themselves. The
    caller closes it. StorageError if there is no store, or none that can be read here."""
    disk = OsDisk()
    paths = StoreDirectory(os.fspath(directory), disk)
    if not disk.is_directory(paths.root):
        raise StorageError(f"{paths.root}: no such store directory", hint="name the directory that holds commitlog/")
    paths.refuse_other_kinds()
    store = MessageStore(directory, paths.adopt_sizes(options or StoreOptions()), disk, read_only=True)
    store.open()
    return store
