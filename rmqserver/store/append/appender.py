"""The hot path: gives messages to the round, refuses those that the store cannot take, and writes the round with one
``pwrite``. ``core.RoundBuffer`` makes the records and the units of their queues."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from itertools import repeat

from rmqproto.errors import StorageError
from rmqproto.message.properties import PROPERTIES_SIZE_MAX_BYTES, MessageKeys, find_bytes
from rmqproto.message.record import MAGIC_BLANK, RECORD_V4, BatchPart, batch_parts_untrusted
from rmqproto.message.special_messages import LIGHT_QUEUE_ID
from rmqproto.message.sys_flag import HOST_V4_SIZE, INNER_BATCH, TRANSACTION_MASK
from rmqserver.core import BATCH_COUNT_MAX, Appended, RoundBuffer
from rmqserver.store.append.confirmation import Confirmation
from rmqserver.store.disk.disk import NO_ROOM, File, storage_error
from rmqserver.store.fate import DUE_TIME, INDEXED
from rmqserver.store.log.commit_log import BLANK, BLANK_SIZE_BYTES, CommitLog
from rmqserver.store.log.file_maker import FileMaker
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues.consume_queue import ConsumeQueue
from rmqserver.store.queues.consume_queues import ConsumeQueues, Topic
from rmqserver.store.queues.feed import deliver_time_ms
from rmqserver.store.queues.round import Round
from rmqserver.store.results import MessageRefused, PutStatus
from rmqserver.store.running_flags import NOT_WRITEABLE, RunningFlags

RECORD_OVERHEAD_MAX_BYTES = 64 << 10
"""A record may be this much larger than the largest body (``MessageExtEncoder``)."""

_INNER_BATCH_TEXT = "inner batches (sysFlag 0x80) are not served: no queue here holds them"

_HOSTS_V4_SIZE = 2 * HOST_V4_SIZE


class Appender:
    """``round`` has what was appended and not yet written; ``log.written_offset`` follows its end at ``commit``."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        flags: RunningFlags,
        options: StoreOptions,
        clock_ms: Callable[[], int],
        maker: FileMaker,
        confirmation: Confirmation,
        keep_first_file: Callable[[], StorageError | None],
    ):
        self.round = RoundBuffer(clock_ms, flags)
        self.last_store_timestamp_ms = 0
        self._log = log
        self._queues = queues
        self._topics = queues.topics
        self._flags = flags
        self._clock_ms = clock_ms
        self._maker = maker
        self._confirmation = confirmation
        self._keep_first_file = keep_first_file
        self._file: File | None = None
        self._file_base = self._file_end = self._written_offset = 0
        self._round_failed: StorageError | None = None
        self.use_options(options)

    @property
    def end_offset(self) -> int:
        """Where the next record goes."""
        return self.round.end_offset

    def start_at(self, end_offset: int) -> None:
        """Continues where recovery found the end of the log. OSError if that file cannot be opened."""
        segments = self._log.segments
        self._go_on_at(end_offset)
        if segments.bases:
            self._use_file(segments.base_of(end_offset))
        else:
            self._file_base = self._file_end = self.round.records_end_offset = end_offset

    def _go_on_at(self, end_offset: int) -> None:
        self.round.end_offset = self._written_offset = end_offset

    def use_options(self, options: StoreOptions) -> None:
        self._body_size_max = self.round.body_size_max_bytes = options.message_size_max_bytes
        self._record_size_max = options.message_size_max_bytes + RECORD_OVERHEAD_MAX_BYTES
        self._delay_levels_ms = options.delay_levels_ms
        self.round.indexed_bits = INDEXED if options.index_enabled else 0
        self._light_count_max = options.light_queue_count_max

    # -- appending

    def append(
        self,
        topic: str,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int,
        body: bytes | memoryview,
        properties: bytes,
        prepared_offset: int = 0,
        found_keys: MessageKeys | None = None,
    ) -> Appended:
        """Takes one message into this round. Hosts are 4 or 16 address bytes and the port as i32; the host bits of
        ``sys_flag`` are set to fit them. ``body`` may be a view: it is copied at ``commit``. ``found_keys`` are the
        keys of the properties, if the caller knows them. The message may not be acknowledged before ``commit`` has
        returned.

        MessageRefused if the message is too large or the store takes none; nothing has changed then.
        """
        entry = self._topics.get(topic) or self._topic(topic)
        queue = entry.queues.get(queue_id) or self._queue(entry, queue_id)
        tags_code = self._due_code(entry, properties) if entry.fates[0] & DUE_TIME else None
        appended = self.round.append(
            entry, queue, queue_id, flag, sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, body,
            properties, prepared_offset, tags_code, found_keys,
        )  # fmt: skip
        if appended is None:
            body_size, properties_size = len(body), len(properties)
            more_for_hosts = len(born_host) + len(store_host) - _HOSTS_V4_SIZE
            size = entry.overhead_bytes + body_size + properties_size + more_for_hosts
            self._check(entry, sys_flag, size, body_size, properties)
            self._check_numbers(queue_id, flag, sys_flag, born_timestamp_ms, reconsume_times, prepared_offset)
            self._roll_for(size)
            appended = self.round.append(
                entry, queue, queue_id, flag, sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, body,
                properties, prepared_offset, tags_code, found_keys,
            )  # fmt: skip
            assert appended is not None
        return appended

    def _due_code(self, entry: Topic, properties: bytes) -> int:
        """What the unit of a delayed message holds instead of its tag's code."""
        now_ms = self.round.store_timestamp_ms = self.round.store_timestamp_ms or self._clock_ms()
        code, _ = entry.tag(find_bytes(properties, b"TAGS\x01"))
        return deliver_time_ms(properties, now_ms, code, self._delay_levels_ms)

    def light_queues(self, names: Iterable[str]) -> list[ConsumeQueue]:
        """Light queues by name, created if missing. MessageRefused if one cannot be created, or would exceed the
        limit."""
        found = []
        for name in names:
            entry = self._topics.get(name)
            is_new = entry is None and self._queues.find(name, LIGHT_QUEUE_ID) is None
            if is_new and self._light_count_max is not None and self._queues.light_count >= self._light_count_max:
                raise MessageRefused(PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED, f"{self._light_count_max} light queues")
            entry = entry or self._topic(name)
            found.append(entry.queues.get(LIGHT_QUEUE_ID) or self._queue(entry, LIGHT_QUEUE_ID))
        return found

    def dispatch(self, appended: Appended, tags: bytes, queues: list[ConsumeQueue]) -> None:
        """Gives the message that was appended last the next unit of each of these queues, too."""
        for queue in queues:
            self.round.dispatch(queue, appended.log_offset, appended.size_bytes, tags)

    def append_batch(
        self,
        topic: str,
        queue_id: int,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int,
        batch: bytes,
    ) -> tuple[Appended, list[int]]:
        """Takes the messages of one batch send, as the producer packed them, as records of their own: consecutive, in
        one file. Returns where the first went, and all log offsets. ProtocolError if it is not a batch; otherwise as
        ``append``."""
        entry = self._topics.get(topic) or self._topic(topic)
        given = queue_id, sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, batch
        queue = entry.queues.get(queue_id)
        if queue is not None and (done := self.round.append_batch(entry, queue, *given)) is not None:
            return done
        messages = batch_parts_untrusted(batch)
        overhead = entry.overhead_bytes - 2 + len(born_host) + len(store_host) - _HOSTS_V4_SIZE
        sizes = [overhead + len(body) + len(properties) for _, body, properties in messages]
        self._check_batch(entry, sys_flag, len(batch), messages, sizes)
        self._check_numbers(queue_id, 0, sys_flag, born_timestamp_ms, reconsume_times, 0)
        self._roll_for(sum(sizes))
        if entry.fates[0] & DUE_TIME:
            appended = [
                self.append(
                    topic, queue_id, flag, sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, body,
                    properties[2:],
                )
                for flag, body, properties in messages
            ]  # fmt: skip
            return appended[0], [each.log_offset for each in appended]
        done = self.round.append_batch(entry, queue or self._queue(entry, queue_id), *given)
        assert done is not None
        return done

    def _topic(self, name: str) -> Topic:
        """Adds a topic that is not known yet."""
        try:
            return self._queues.topic(name)
        except StorageError as error:
            raise MessageRefused(PutStatus.SERVICE_NOT_AVAILABLE, str(error)) from error

    def _queue(self, topic: Topic, queue_id: int) -> ConsumeQueue:
        """Adds a queue that is not open yet."""
        try:
            return self._queues.add(topic, queue_id)
        except StorageError as error:
            raise MessageRefused(PutStatus.SERVICE_NOT_AVAILABLE, str(error)) from error

    def _check_batch(
        self, entry: Topic, sys_flag: int, batch_size: int, messages: list[BatchPart], sizes: list[int]
    ) -> None:
        """MessageRefused if a message, or the whole batch, is too large for the store. The limit for the batch is that
        for a body, and applies to the batch as it came: its records, of these sizes, may take several times as much
        (``MessageExtEncoder``)."""
        harmless_size = min(self._body_size_max, PROPERTIES_SIZE_MAX_BYTES)
        zeros = map(bytes.find, [properties for _, _, properties in messages], repeat(0), repeat(2))
        if max(sizes, default=0) > harmless_size or max(zeros, default=-1) >= 0:
            for (_, body, properties), size in zip(messages, sizes, strict=True):
                self._check(entry, sys_flag, size, len(body), properties[2:])
        if not 0 < len(messages) <= BATCH_COUNT_MAX or batch_size > self._body_size_max:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, f"a batch of {len(messages)} messages, {batch_size} bytes")
        if sys_flag & TRANSACTION_MASK or entry.is_long:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, "a batch may not be transactional, nor its topic long")
        if sys_flag & INNER_BATCH:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, _INNER_BATCH_TEXT)
        if self._flags.refuses_writes:
            raise MessageRefused(PutStatus.SERVICE_NOT_AVAILABLE, self._flags.reason)

    def _check(self, entry: Topic, sys_flag: int, size: int, body_size: int, properties: bytes) -> None:
        """MessageRefused if the store's rules say so (``MessageExtEncoder``, ``DefaultMessageStore``). Only our broker
        refuses zero bytes: recovery takes them for a torn record."""
        if self._flags.refuses_writes:
            raise MessageRefused(PutStatus.SERVICE_NOT_AVAILABLE, self._flags.reason)
        if entry.is_too_long:
            text = f"topic name of {len(entry.name.encode())} bytes is too long"
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, text)
        if body_size > self._body_size_max or size > self._record_size_max:
            text = f"message of {body_size} bytes; maxMessageSize is {self._body_size_max}"
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, text)
        if len(properties) > PROPERTIES_SIZE_MAX_BYTES:
            text = f"properties of {len(properties)} bytes; {PROPERTIES_SIZE_MAX_BYTES} is the limit"
            raise MessageRefused(PutStatus.PROPERTIES_SIZE_EXCEEDED, text)
        if sys_flag & INNER_BATCH:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, _INNER_BATCH_TEXT)
        if b"\0" in properties:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, "properties hold a zero byte")

    def _check_numbers(
        self, queue_id: int, flag: int, sys_flag: int, born_timestamp_ms: int, reconsume_times: int, prepared: int
    ) -> None:
        """MessageRefused if one does not fit a record."""
        try:
            RECORD_V4.pack(
                0, 0, 0, queue_id, flag, 0, 0, sys_flag, born_timestamp_ms, b"", 0, b"", reconsume_times, prepared, 0
            )
        except struct.error as error:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, f"a number does not fit its field: {error}") from None

    # -- a copied log

    def copy(self, log_offset: int, data: bytes | memoryview) -> None:
        """Writes bytes of another broker's log, which start where this one ends and do not pass the end of a file. Does
        not tell the followers. StorageError if they cannot be written. If only room was missing, the same bytes may
        come again; otherwise the store then refuses everything."""
        file, place = self.place_for_copy(log_offset)
        try:
            file.pwrite(data, place)
        except OSError as error:
            raise self.copy_failed(log_offset, error) from None
        self.copied(log_offset + len(data))
        if self.end_offset > self._maker.allocate_when_past:
            self._maker.request(self.end_offset, with_pages=True)

    def place_for_copy(self, log_offset: int) -> tuple[File, int]:
        """The file in which a copied log continues there, and the place in it; everything before must be written.
        StorageError as from ``copy``."""
        if self._round_failed is not None:
            raise self._round_failed
        try:
            if log_offset == self._file_end or self._file is None:
                self._maker.take(log_offset)
                if self._file is not None and (problem := self._keep_first_file()) is not None:
                    raise problem
                self._use_file(log_offset)
        except (OSError, StorageError) as error:
            raise self.copy_failed(log_offset, error) from None
        assert self._file is not None
        return self._file, log_offset - self._file_base

    def copied(self, end_offset: int) -> None:
        """Another broker's log is written up to there."""
        self._go_on_at(end_offset)
        self._log.written_offset = end_offset

    def copied_uncached(self, end_offset: int) -> None:
        """As ``copied``, and past the page cache."""
        self.copied(end_offset)
        self._log.uncached_offset = end_offset
        if end_offset > self._maker.allocate_when_past:
            self._maker.request(end_offset)

    def copy_failed(self, log_offset: int, error: OSError | StorageError) -> StorageError:
        """Returns the error to raise. Unless only room was missing, the store takes nothing more."""
        path = self._log.segments.path(self._log.segments.base_of(log_offset))
        failed = storage_error(error, "cannot write commit log file", path) if isinstance(error, OSError) else error
        if not isinstance(error, OSError) or error.errno not in NO_ROOM:
            self._round_failed = failed
            self._flags.fail(NOT_WRITEABLE, failed)
        return failed

    # -- files

    def _roll_for(self, size: int) -> None:
        """Continues in the next file if so many bytes have no room in this one. MessageRefused, with nothing changed,
        if it cannot be made."""
        if self.end_offset + size <= self.round.records_end_offset:
            return
        if size + BLANK_SIZE_BYTES > self._log.file_size_bytes:
            text = f"record of {size} bytes does not fit a commit log file of {self._log.file_size_bytes}"
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, text)
        base = self._file_end
        try:
            self._maker.take(base)
        except OSError as error:
            text = str(storage_error(error, "cannot make commit log file", self._log.segments.path(base)))
            raise MessageRefused(PutStatus.CREATE_MAPPED_FILE_FAILED, text) from error
        if self._file is not None:
            self.round.add(BLANK.pack(base - self.end_offset, MAGIC_BLANK))
            self._write()
            if self._round_failed is None and (problem := self._keep_first_file()) is not None:
                self._round_failed = problem
                self._flags.fail(NOT_WRITEABLE, problem)
        self._go_on_at(base)
        self._use_file(base)
        if self._round_failed is not None:
            raise MessageRefused(PutStatus.SERVICE_NOT_AVAILABLE, self._flags.reason)

    def _use_file(self, base: int) -> None:
        self._file = self._log.segments.file(base)
        self._file_base = base
        self._log.use_newest(base, self._file)
        self._file_end = base + self._log.file_size_bytes
        self.round.records_end_offset = self._file_end - BLANK_SIZE_BYTES
        self._maker.started(base, self._file)

    def _write(self) -> None:
        data = self.round.take()
        if not data or self._round_failed is not None:
            return
        assert self._file is not None
        try:
            self._file.pwrite(data, self._written_offset - self._file_base)
        except OSError as error:
            self._round_failed = storage_error(error, "cannot write commit log file", self._file.path)
            self._flags.fail(NOT_WRITEABLE, self._round_failed)
            return
        self._log.last_write = self._written_offset, data
        self._written_offset += len(data)

    # -- the end of a round

    def commit(self) -> None:
        """Writes the round. In async mode it is confirmed at return; in sync mode a flush has been requested.

        StorageError if a write of this round failed: none of it may be acknowledged, none of it becomes visible, and
        the store refuses writes until it is opened again.
        """
        if self.round.is_empty:
            self.round.store_timestamp_ms = 0  # what began the round was refused
            return
        self._write()
        self.last_store_timestamp_ms, self.round.store_timestamp_ms = self.round.store_timestamp_ms, 0
        entries = self.round.take_entries()
        marks = [(queue, queue.next_offset) for queue in self.round.take_touched()]
        if self._round_failed is not None:
            raise self._round_failed
        self._log.written_offset = end = self.round.end_offset
        if end > self._maker.allocate_when_past:
            self._maker.request(end)
        self._confirmation.written(Round(end, self.round.last_record_offset, marks, entries))
