"""The core in plain Python. The docstrings are those of ``_core``, too."""

from __future__ import annotations

import select
import struct
import time
from array import array
from collections.abc import Callable, Mapping
from enum import IntEnum
from itertools import compress, repeat
from operator import add, gt
from typing import Any

from rmqproto.filters.message_filter import AcceptsRawProperties, AcceptsValues
from rmqproto.java.java_hash import SIGN, abs_hash, extend_hash_utf8, extend_hashes_id
from rmqproto.message.record import MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN_BYTES
from rmqproto.message.sys_flag import HOST_V4_SIZE, HOST_V6_SIZE, HOSTS_V6
from rmqproto.wire.frames import FrameCutter as FrameCutter

IndexItem = tuple[int, int, int, bytes, bytes, int]
"""What ``pack_entries`` needs of a message: hash of its topic's prefix, log offset, store time in ms, UNIQ_KEY, KEYS,
and the hash of its tag's entry (NO_TAG if it has none). A tuple, not a class: there is one for every message sent."""

CONTRACT = 5
"""Of these two modules with the rest; it counts up when that changes. A native core of another contract was built from
older sources, and is not used."""

NO_TAG = -1
"""Stands for the hash of a tag's index entry if a message has no tags."""

# An index entry on its way to the index, in native order: key hash u32 | kind u32 | log offset i64 | store time in
# ms i64
ENTRY = struct.Struct("=IIqq")
OF_KEY, OF_NO_KEY, OF_TAG = 0, 1, 2
"""Kinds of index entries. A message without keys and tags has one, too, which has no unit: it tells how far the index
has come."""

CopiedRun = tuple[str, int, int, bytes]
"""Neighbours of one queue: topic, queue id, first queue offset, units."""

# Unit of an index file (IndexFile, 5.5.0): key hash i32 | log offset i64 | seconds since begin time i32
# | previous unit i32
INDEX_UNIT = struct.Struct(">iqii")
SLOTS_PER_PAGE_SHIFT = 10

_SECONDS_MAX = 0x7FFFFFFF

# A record with IPv4 hosts: 0 size i32 | 4 magic i32 | 36 sysFlag i32 | 84 body length i32 | 88 body.
_HEAD = struct.Struct(">ii28xi44xi")
_TOPIC_V1_AT = _HEAD.size + 1
"""Where the topic of a record with an empty body begins, if its length is one byte."""
_unpack_head = _HEAD.unpack_from
_I32 = struct.Struct(">i")
_SIZE_AND_MAGIC = struct.Struct(">ii")
_MAGICS = (MAGIC_V1, MAGIC_V2)
_HOST_V6_MORE_BYTES = HOST_V6_SIZE - HOST_V4_SIZE
# Unit of a consume queue: log offset i64 | record size i32 | 8 more
_PLACE = struct.Struct(">qi8x")


# --- records of a copied log -----------------------------------------------------------------------------------------


def plain_records(
    data: bytes | memoryview,
    base: int,
    fates: bytes,
    queued: int,
    indexed: int,
    marks: tuple[bytes, ...],
    odd_topic: bytes,
) -> tuple[int, int, int, list[CopiedRun], bytes]:
    """Takes the records of ``data``, the log from ``base`` on, up to the first that is incomplete, damaged, or not
    plain, and returns (end, last, store_ms, runs, entries): the records end at ``end``; the last begins at ``last``, -1
    if there is none, and has the store time ``store_ms``. A record is not plain if it has IPv6 hosts, a long topic,
    ``odd_topic``, a topic that cannot be a directory, a topic or tags that are not ASCII, a queue offset that has no
    next one or is negative, or one of ``marks`` in its properties. ``fates``, by the low bits of a sysFlag, tells by
    the bits ``queued`` and ``indexed`` which records have units and index entries (``indexed`` 0: none is indexed).
    Here, no record is plain."""
    return base, -1, 0, [], b""


# --- where records start ---------------------------------------------------------------------------------------------


def record_starts(data: bytes | memoryview, stop: int) -> tuple[bytes, int]:
    """The starts before ``stop`` of the whole records that follow each other from the first byte on, as native i64, and
    the end of the last one."""
    unpack, end, room = _SIZE_AND_MAGIC.unpack_from, 0, len(data)
    last = min(room - RECORD_SIZE_MIN_BYTES, stop - 1)
    found = array("q")
    add = found.append
    while end <= last:
        size, magic = unpack(data, end)
        if size < RECORD_SIZE_MIN_BYTES or size > room - end or magic not in _MAGICS:
            break
        add(end)
        end += size
    return found.tobytes(), end


# --- index entries ---------------------------------------------------------------------------------------------------


def pack_entries(items: list[IndexItem]) -> bytes:
    """The entries of messages, in this order; those of one message in Apache's order: unique key, keys, tag."""
    pack, packed = ENTRY.pack, list[bytes]()
    ids = extend_hashes_id([item[0] for item in items], [item[3] for item in items])
    for (prefix_hash, log_offset, store_ms, unique_key, keys, tag_hash), id_hash in zip(items, ids, strict=True):
        before = len(packed)
        if unique_key:
            packed.append(pack(id_hash if id_hash < SIGN else abs_hash(id_hash), OF_KEY, log_offset, store_ms))
        if keys:
            for key in keys.split(b" ") if 0x20 in keys else (keys,):
                if key:
                    hashed = extend_hash_utf8(prefix_hash, key)
                    packed.append(pack(hashed if hashed < SIGN else abs_hash(hashed), OF_KEY, log_offset, store_ms))
        if tag_hash != NO_TAG:
            packed.append(pack(tag_hash, OF_TAG, log_offset, store_ms))
        elif len(packed) == before:
            packed.append(pack(0, OF_NO_KEY, log_offset, store_ms))
    return b"".join(packed)


def packed(entries: bytes | list[IndexItem]) -> bytes:
    """What ``RoundBuffer.take_entries`` gave, as entries."""
    return entries if isinstance(entries, bytes) else pack_entries(entries)


def log_offsets_of(entries: bytes) -> memoryview:
    """The log offset of each entry."""
    return memoryview(entries).cast("q")[1::3]


def index_units(
    entries: bytes, slots: memoryview, slot_count: int, dirty: bytearray, number: int, begin_ms: int, /
) -> tuple[bytes, int]:
    """Chains index entries, the first as unit ``number``, and returns their units, and how many slots were not used
    before. ``slots`` is a writable buffer of native i32, ``dirty`` one with a byte for each 1024 slots."""
    small, large = memoryview(entries).cast("I"), memoryview(entries).cast("q")
    hashes, kinds = small[0::6].tolist(), small[1::6].tolist()
    log_offsets, times = large[1::3].tolist(), large[2::3].tolist()
    if OF_NO_KEY in kinds:
        keyed = [kind != OF_NO_KEY for kind in kinds]
        hashes, log_offsets, times = (list(compress(each, keyed)) for each in (hashes, log_offsets, times))
    # Each step for all entries: a loop that does all steps for each entry takes a third longer.
    taken_slots = [key_hash % slot_count for key_hash in hashes]
    before: list[int] = []
    for own, slot in enumerate(taken_slots, number):
        previous = slots[slot]
        before.append(previous if 0 < previous < own else 0)
        slots[slot] = own
    for page in {slot >> SLOTS_PER_PAGE_SHIFT for slot in taken_slots}:
        dirty[page] = 1
    by_time = {at_ms: seconds_since(begin_ms, at_ms) for at_ms in set(times)}
    units = map(INDEX_UNIT.pack, hashes, log_offsets, map(by_time.__getitem__, times), before)
    return b"".join(units), before.count(0)


def seconds_since(begin_timestamp_ms: int, store_timestamp_ms: int) -> int:
    """The time of an index entry, as its unit holds it."""
    return min(max(0, store_timestamp_ms - begin_timestamp_ms) // 1000, _SECONDS_MAX)


# --- a filter's second stage -----------------------------------------------------------------------------------------


def take_wanted(
    data: bytes,
    units: bytes,
    base: int,
    accepts: AcceptsRawProperties,
    by_values: AcceptsValues | None,
    records: list[bytes],
    count_max: int,
) -> int:
    """Checks the records of ``units`` in ``data``, the log from ``base`` on, and adds those that ``accepts`` takes to
    ``records``, until there are ``count_max``. ``by_values`` decides the same; ``_core`` asks it instead, unless it has
    more than 32 names. A damaged record is not taken. Returns how many were checked; 0, with nothing added, if the
    records are not in order in ``data``, or too small to be records."""
    if base < 0 or len(units) % _PLACE.size:
        raise ValueError("no base, or no whole units")
    if not units:
        return 0
    offsets, sizes = zip(*_PLACE.iter_unpack(units), strict=True)
    starts = [log_offset - base for log_offset in offsets]
    ends = list(map(add, starts, sizes))
    if starts[0] < 0 or ends[-1] > len(data) or min(sizes) < RECORD_SIZE_MIN_BYTES or any(map(gt, ends, starts[1:])):
        return 0
    heads = map(_unpack_head, repeat(data), starts)
    for seen, (at, end, (record_size, magic, sys_flag, body_size)) in enumerate(zip(starts, ends, heads, strict=False)):
        if len(records) >= count_max:
            return seen
        if magic == MAGIC_V1 and not sys_flag & HOSTS_V6:  # nearly all records
            if not 0 <= body_size <= end - at - RECORD_SIZE_MIN_BYTES:
                continue
            start = at + _TOPIC_V1_AT + body_size
            start += data[start - 1] + 2
        else:
            start = _unusual_start_untrusted(data, at, end)
        if record_size == end - at and start <= end and accepts(data[start:end]):
            records.append(data[at:end])
    return len(starts)


def _unusual_start_untrusted(data: bytes, at: int, end: int) -> int:
    """Where the properties of a record with a long topic or IPv6 hosts begin; a place behind its end if its lengths do
    not fit."""
    _, magic, sys_flag, _ = _unpack_head(data, at)
    body_at = at + _HEAD.size + _HOST_V6_MORE_BYTES * (sys_flag & HOSTS_V6).bit_count()
    if end < body_at:
        return end + 1
    (body_size,) = _I32.unpack_from(data, body_at - _I32.size)
    topic_at: int = body_at + body_size + (1 if magic == MAGIC_V1 else 2)
    if body_size < 0 or topic_at > end:
        return end + 1
    return topic_at + (data[topic_at - 1] if magic == MAGIC_V1 else data[topic_at - 2] << 8 | data[topic_at - 1]) + 2


# --- the turn of the loop --------------------------------------------------------------------------------------------


def serve_ready(
    events: list[tuple[int, int]],
    done: int,
    connections: dict[int, Any],
    state: object,
    pump: object,
    buffer: memoryview,
    ends_s: float,
) -> int:
    """Calls ``serve`` of the connections of ``events``, from the one numbered ``done`` on, until a descriptor is none
    of theirs, or the time is up after the first event of all. Returns how many events are done. If a connection has
    this ``state`` and ``pump``, and a ``FrameCutter``, ``_core`` does what its ``serve`` would do."""
    for fd, what in events[done:]:
        now_s = time.monotonic()
        connection = connections.get(fd)
        if connection is None or (done and now_s > ends_s):
            break
        connection.last_active_s = now_s
        connection.serve(what != select.EPOLLIN, buffer)
        done += 1
    return done


def flush_dirty(dirty: list[Any], state: object, pump: object) -> None:
    """Calls ``flush`` of each connection. If it has this ``state`` and ``pump``, ``_core`` sends what it queued."""
    for connection in dirty:
        connection.flush()


# --- pulls -----------------------------------------------------------------------------------------------------------


class PlainPulls:
    """A taker of frames: answers pulls by plans that the general way has left, by one ``send`` of the connection. A
    plan is a tuple:

    - the ``ConsumeQueue``
    - what is called with a pull that is answered: the time it took in ms, messages, bytes, the next queue offset, and
      the offset to commit
    - the answer's JSON header, cut into five where the highest, the lowest and the next queue offset and the opaque go
    - the limits of ``Reader.plain_limits``, four numbers
    - the tag codes that the pull wants, as native i64, or None for all

    Units come from the queue's memory or file, records from the log's files, all without waiting for the device. What
    is not in memory, below the queue's or the log's start or at the queue's end, or without a wanted message, is left
    to the general way, with nothing changed. Here, everything is."""

    def __init__(self, log: object, hot_bytes: int, kept_ms: int):
        """``log`` is a ``CommitLog``, whose newest ``hot_bytes`` are in memory. All plans are forgotten every
        ``kept_ms``."""
        self.admits: Callable[[Any, int, bytes, bytes], bool] | None = None
        """As in ``PlainSends``."""

    def keep(self, header: bytes, opaque: int, queue_offset: int, commit_offset: int, plan: tuple[object, ...]) -> None:
        """Leaves a plan for pulls whose header differs from this one only in these numbers, which a decoder has
        found, in the time to wait, and in a signature. Does nothing for a header with unusual spelling, or a plan with
        large limits."""

    def forget(self) -> None:
        """Drops all plans."""

    def read_run(
        self, queue: object, queue_offset: int, limits: tuple[int, int, int, int], log_end: int, /
    ) -> tuple[bytes, list[int], bool] | None:
        """The records of the queue from there on, within the limits of ``Reader.plain_limits`` and before ``log_end``:
        joined, their sizes, and whether each has the queue offset that follows on the one before it. None for what is
        left to the general way."""
        return None


# --- sends -----------------------------------------------------------------------------------------------------------


class Puts:
    """Sends that were taken in a round. Here there are none."""

    count = 0

    def all(self) -> list[tuple[Any, int, int, bytes, int, int, bytes, list[int] | None, int]]:
        """Of each: connection, opaque, queue id, store host, log offset, queue offset, unique key (empty if it has
        none), if it is a batch, the log offsets of its messages, and the header codec."""
        return []


class PlainSends:
    """A taker of frames: of sends, one message or a batch, that ask only to be stored, in a topic and a queue that are
    open, and plain in ``targets``. All others are left to the service; here, all are. What it took in a round becomes
    Puts, and is counted in the targets' flows at the latest when these are taken."""

    def __init__(
        self,
        round_buffer: object,
        topics: Mapping[str, object],
        targets: Mapping[str, object],
        address: object,
        next_unique_id: Callable[[], str],
        names: tuple[bytes, ...],
        names_v2: tuple[bytes, ...],
        asking_names: tuple[bytes, ...],
        repeat_mark: bytes,
        unusual_sys_flag: int,
        /,
    ):
        """``names`` and ``names_v2`` are those of SendHeader's fields on the wire. A message that has one of
        ``asking_names``, a batch that contains ``repeat_mark``, or a bit of ``unusual_sys_flag`` is not plain."""
        self.admits: Callable[[Any, int, bytes, bytes], bool] | None = None
        """Asked before a send is taken, if it is set: connection, code, header and body. It changes nothing; if it
        says no, the service gets the send."""

    def configure(self, added_properties: bytes, answer_pieces: tuple[bytes, ...], knows_safe: bool, /) -> None:
        """Before anything is taken. The properties go behind those of each message, but of a batch. The pieces are
        those of ``sent_answers.sent_pieces`` and ``binary_sent_pieces``. ``knows_safe``: safe means more than
        written."""

    def take_written(self) -> Puts | None:
        """The puts of this round that are answered when they are written. RuntimeError while a send is being taken."""

    def take_safe(self) -> Puts | None:
        """Those that are answered when they are safe."""

    def answers(self, puts: Puts, /) -> list[tuple[Any, bytes]]:
        """What each connection is sent when the puts are stored. A connection may come again."""
        return []


# --- calls of gRPC ----------------------------------------------------------------------------------------------------

CutSend = tuple[str, int, int, bytes, bytes, tuple[bytes, bytes, bytes]]
"""Topic, sysFlag, born time in ms (0: none), body, properties as they are stored, and their MessageKeys."""
CutAck = tuple[str, str, bytes, bytes, str, int]
"""Group, topic, message id, receipt handle, what that has before the queue offset, and the queue offset."""


def cut_send(call: bytes, reserved: frozenset[bytes], address: str, /) -> CutSend | None:
    """The only message of a SendMessageRequest that asks only to be stored, and says all in visible ASCII. ``call`` is
    the whole body of a call; ``address`` is the client's. None for a message with a property of a ``reserved`` name,
    with many or long texts, with fields that come twice, and for whatever else is unusual. Here always None."""
    return None


def cut_ack(call: bytes, /) -> CutAck | None:
    """The only entry of an AckMessageRequest whose receipt handle has nine words, as ``cut_send``. Here always None."""
    return None


class Role(IntEnum):
    """What ``pack_received`` makes of a property."""

    USER = 0
    TAG = 1
    KEYS = 2
    UNIQUE_KEY = 3
    BORN_TIME = 4
    BORN_TEXT = 5
    DROPPED = 6
    ODD = 7


def pack_received(
    records: bytes,
    topic: bytes,
    handles: list[bytes],
    roles: dict[bytes, int],
    tags: frozenset[str] | None,
    attempts_max: int,
    md5: Callable[[bytes], Any],
    /,
) -> bytes | None:
    """The records as ReceiveMessageResponses, each behind the head of its frame. ``handles`` are their receipt handles
    without the log offset; ``roles`` has the names of properties that are not the user's. None if one of them is not
    plain: if a property is ODD, not of printable ASCII, or comes twice; for a compressed body, an IPv6 host, a message
    without a unique key, one with none of ``tags`` (None: any), and one that was tried ``attempts_max`` times. Here
    always None."""
    return None


# --- signed fields ---------------------------------------------------------------------------------------------------


def cut_signed(
    keys: tuple[bytes, ...],
    order: bytes,
    known: tuple[bytes | None, ...],
    access_key_at: int,
    header: bytes,
    body: bytes,
) -> tuple[bytes, bytes, bool] | None:
    """The signed ext fields of ``header`` followed by the body, the signature, and whether all ``known`` values are
    unchanged. None if the fields are not exactly those of ``keys`` in their order, if the value at ``access_key_at`` is
    not the known one, if the body is larger than 64 KiB, and for some headers with unusual spelling. ``header`` is JSON
    that is known to decode to an object with an object ``extFields``. Here always None.

    There are 64 keys at most. ``known`` has the values by the places of their keys, None for any value. ``order`` has
    the places in the order of signing, one byte each, the signature's last."""
    return None
