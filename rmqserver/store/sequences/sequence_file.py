"""The table of producers' numbers as a file (``producerSequences``, ours alone), as derived from the log up to an
offset. It saves a start reading that part of the log, and holds nothing that is not in the log."""

from __future__ import annotations

import struct
import sys
from array import array
from zlib import crc32

import msgspec

from rmqserver.store.disk.disk import Disk, make_directory
from rmqserver.store.disk.whole_files import replace_file
from rmqserver.store.sequences.sequence_table import LineKey, SequencedMessages

# The file, big-endian:
#  0 "RMQS" | 4 version u32 | 8 CRC-32 of the rest u32 | 12 a Saved as MessagePack; places are i64, big-endian
_HEAD = struct.Struct(">4sII")
_MAGIC, _VERSION = b"RMQS", 1

SavedLine = tuple[str, str, int, int, int, int, bytes]
"""Producer id, topic, queue id, epoch, last sequence, store time of the last one in ms, places."""


class Saved(msgspec.Struct, array_like=True):
    """The log was taken in up to ``log_offset``. The record at ``mark_offset`` before it has the checksum ``mark_crc``;
    in another log it does not."""

    log_offset: int
    mark_offset: int
    mark_crc: int
    lines: list[SavedLine]


def saved_line(key: LineKey, line: SequencedMessages) -> SavedLine:
    return (*key, line.epoch, line.last_sequence, line.last_stored_ms, _big_endian(line.places).tobytes())


def line_of(saved: SavedLine) -> tuple[LineKey, SequencedMessages]:
    """ValueError if the places are incomplete."""
    producer_id, topic, queue_id, epoch, last_sequence, last_stored_ms, raw = saved
    places = array("q")
    places.frombytes(raw)
    if not places or len(places) % 2:
        raise ValueError("half a place")
    return LineKey(producer_id, topic, queue_id), SequencedMessages(
        epoch, last_sequence, last_stored_ms, _big_endian(places)
    )


def _big_endian(places: array[int]) -> array[int]:
    if sys.byteorder == "big":
        return places
    turned = array("q", places)
    turned.byteswap()
    return turned


def encode(saved: Saved) -> bytes:
    body = msgspec.msgpack.encode(saved)
    return _HEAD.pack(_MAGIC, _VERSION, crc32(body)) + body


def decode_untrusted(data: bytes) -> Saved | None:
    """None for anything but a complete file of this form."""
    if len(data) < _HEAD.size:
        return None
    magic, version, crc = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if (magic, version) != (_MAGIC, _VERSION) or crc32(body) != crc:
        return None
    try:
        return msgspec.msgpack.decode(body, type=Saved)
    except msgspec.MsgspecError:
        return None


def read(disk: Disk, path: str) -> Saved | None:
    """The saved table; None if there is no file, or none that can be trusted. OSError."""
    return decode_untrusted(disk.read_bytes(path)) if disk.is_file(path) else None


def write(disk: Disk, path: str, saved: Saved) -> None:
    """Writes the table; it is on the device at return. OSError."""
    make_directory(disk, path.rpartition("/")[0])
    replace_file(disk, path, encode(saved))
