"""The hot path: encodes records, gives them their offsets, writes a round of them with one ``pwrite``, and makes them
visible. 80,000 sends a second leave 12 us a message for the whole broker, so this file spends no object, call or copy
that it can save: a record is five parts in a list that is joined once a round, a consume queue unit is 20 bytes packed
onto its queue, and what the index needs is five references put behind for later."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from itertools import accumulate
from zlib import crc32

from rmqproto.errors import StorageError
from rmqproto.properties import PROPERTIES_SIZE_MAX_BYTES, MessageKeys, find_bytes, message_keys
from rmqproto.record import (
    BORN_HOST_V6,
    MAGIC_BLANK,
    RECORD_V4,
    STORE_HOST_V6,
    TOPIC_V1_LENGTH_MAX,
    BatchPart,
    batch_parts_untrusted,
)
from rmqserver.store.commit_log import BLANK, BLANK_SIZE_BYTES, CommitLog
from rmqserver.store.consume_queue import UNIT, ConsumeQueue
from rmqserver.store.consume_queues import ConsumeQueues, Topic
from rmqserver.store.disk import File, storage_error
from rmqserver.store.dispatch import Dispatcher, Mark, deliver_time_ms
from rmqserver.store.file_maker import FileMaker
from rmqserver.store.index_file import IndexItem
from rmqserver.store.options import FlushMode, StoreOptions
from rmqserver.store.results import Appended, MessageRefused, PutStatus
from rmqserver.store.running_flags import NOT_WRITEABLE, RunningFlags

RECORD_OVERHEAD_MAX_BYTES = 64 << 10
"""A record may be this much larger than the largest body (``MessageExtEncoder``)."""

_NOT_COUNTED = 0x4  # the bit that PREPARED and ROLLBACK share: such records enter no consume queue

_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
_HOSTS_V4_SIZE = 16

# The fixed part of a record (RECORD_V4 in rmqproto.record) in pieces, for hosts that may be IPv6:
# head | sysFlag i32, born time i64 | born host | store time i64 | store host | reconsume times i32, prepared offset i64
# | body length i32
_HEAD = struct.Struct(">iiIiiqq")
_BORN = struct.Struct(">iq")
_REST = struct.Struct(">iq")


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
        dispatcher: Dispatcher,
    ):
        self.end_offset = 0
        self.request_flush: Callable[[], None] = lambda: None
        self.keep_first_file: Callable[[], StorageError | None] = lambda: None
        self.last_store_timestamp_ms = 0
        self._log = log
        self._queues = queues
        self._topics = queues.topics
        self._flags = flags
        self._clock_ms = clock_ms
        self._maker = maker
        self._dispatcher = dispatcher
        self._file: File | None = None
        self._file_base = self._file_end = 0
        self._parts: list[bytes | memoryview] = []
        self._parts_offset = 0
        self._round_failed: StorageError | None = None
        self._now_ms = self._last_record_offset = 0
        self._touched: list[ConsumeQueue] = []
        self._index_items: list[IndexItem] = []
        self._unflushed: deque[tuple[int, int, list[Mark], list[IndexItem]]] = deque()
        self.use_options(options)

    def start_at(self, end_offset: int) -> None:
        """Goes on where recovery found the end of the log. OSError if that file cannot be opened."""
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
        self._is_sync = options.flush_mode is FlushMode.SYNC
        self._is_indexed = options.index_enabled

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
        ``sys_flag`` are set to fit them. ``body`` may be a view: it is copied at ``commit``. ``found_keys`` are
        those of the properties, where the caller knows them. The message may not be acknowledged before ``commit`` has
        returned.

        MessageRefused if the message is too large or the store takes none; nothing has changed then.
        """
        entry = self._topics.get(topic) or self._queues.topic(topic)
        queue = entry.queues.get(queue_id) or self._queues.add(entry, queue_id)
        body_size, properties_size = len(body), len(properties)
        size = entry.overhead_bytes + body_size + properties_size
        hosts_size = len(born_host) + len(store_host)
        if hosts_size != _HOSTS_V4_SIZE:
            size += hosts_size - _HOSTS_V4_SIZE
        elif sys_flag & _HOSTS_V6:
            sys_flag &= ~_HOSTS_V6
        if (
            body_size > self._body_size_max
            or properties_size > PROPERTIES_SIZE_MAX_BYTES
            or self._flags.refuses_writes
            or len(entry.field) > 128
            or 0 in properties
        ):
            self._check(entry, size, body_size, properties)
        log_offset = self.end_offset
        if log_offset + size + BLANK_SIZE_BYTES > self._file_end:
            self._roll(size)
            log_offset = self.end_offset
        now_ms = self._now_ms or self._start_round()
        counted = not sys_flag & _NOT_COUNTED
        queue_offset = queue.next_offset if counted else 0
        try:
            if hosts_size == _HOSTS_V4_SIZE:
                fixed = RECORD_V4.pack(
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
        self._parts += (fixed, body, entry.field, properties_size.to_bytes(2, "big"), properties)
        self.end_offset = log_offset + size
        self._last_record_offset = log_offset
        unique_key, keys, tags = found_keys or message_keys(properties)
        code, tag_hash = entry.tags.get(tags) or entry.tag(tags)
        if counted:
            if entry.is_schedule:
                code = deliver_time_ms(properties, now_ms, code, self._delay_levels_ms)
            queue.next_offset = queue_offset + 1
            queue.tail += UNIT.pack(log_offset, size, code)
            if not queue.is_touched:
                queue.is_touched = True
                self._touched.append(queue)
        if self._is_indexed:
            self._index_items.append((entry.index_prefix_hash, log_offset, now_ms, unique_key, keys, tag_hash))
        return Appended(log_offset, size, queue_offset)

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
        """Takes the messages of one batch send, as the producer packed them, as records of their own, one behind the
        other in one file. Returns where the first went, and all log offsets. ProtocolError for what is no batch; as
        ``append`` otherwise."""
        entry = self._topics.get(topic) or self._queues.topic(topic)
        messages = batch_parts_untrusted(batch)
        overhead = entry.overhead_bytes - 2 + len(born_host) + len(store_host) - _HOSTS_V4_SIZE
        sizes = [overhead + len(body) + len(properties) for _, body, properties in messages]
        total = self._check_batch(entry, sys_flag, messages, sizes)
        if self.end_offset + total + BLANK_SIZE_BYTES > self._file_end:
            self._roll(total)
        if entry.is_schedule:
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
        """What ``append`` does, without its calls and choices: they would be most of the cost of a small message."""
        queue = entry.queues.get(queue_id) or self._queues.add(entry, queue_id)
        now_ms, magic, topic_field, prefix_hash = self._now_ms, entry.magic, entry.field, entry.index_prefix_hash
        pack_fixed_part = struct.Struct(f"{_HEAD.format}{len(middle)}si").pack
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
            # Neighbours in a batch mostly differ in nothing but their unique keys.
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
        queue.tail += b"".join(map(UNIT.pack, log_offsets, sizes, codes))
        if not queue.is_touched:
            queue.is_touched = True
            self._touched.append(queue)
        if self._is_indexed:
            self._index_items += index_items
        return first, log_offsets

    def _check_batch(self, entry: Topic, sys_flag: int, messages: list[BatchPart], sizes: list[int]) -> int:
        """What the records, which have these sizes, take together. MessageRefused where one message, or all together,
        are too much for the store."""
        harmless_size = min(self._body_size_max, PROPERTIES_SIZE_MAX_BYTES)
        for (_, body, properties), size in zip(messages, sizes, strict=True):
            if size > harmless_size or properties.find(0, 2) >= 0:
                self._check(entry, size, len(body), properties[2:])
        total = sum(sizes)
        if not messages or total > self._record_size_max:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, f"a batch of {len(messages)} messages, {total} bytes")
        if sys_flag & 0xC or len(entry.field) > TOPIC_V1_LENGTH_MAX + 1:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, "a batch may not be transactional, nor its topic long")
        if self._flags.refuses_writes:
            raise MessageRefused(PutStatus.SERVICE_NOT_AVAILABLE, self._flags.reason)
        return total

    def _start_round(self) -> int:
        # One clock reading a round: the loop's rounds are a millisecond long at most.
        self._now_ms = self.last_store_timestamp_ms = self._clock_ms()
        return self._now_ms

    def _check(self, entry: Topic, size: int, body_size: int, properties: bytes) -> None:
        """MessageRefused where the store's rules say so (``MessageExtEncoder``, ``DefaultMessageStore``; that zero
        bytes are refused is ours: recovery takes them for a torn record)."""
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
        if b"\0" in properties:
            raise MessageRefused(PutStatus.MESSAGE_ILLEGAL, "properties hold a zero byte")

    def _middle_part(
        self, sys_flag: int, born_timestamp_ms: int, born_host: bytes, store_host: bytes, reconsume_times: int,
        prepared_offset: int,
    ) -> bytes:  # fmt: skip
        """A record from its sysFlag to its prepared transaction offset: what the messages of a batch have in common,
        and what is longer where hosts are IPv6."""
        sys_flag &= ~_HOSTS_V6
        sys_flag |= BORN_HOST_V6 if len(born_host) == 20 else 0
        sys_flag |= STORE_HOST_V6 if len(store_host) == 20 else 0
        now_ms = self._now_ms or self._start_round()
        born, rest = _BORN.pack(sys_flag, born_timestamp_ms), _REST.pack(reconsume_times, prepared_offset)
        return b"".join((born, born_host, now_ms.to_bytes(8, "big"), store_host, rest))

    # -- files

    def _roll(self, size: int) -> None:
        """Goes on in the next file. MessageRefused, with nothing changed, if there is none to be had."""
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
            if self._round_failed is None and (problem := self.keep_first_file()) is not None:
                self._round_failed = problem
                self._flags.set(NOT_WRITEABLE, str(problem))
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
            self._flags.set(NOT_WRITEABLE, str(self._round_failed))
            return
        self._parts_offset += len(data)

    # -- the end of a round

    def commit(self) -> None:
        """Writes the round. In async mode its records are visible at return; in sync mode a flush has been asked for.

        StorageError if a write of this round failed: nothing of it may be acknowledged, none of it becomes visible,
        and the store refuses writes until it is opened anew.
        """
        if not self._parts and not self._touched and not self._index_items:
            return
        self._write()
        self._now_ms = 0
        touched, self._touched = self._touched, []
        items, self._index_items = self._index_items, []
        if self._round_failed is not None:
            for queue in touched:
                queue.is_touched = False
            raise self._round_failed
        self._log.written_offset = end = self.end_offset
        if end > self._maker.allocate_when_past:
            self._maker.request(end)
        marks = [(queue, queue.next_offset) for queue in touched]
        for queue in touched:
            queue.is_touched = False
        if self._is_sync:
            self._unflushed.append((end, self._last_record_offset, marks, items))
            self.request_flush()
        else:
            self._dispatcher.show(end, self._last_record_offset, marks, items)

    def show_flushed(self, flushed_offset: int) -> None:
        """Makes visible every round that ends at or before ``flushed_offset``."""
        while self._unflushed and self._unflushed[0][0] <= flushed_offset:
            self._dispatcher.show(*self._unflushed.popleft())
