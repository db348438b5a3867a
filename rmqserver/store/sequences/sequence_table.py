"""Producers that number their messages, and where the newest messages of each in each queue are: so a message that is
sent again is recognised. Nothing here asks a clock, a file or a socket."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from rmqproto.message.producer_sequence import REPEATS_KNOWN, STORED_SOMEWHERE, ProducerSequence

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

    def add(self, sequence: int, place: StoredPlace, stored_ms: int) -> None:
        if sequence != self.last_sequence + 1:  # stored by a broker that does not enforce the order
            del self.places[:]
        self.last_sequence, self.last_stored_ms = sequence, stored_ms
        self.places.extend(place)
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

    def find_batch(self, key: LineKey, numbers: Sequence[ProducerSequence]) -> list[StoredPlace]:
        """As ``find``, for numbers that follow each other: no places if all messages are to be stored now.
        OutOfSequence also if only some are stored; if it says STORED_SOMEWHERE, all are."""
        line, first, last = self.lines.get(key), numbers[0], numbers[-1].sequence
        if line is not None and first.epoch == line.epoch and first.sequence <= line.last_sequence < last:
            raise OutOfSequence(f"of messages {first.sequence} to {last}, {line.last_sequence + 1} is the next")
        place = self.find(key, first)
        others = numbers[1:] if place is not None else ()
        return [each for each in (place, *(self.find(key, number) for number in others)) if each is not None]

    def add(self, key: LineKey, number: ProducerSequence, place: StoredPlace, stored_ms: int) -> None:
        """Takes note of a stored message. What is in the log counts, whichever broker put it there. A message that is
        already known, or belongs to an older epoch, changes nothing."""
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
