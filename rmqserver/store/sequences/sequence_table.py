"""Producers that number their messages, and where the newest messages of each in each queue are: so a message that is
sent again is recognised; and the form in which the table is kept (``producerSequences``, ours alone). Nothing here asks
a clock, a file or a socket."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from rmqproto.message.special_messages import REPEATS_KNOWN, STORED_SOMEWHERE, ProducerSequence
from rmqserver.store.disk.whole_files import PackedFile

LINES_MAX = 10_000
"""Pairs of a producer and a queue. One more replaces the pair that was quiet longest."""

KEPT_MS = 24 * 3600 * 1000
"""How long a pair is kept if the producer sends nothing, by the store times of messages."""

_KEPT = 2 * REPEATS_KNOWN
"""Integers that a line's ``places`` keeps at least."""


class StoredPlace(NamedTuple):
    """Where a message is."""

    log_offset: int
    queue_offset: int


Places = Sequence[tuple[int, int]]
"""Those of messages whose numbers follow each other, as ``StoredPlace``. They are plain pairs for speed."""


class LineKey(NamedTuple):
    producer_id: str
    topic: str
    queue_id: int


class OutOfSequence(Exception):
    """A message can neither be stored nor be acknowledged as stored; the text says why."""


class SequencedMessages:
    """One producer's messages in one queue, up to ``last_sequence``. ``places``: log offset and queue offset of each of
    the newest, oldest first."""

    __slots__ = ("epoch", "last_sequence", "last_stored_ms", "places")

    def __init__(self, epoch: int, last_sequence: int, last_stored_ms: int, places: array[int]):
        self.epoch = epoch
        self.last_sequence = last_sequence
        self.last_stored_ms = last_stored_ms
        self.places = places

    def place(self, sequence: int) -> StoredPlace | None:
        """None if the place is no longer known."""
        at = len(self.places) - 2 * (self.last_sequence - sequence + 1)
        return StoredPlace(self.places[at], self.places[at + 1]) if at >= 0 else None

    def add(self, sequence: int, places: Places, stored_ms: int) -> None:
        if sequence != self.last_sequence + 1:  # stored by a broker that does not enforce the order
            del self.places[:]
        self.last_sequence, self.last_stored_ms = sequence + len(places) - 1, stored_ms
        self.places.extend(chain.from_iterable(places))
        if len(self.places) >= 2 * _KEPT:
            del self.places[:-_KEPT]

    def before(self, log_offset: int) -> SequencedMessages | None:
        """The state at the time when the log ended at ``log_offset``; None if that is not known."""
        count = len(self.places) // 2
        while count and self.places[2 * count - 2] >= log_offset:
            count -= 1
        if not count:
            return None
        dropped = len(self.places) // 2 - count
        places = self.places[max(2 * count - _KEPT, 0) : 2 * count]
        return SequencedMessages(self.epoch, self.last_sequence - dropped, self.last_stored_ms, places)


class SequenceTable:
    """``lines`` are in the order of their last additions, the quietest first."""

    def __init__(self) -> None:
        self.lines: dict[LineKey, SequencedMessages] = {}

    def find(self, key: LineKey, number: ProducerSequence) -> StoredPlace | None:
        """Where the message is, if it is stored; None if it is to be stored now. OutOfSequence in other cases."""
        _, epoch, sequence = number
        line = self.lines.get(key)
        if line is None:
            if sequence:
                raise OutOfSequence(f"nothing is known of producer {key.producer_id} here: a new epoch begins with 0")
            return None
        if epoch < line.epoch:
            raise OutOfSequence(f"epoch {epoch} has ended: producer {key.producer_id} is in epoch {line.epoch}")
        expected = line.last_sequence + 1 if epoch == line.epoch else 0
        if sequence > expected:
            raise OutOfSequence(f"message {sequence} of epoch {epoch} comes before message {expected}")
        if epoch > line.epoch or sequence == expected:
            return None
        place = line.place(sequence)
        if place is None:
            raise OutOfSequence(f"message {sequence} {STORED_SOMEWHERE}: {expected} is the next")
        return place

    def find_batch(self, key: LineKey, first: ProducerSequence, count: int) -> list[StoredPlace]:
        """As ``find``, for ``count`` numbers that follow each other: no places if all messages are to be stored now.
        OutOfSequence also if only some are stored; if it says STORED_SOMEWHERE, all are."""
        line, last = self.lines.get(key), first.sequence + count - 1
        if line is not None and first.epoch == line.epoch and first.sequence <= line.last_sequence < last:
            raise OutOfSequence(f"of messages {first.sequence} to {last}, {line.last_sequence + 1} is the next")
        place = self.find(key, first)
        if place is None:
            return []
        others = (self.find(key, first._replace(sequence=number)) for number in range(first.sequence + 1, last + 1))
        return [place, *(each for each in others if each is not None)]

    def add(self, key: LineKey, first: ProducerSequence, places: Places, stored_ms: int) -> None:
        """Takes note of stored messages, whose numbers follow each other from ``first`` on. What is in the log counts,
        whichever broker put it there. A message that is already known, or belongs to an older epoch, changes
        nothing."""
        _, epoch, sequence = first
        line = self.lines.pop(key, None)
        if line is None or epoch > line.epoch:
            line = SequencedMessages(epoch, sequence - 1, stored_ms, array("q"))
        if epoch == line.epoch and sequence + len(places) - 1 > line.last_sequence:
            known_count = max(line.last_sequence + 1 - sequence, 0)
            line.add(sequence + known_count, places[known_count:], stored_ms)
        self.lines[key] = line
        if len(self.lines) > LINES_MAX:
            del self.lines[next(iter(self.lines))]

    def forget_quiet(self, now_ms: int) -> None:
        while self.lines:
            key = next(iter(self.lines))
            if self.lines[key].last_stored_ms + KEPT_MS >= now_ms:
                return
            del self.lines[key]


SavedLine = tuple[str, str, int, int, int, int, bytes]
"""Producer id, topic, queue id, epoch, last sequence, store time of the last one in ms, places (i64, big-endian)."""


class Saved(msgspec.Struct, array_like=True):
    """The table, as derived from the log up to ``log_offset``: it saves a start reading that part. The record at
    ``mark_offset`` before it has the checksum ``mark_crc``; in another log it does not."""

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
