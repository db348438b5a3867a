"""The hot path: encodes records, gives them their offsets, and writes a round of them with one ``pwrite``. At 80,000
sends a second the whole broker has 12 us for a message, so this file avoids every object, call and copy that it can. A
record is five parts in a list that is joined once a round, a consume queue unit is 20 bytes packed onto its queue, and
the index gets six references kept for later."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from itertools import accumulate, repeat
from zlib import crc32

from rmqproto.errors import StorageError
from rmqproto.message.light_queues import LIGHT_QUEUE_ID
from rmqproto.message.properties import PROPERTIES_SIZE_MAX_BYTES, MessageKeys, find_bytes, message_keys
from rmqproto.message.record import MAGIC_BLANK, RECORD_V4, TOPIC_V1_LENGTH_MAX, BatchPart, batch_parts_untrusted
from rmqproto.message.sys_flag import HOST_V4_SIZE, HOSTS_V6, INNER_BATCH, TRANSACTION_MASK, with_host_bits
from rmqserver.core import IndexItem
from rmqserver.store.append.confirmation import Confirmation
from rmqserver.store.disk.disk import NO_ROOM, File, storage_error
from rmqserver.store.fate import DUE_TIME, FATE_MASK, INDEXED, QUEUED
from rmqserver.store.log.commit_log import BLANK, BLANK_SIZE_BYTES, CommitLog
from rmqserver.store.log.file_maker import FileMaker
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues.consume_queue import UNIT, ConsumeQueue
from rmqserver.store.queues.consume_queues import ConsumeQueues, Topic
from rmqserver.store.queues.feed import deliver_time_ms
from rmqserver.store.queues.round import Mark, Round
from rmqserver.store.results import Appended, MessageRefused, PutStatus
from rmqserver.store.running_flags import NOT_WRITEABLE, RunningFlags

BATCH_COUNT_MAX = 250_000
"""Messages in one batch. The header of the answer has their ids, of 33 or 57 characters, and can have 16 MiB."""

RECORD_OVERHEAD_MAX_BYTES = 64 << 10
"""A record may be this much larger than the largest body (``MessageExtEncoder``)."""

_INNER_BATCH_TEXT = "inner batches (sysFlag 0x80) are not served: no queue here holds them"

_HOSTS_V4_SIZE = 2 * HOST_V4_SIZE

# Looked up once here, not for every message.
_pack_record, _pack_unit = RECORD_V4.pack, UNIT.pack
_SIZES_COUNT = 1024
_SIZES = [size.to_bytes(2, "big") for size in range(_SIZES_COUNT)]
"""Packs the length of properties as a record holds it; covers nearly all messages."""

# The fixed part of a record (RECORD_V4 in rmqproto.message.record) in pieces, for hosts that may be IPv6:
# head | sysFlag i32, born time i64 | born host | store time i64 | store host | reconsume times i32, prepared offset i64
# | body length i32
_HEAD = struct.Struct(">iiIiiqq")
_BORN = struct.Struct(">iq")
_REST = struct.Struct(">iq")
_FIXED_PARTS = {size: struct.Struct(f"{_HEAD.format}{size}si") for size in (48, 60, 72)}
"""The fixed part of a batch's records: head, middle of that size (no, one or both hosts are IPv6), body length."""


class Appender:
    """``end_offset`` is where the next record goes; ``log.written_offset`` follows at ``commit``."""

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
        self.end_offset = 0
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
        self._file_base = self._file_end = 0
        self._parts: list[bytes | memoryview] = []
        self._parts_offset = 0
        self._round_failed: StorageError | None = None
        self._now_ms = self._last_record_offset = 0
        self._touched: list[ConsumeQueue] = []
        self._index_items: list[IndexItem] = []
        self.use_options(options)

    def start_at(self, end_offset: int) -> None:
        """Continues where recovery found the end of the log. OSError if that file cannot be opened."""
        segments = self._log.segments
        self.end_offset = self._parts_offset = end_offset
        if segments.bases:
            self._use_file(segments.base_of(end_offset))
        else:
            self._file_base = self._file_end = end_offset

    def use_options(self, options: StoreOptions) -> None:
        self._body_size_max = options.message_size_max_bytes
        self._record_size_max = options.message_size_max_bytes + RECORD_OVERHEAD_MAX_BYTES
        self._delay_levels_ms = options.delay_levels_ms
        self._indexed = INDEXED if options.index_enabled else 0
        self._light_count_max = options.light_queue_count_max

    # -- appending

    def append(  # one function, because a call costs as much as two of its branches
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
        body_size, properties_size = len(body), len(properties)
        size = entry.overhead_bytes + body_size + properties_size
        hosts_size = len(born_host) + len(store_host)
        if hosts_size != _HOSTS_V4_SIZE:
            size += hosts_size - _HOSTS_V4_SIZE
        elif sys_flag & HOSTS_V6:
            sys_flag &= ~HOSTS_V6
        if (
            body_size > self._body_size_max
            or properties_size > PROPERTIES_SIZE_MAX_BYTES
            or self._flags.refuses_writes
            or entry.is_long
            or sys_flag & INNER_BATCH
            or 0 in properties
        ):
            self._check(entry, sys_flag, size, body_size, properties)
        log_offset = self.end_offset
        if log_offset + size + BLANK_SIZE_BYTES > self._file_end:
            self._roll(size)
            log_offset = self.end_offset
        now_ms = self._now_ms or self._start_round()
        fate = entry.fates[sys_flag & FATE_MASK]
        queue_offset = queue.next_offset if fate & QUEUED else 0
        try:
            if hosts_size == _HOSTS_V4_SIZE:
                fixed = _pack_record(
                    size, entry.magic, crc32(body) & 0x7FFFFFFF, queue_id, flag, queue_offset, log_offset, sys_flag,
                    born_timestamp_ms, born_host, now_ms, store_host, reconsume_times, prepared_offset, body_size,
                )  # fmt: skip
            else:
                middle = self._middle_part(
                    sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, prepared_offset
                )
                crc = crc32(body) & 0x7FFFFFFF
                head = _HEAD.pack(size, entry.magic, crc, queue_id, flag, queue_offset, log_offset)
                fixed = head + middle + body_size.to_bytes(4, "big")
        except struct.error as error:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, f"a number does not fit its field: {error}") from None
        size_field = _SIZES[properties_size] if properties_size < _SIZES_COUNT else properties_size.to_bytes(2, "big")
        self._parts += (fixed, body, entry.field, size_field, properties)
        self.end_offset = log_offset + size
        self._last_record_offset = log_offset
        unique_key, keys, tags = found_keys or message_keys(properties)
        code, tag_hash = entry.tags.get(tags) or entry.tag(tags)
        if fate & QUEUED:
            if fate & DUE_TIME:
                code = deliver_time_ms(properties, now_ms, code, self._delay_levels_ms)
            queue.next_offset = queue_offset + 1
            queue.tail += _pack_unit(log_offset, size, code)
            if not queue.is_touched:
                queue.is_touched = True
                self._touched.append(queue)
        if fate & self._indexed:
            self._index_items.append((entry.index_prefix_hash, log_offset, now_ms, unique_key, keys, tag_hash))
        return Appended(log_offset, size, queue_offset)

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
            code, _ = self._topics[queue.topic].tag(tags)
            queue.next_offset += 1
            queue.tail += _pack_unit(appended.log_offset, appended.size_bytes, code)
            if not queue.is_touched:
                queue.is_touched = True
                self._touched.append(queue)

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
        messages = batch_parts_untrusted(batch)
        overhead = entry.overhead_bytes - 2 + len(born_host) + len(store_host) - _HOSTS_V4_SIZE
        sizes = [overhead + len(body) + len(properties) for _, body, properties in messages]
        self._check_batch(entry, sys_flag, len(batch), messages, sizes)
        total = sum(sizes)
        if self.end_offset + total + BLANK_SIZE_BYTES > self._file_end:
            self._roll(total)
        if entry.fates[0] & DUE_TIME:
            appended = [
                self.append(
                    topic, queue_id, flag, sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, body,
                    properties[2:],
                )
                for flag, body, properties in messages
            ]  # fmt: skip
            return appended[0], [each.log_offset for each in appended]
        try:
            middle = self._middle_part(sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, 0)
            return self._append_messages(entry, queue_id, middle, messages, sizes)
        except struct.error as error:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, f"a number does not fit its field: {error}") from None

    def _append_messages(
        self, entry: Topic, queue_id: int, middle: bytes, messages: list[BatchPart], sizes: list[int]
    ) -> tuple[Appended, list[int]]:
        """Does what ``append`` does, without its calls and branches: they would be most of the cost of a small
        message."""
        queue = entry.queues.get(queue_id) or self._queue(entry, queue_id)
        now_ms, magic, topic_field, prefix_hash = self._now_ms, entry.magic, entry.field, entry.index_prefix_hash
        pack_fixed_part = _FIXED_PARTS[len(middle)].pack
        queue_offset, log_offsets = queue.next_offset, list(accumulate(sizes, initial=self.end_offset))
        end_offset = log_offsets.pop()
        parts: list[bytes | memoryview] = []
        codes: list[int] = []
        index_items: list[IndexItem] = []
        before = after = keys = b""
        code, tag_hash = entry.tag(b"")
        for (flag, body, properties), size, log_offset in zip(messages, sizes, log_offsets, strict=True):
            parts += (
                pack_fixed_part(
                    size, magic, crc32(body) & 0x7FFFFFFF, queue_id, flag, queue_offset, log_offset, middle, len(body)
                ),
                body, topic_field, properties,
            )  # fmt: skip
            queue_offset += 1
            # Neighbours in a batch usually differ only in their unique keys.
            ahead, found, rest = properties.rpartition(b"UNIQ_KEY\x01")
            unique_key, _, behind = rest.partition(b"\x02")
            if behind != after or ahead != before or not found:
                before, after = ahead, behind
                keys = find_bytes(properties[2:], b"KEYS\x01")
                code, tag_hash = entry.tag(find_bytes(properties[2:], b"TAGS\x01"))
            if not (found and unique_key) or (len(ahead) > 2 and ahead[-1] != 2):
                unique_key = find_bytes(properties[2:], b"UNIQ_KEY\x01")
            codes.append(code)
            index_items.append((prefix_hash, log_offset, now_ms, unique_key, keys, tag_hash))
        first = Appended(log_offsets[0], sizes[0], queue.next_offset)
        self._parts += parts
        self.end_offset, self._last_record_offset = end_offset, log_offsets[-1]
        queue.next_offset = queue_offset
        queue.tail += b"".join(map(_pack_unit, log_offsets, sizes, codes))
        if not queue.is_touched:
            queue.is_touched = True
            self._touched.append(queue)
        if self._indexed:
            self._index_items += index_items
        return first, log_offsets

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

    def _start_round(self) -> int:
        # One clock reading a round: a round of the loop takes a millisecond at most.
        self._now_ms = self._clock_ms()
        return self._now_ms

    def _check(self, entry: Topic, sys_flag: int, size: int, body_size: int, properties: bytes) -> None:
        """MessageRefused if the store's rules say so (``MessageExtEncoder``, ``DefaultMessageStore``). Only our broker
        refuses zero bytes: recovery takes them for a torn record."""
        if self._flags.refuses_writes:
            raise MessageRefused(PutStatus.SERVICE_NOT_AVAILABLE, self._flags.reason)
        name_size = len(entry.name.encode())
        if name_size > 255 or (name_size > TOPIC_V1_LENGTH_MAX and not entry.name.startswith("%RETRY%")):
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, f"topic name of {name_size} bytes is too long")
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

    def _middle_part(
        self, sys_flag: int, born_timestamp_ms: int, born_host: bytes, store_host: bytes, reconsume_times: int,
        prepared_offset: int,
    ) -> bytes:  # fmt: skip
        """A record from its sysFlag to its prepared transaction offset: the part that the messages of a batch share,
        and that is longer if hosts are IPv6."""
        sys_flag = with_host_bits(sys_flag, born_host, store_host)
        now_ms = self._now_ms or self._start_round()
        born, rest = _BORN.pack(sys_flag, born_timestamp_ms), _REST.pack(reconsume_times, prepared_offset)
        return b"".join((born, born_host, now_ms.to_bytes(8, "big"), store_host, rest))

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
        self.end_offset = self._parts_offset = self._log.written_offset = end_offset

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

    def _roll(self, size: int) -> None:
        """Continues in the next file. MessageRefused, with nothing changed, if it cannot be made."""
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
            self._parts.append(BLANK.pack(base - self.end_offset, MAGIC_BLANK))
            self._write()
            if self._round_failed is None and (problem := self._keep_first_file()) is not None:
                self._round_failed = problem
                self._flags.fail(NOT_WRITEABLE, problem)
        self.end_offset = self._parts_offset = base
        self._use_file(base)
        if self._round_failed is not None:
            raise MessageRefused(PutStatus.SERVICE_NOT_AVAILABLE, self._flags.reason)

    def _use_file(self, base: int) -> None:
        self._file = self._log.segments.file(base)
        self._file_base = base
        self._log.use_newest(base, self._file)
        self._file_end = base + self._log.file_size_bytes
        self._maker.started(base, self._file)

    def _write(self) -> None:
        data = b"".join(self._parts)
        self._parts.clear()
        if not data or self._round_failed is not None:
            return
        assert self._file is not None
        try:
            self._file.pwrite(data, self._parts_offset - self._file_base)
        except OSError as error:
            self._round_failed = storage_error(error, "cannot write commit log file", self._file.path)
            self._flags.fail(NOT_WRITEABLE, self._round_failed)
            return
        self._log.last_write = self._parts_offset, data
        self._parts_offset += len(data)

    # -- the end of a round

    def commit(self) -> None:
        """Writes the round. In async mode it is confirmed at return; in sync mode a flush has been requested.

        StorageError if a write of this round failed: none of it may be acknowledged, none of it becomes visible, and
        the store refuses writes until it is opened again.
        """
        if not self._parts and not self._touched and not self._index_items:
            self._now_ms = 0  # what began the round was refused
            return
        self._write()
        self.last_store_timestamp_ms, self._now_ms = self._now_ms, 0
        touched, self._touched = self._touched, []
        items, self._index_items = self._index_items, []
        if self._round_failed is not None:
            for queue in touched:
                queue.is_touched = False
            raise self._round_failed
        self._log.written_offset = end = self.end_offset
        if end > self._maker.allocate_when_past:
            self._maker.request(end)
        marks: list[Mark] = []
        for queue in touched:
            queue.is_touched = False
            marks.append((queue, queue.next_offset))
        self._confirmation.written(Round(end, self._last_record_offset, marks, items))
