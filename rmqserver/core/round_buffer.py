"""The records of a round before they are written, in plain Python. Every message passes through this file, so it
avoids every object, call and copy that it can. A record is five parts in a list that is joined once a round, a
consume queue unit is 20 bytes packed onto its queue, and the index gets six references kept for later. The
docstrings are those of ``_core``, too; there a record is written at once."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import accumulate, repeat
from typing import Any
from zlib import crc32

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.java.java_hash import tag_code
from rmqproto.message.properties import PROPERTIES_SIZE_MAX_BYTES, MessageKeys, find_bytes, message_keys
from rmqproto.message.record import RECORD_V4, BatchPart, batch_parts_untrusted
from rmqproto.message.sys_flag import HOST_V4_SIZE, HOSTS_V6, INNER_BATCH, TRANSACTION_MASK, with_host_bits
from rmqserver.core.simple import IndexItem

BATCH_COUNT_MAX = 250_000
"""Messages in one batch. The header of the answer has their ids, of 33 or 57 characters, and can have 16 MiB."""

# Those of rmqserver/store/fate.py.
_QUEUED, _DUE_TIME, _FATE_MASK = 0x1, 0x4, 0xFF

_HOSTS_V4_SIZE = 2 * HOST_V4_SIZE

# Looked up once here, not for every message.
_pack_record = RECORD_V4.pack
# Unit of a consume queue: log offset i64 | record size i32 | tags code i64
_pack_unit = struct.Struct(">qiq").pack
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


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where a message went. A Struct costs a fifth of a NamedTuple to make."""

    log_offset: int
    size_bytes: int
    queue_offset: int


class RoundBuffer:
    """Takes messages into the round: their records, the units of their queues, their index entries. It decides nothing:
    a message that may have to be refused, or that needs the next log file, is the caller's.

    ``end_offset`` is where the next record goes, and no record may end behind ``records_end_offset``. ``indexed_bits``
    are those of a fate that make index entries. ``store_timestamp_ms`` is the time of the round: 0 before its first
    record, for which the clock is read. ``flags`` is a ``RunningFlags``; below, an entry is a ``Topic``, and a queue a
    ``ConsumeQueue`` of it."""

    def __init__(self, clock_ms: Callable[[], int], flags: Any):
        self.end_offset = self.records_end_offset = self.last_record_offset = 0
        self.store_timestamp_ms = self.body_size_max_bytes = self.indexed_bits = 0
        self._clock_ms = clock_ms
        self._flags = flags
        self._parts: list[bytes | memoryview] = []
        self._index_items: list[IndexItem] = []
        self._touched: list[Any] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to take."""
        return not self._parts and not self._touched and not self._index_items

    def append(  # one function, because a call costs as much as two of its branches
        self,
        entry: Any,
        queue: Any,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int,
        body: bytes | memoryview,
        properties: bytes,
        prepared_offset: int,
        tags_code: int | None,
        found_keys: MessageKeys | None,
    ) -> Appended | None:
        """Appends one message. None, with nothing changed, if it is doubtful: too large, of a topic that is too long,
        an inner batch, with a zero in its properties or a number that does not fit its field, or if the store refuses
        writes, or the file has no room. Hosts are 4 or 16 address bytes and the port as i32; the host bits of
        ``sys_flag`` are set to fit them. ``body`` may be a view: it is copied at ``take``. ``tags_code`` is what the
        unit holds instead of the tag's code. ``found_keys`` are the keys of the properties, if the caller knows
        them."""
        body_size, properties_size = len(body), len(properties)
        size = entry.overhead_bytes + body_size + properties_size
        hosts_size = len(born_host) + len(store_host)
        if hosts_size != _HOSTS_V4_SIZE:
            size += hosts_size - _HOSTS_V4_SIZE
        elif sys_flag & HOSTS_V6:
            sys_flag &= ~HOSTS_V6
        log_offset = self.end_offset
        if (
            body_size > self.body_size_max_bytes
            or properties_size > PROPERTIES_SIZE_MAX_BYTES
            or log_offset + size > self.records_end_offset
            or self._flags.refuses_writes
            or entry.is_too_long
            or sys_flag & INNER_BATCH
            or 0 in properties
        ):
            return None
        now_ms = self.store_timestamp_ms or self._start()
        fate = entry.fates[sys_flag & _FATE_MASK]
        queue_offset = queue.next_offset if fate & _QUEUED else 0
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
        except struct.error:
            return None
        size_field = _SIZES[properties_size] if properties_size < _SIZES_COUNT else properties_size.to_bytes(2, "big")
        self._parts += (fixed, body, entry.field, size_field, properties)
        self.end_offset = log_offset + size
        self.last_record_offset = log_offset
        unique_key, keys, tags = found_keys or message_keys(properties)
        code, tag_hash = entry.tags.get(tags) or entry.tag(tags)
        if fate & _QUEUED:
            queue.next_offset = queue_offset + 1
            queue.tail += _pack_unit(log_offset, size, code if tags_code is None else tags_code)
            if not queue.is_touched:
                queue.is_touched = True
                self._touched.append(queue)
        if fate & self.indexed_bits:
            self._index_items.append((entry.index_prefix_hash, log_offset, now_ms, unique_key, keys, tag_hash))
        return Appended(log_offset, size, queue_offset)

    def append_batch(
        self,
        entry: Any,
        queue: Any,
        queue_id: int,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int,
        batch: bytes,
    ) -> tuple[Appended, list[int]] | None:
        """Appends the messages of one batch send as records of their own. Returns where the first went, and all log
        offsets; or None, as ``append``, also if it is not a batch, a transaction's, or its units hold due times."""
        try:
            messages = batch_parts_untrusted(batch)
        except ProtocolError:
            return None
        overhead = entry.overhead_bytes - 2 + len(born_host) + len(store_host) - _HOSTS_V4_SIZE
        sizes = [overhead + len(body) + len(properties) for _, body, properties in messages]
        log_offsets = list(accumulate(sizes, initial=self.end_offset))
        end_offset = log_offsets.pop()
        if (
            not 0 < len(messages) <= BATCH_COUNT_MAX
            or len(batch) > self.body_size_max_bytes
            or sys_flag & (TRANSACTION_MASK | INNER_BATCH)
            or entry.is_long
            or entry.fates[0] & _DUE_TIME
            or end_offset > self.records_end_offset
            or self._flags.refuses_writes
        ):
            return None
        if max(sizes) > PROPERTIES_SIZE_MAX_BYTES and any(
            len(properties) - 2 > PROPERTIES_SIZE_MAX_BYTES for _, _, properties in messages
        ):
            return None
        if max(map(bytes.find, [properties for _, _, properties in messages], repeat(0), repeat(2))) >= 0:
            return None
        try:
            middle = self._middle_part(sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, 0)
            self._append_messages(entry, queue, queue_id, middle, messages, sizes, log_offsets)
        except struct.error:
            return None
        self.end_offset, self.last_record_offset = end_offset, log_offsets[-1]
        return Appended(log_offsets[0], sizes[0], queue.next_offset - len(messages)), log_offsets

    def _append_messages(
        self, entry: Any, queue: Any, queue_id: int, middle: bytes, messages: list[BatchPart], sizes: list[int],
        log_offsets: list[int],
    ) -> None:  # fmt: skip
        """Does what ``append`` does, without its calls and branches: they would be most of the cost of a small
        message."""
        now_ms, magic, topic_field, prefix_hash = (
            self.store_timestamp_ms, entry.magic, entry.field, entry.index_prefix_hash,
        )  # fmt: skip
        pack_fixed_part = _FIXED_PARTS[len(middle)].pack
        queue_offset = queue.next_offset
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
        self._parts += parts
        queue.next_offset = queue_offset
        queue.tail += b"".join(map(_pack_unit, log_offsets, sizes, codes))
        self._touch(queue)
        if self.indexed_bits:
            self._index_items += index_items

    def dispatch(self, queue: Any, log_offset: int, size_bytes: int, tags: bytes) -> None:
        """Gives a record that was appended the next unit of another queue, too."""
        queue.tail += _pack_unit(log_offset, size_bytes, tag_code(tags.decode("utf-8", "replace")))
        queue.next_offset += 1
        self._touch(queue)

    def _touch(self, queue: Any) -> None:
        if not queue.is_touched:
            queue.is_touched = True
            self._touched.append(queue)

    def _start(self) -> int:
        # One clock reading a round: a round of the loop takes a millisecond at most.
        self.store_timestamp_ms = self._clock_ms()
        return self.store_timestamp_ms

    def _middle_part(
        self, sys_flag: int, born_timestamp_ms: int, born_host: bytes, store_host: bytes, reconsume_times: int,
        prepared_offset: int,
    ) -> bytes:  # fmt: skip
        """A record from its sysFlag to its prepared transaction offset: the part that the messages of a batch share,
        and that is longer if hosts are IPv6."""
        sys_flag = with_host_bits(sys_flag, born_host, store_host)
        now_ms = self.store_timestamp_ms or self._start()
        born, rest = _BORN.pack(sys_flag, born_timestamp_ms), _REST.pack(reconsume_times, prepared_offset)
        return b"".join((born, born_host, now_ms.to_bytes(8, "big"), store_host, rest))

    def add(self, data: bytes) -> None:
        """Adds bytes that are no record."""
        self._parts.append(data)

    def take(self) -> bytes:
        """The bytes that came since the last call."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data

    def take_entries(self) -> bytes | list[IndexItem]:
        """The index entries that came since the last call; here, what ``packed`` makes them of: nobody waits for them,
        and answers do."""
        items, self._index_items = self._index_items, []
        return items

    def take_touched(self) -> list[Any]:
        """The queues that have new units since the last call. They are not ``is_touched`` anymore."""
        touched, self._touched = self._touched, []
        for queue in touched:
            queue.is_touched = False
        return touched
