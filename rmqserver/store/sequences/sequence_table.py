"""What is stored of producers that number their messages: where the newest ones of each queue are. So a message that is
sent again is known. Nothing here asks a clock, a file or a socket."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from rmqproto.message.producer_sequence import REPEATS_KNOWN, ProducerSequence

LINES_MAX = 10_000
"""Pairs of a producer and a queue. The one that was quiet for the longest time is forgotten for one more."""

KEPT_MS = 24 * 3600 * 1000
"""How long a pair is kept whose producer says nothing: by the store times of messages."""

_KEPT = 2 * REPEATS_KNOWN
"""Numbers of a line's places."""


class StoredPlace(NamedTuple):
    """Where a message is."""

    log_offset: int
    queue_offset: int


class LineKey(NamedTuple):
    producer_id: str
    topic: str
    queue_id: int


class OutOfSequence(Exception):
    """A message can be neither stored nor said to be stored; the text says why."""


class SequencedMessages:
    """One producer's messages of one queue, up to ``last_sequence``. ``places``: log offset and queue offset of each of
    the newest, oldest first."""

    __slots__ = ("epoch", "last_sequence", "last_stored_ms", "places")

    def __init__(self, epoch: int, last_sequence: int, last_stored_ms: int, places: array[int]):
        self.epoch = epoch
        self.last_sequence = last_sequence
        self.last_stored_ms = last_stored_ms
        self.places = places

    def place(self, sequence: int) -> StoredPlace | None:
        """None for one that is not known any more."""
        at = len(self.places) - 2 * (self.last_sequence - sequence + 1)
        return StoredPlace(self.places[at], self.places[at + 1]) if at >= 0 else None

    def add(self, sequence: int, place: StoredPlace, stored_ms: int) -> None:
        if sequence != self.last_sequence + 1:  # somebody stored it who does not ask for the order
            del self.places[:]
        self.last_sequence, self.last_stored_ms = sequence, stored_ms
        self.places.extend(place)
        if len(self.places) >= 2 * _KEPT:
            del self.places[:-_KEPT]

    def before(self, log_offset: int) -> SequencedMessages | None:
        """As it was when the log ended there; None if nothing is known of that."""
        count = len(self.places) // 2
        while count and self.places[2 * count - 2] >= log_offset:
            count -= 1
        if not count:
            return None
        dropped = len(self.places) // 2 - count
        places = self.places[max(2 * count - _KEPT, 0) : 2 * count]
        return SequencedMessages(self.epoch, self.last_sequence - dropped, self.last_stored_ms, places)


class SequenceTable:
    """``lines`` are in the order in which they were last added to, the quietest first."""

    def __init__(self) -> None:
        self.lines: dict[LineKey, SequencedMessages] = {}

    def find(self, key: LineKey, number: ProducerSequence) -> StoredPlace | None:
        """Where the message is, if it is stored; None if it is to be stored now. OutOfSequence if neither."""
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
            raise OutOfSequence(f"message {sequence} was stored, but it is not known where: {expected} is the next")
        return place

    def add(self, key: LineKey, number: ProducerSequence, place: StoredPlace, stored_ms: int) -> None:
        """The message is stored. What is in the log counts, whoever has put it there: one that is there already, or is
        of an older epoch, changes nothing."""
        _, epoch, sequence = number
        line = self.lines.pop(key, None)
        if line is None or epoch > line.epoch:
            line = SequencedMessages(epoch, sequence, stored_ms, array("q", place))
        elif epoch == line.epoch and sequence > line.last_sequence:
            line.add(sequence, place, stored_ms)
        self.lines[key] = line
        if len(self.lines) > LINES_MAX:
            del self.lines[next(iter(self.lines))]

    def forget_quiet(self, now_ms: int) -> None:
        while self.lines:
            key = next(iter(self.lines))
            if self.lines[key].last_stored_ms + KEPT_MS >= now_ms:
                return
            del self.lines[key]
