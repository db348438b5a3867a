"""The table of producers' numbers as a file (``producerSequences``, ours alone), as derived from the log up to an
offset. It saves a start reading that part of the log, and holds nothing that is not in the log."""

from __future__ import annotations

import sys
from array import array

import msgspec

from rmqserver.store.disk.whole_files import PackedFile
from rmqserver.store.sequences.sequence_table import LineKey, SequencedMessages

SavedLine = tuple[str, str, int, int, int, int, bytes]
"""Producer id, topic, queue id, epoch, last sequence, store time of the last one in ms, places (i64, big-endian)."""


class Saved(msgspec.Struct, array_like=True):
    """The log was taken in up to ``log_offset``. The record at ``mark_offset`` before it has the checksum ``mark_crc``;
    in another log it does not."""

    log_offset: int
    mark_offset: int
    mark_crc: int
    lines: list[SavedLine]


FILE = PackedFile(b"RMQS", 1, Saved)


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
