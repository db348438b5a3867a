"""How an idempotent producer numbers its messages, so that its broker recognises one that is sent again. The messages
of a queue are counted from 0 and sent in that order. One that has to be sent again waits for those before it. When a
message is given up, it is not known whether it is stored. The queue then begins a new epoch, in which the abandoned
message can no longer be stored."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator

import anyio
import anyio.lowlevel

from rmqclient.parking import ParkingLot
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, RocketMQError
from rmqproto.message.special_messages import REPEATS_KNOWN, ProducerSequence

UNDER_WAY_MAX = REPEATS_KNOWN // 2
"""Messages of one queue under way at a time: the broker must still remember each of them when it comes again."""


NEVER_STORED_CODES = frozenset({
    ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.NO_BUYER_ID, ResponseCode.NOT_IN_CURRENT_UNIT, ResponseCode.GO_AWAY,
})  # fmt: skip
"""Refusals after which the broker may accept the same number a moment later. The same holds for SERVICE_NOT_AVAILABLE,
but then the message may have been written."""

PAUSE_S_MIN, PAUSE_S_MAX = 0.02, 0.5
"""The pause before another attempt, doubling from the first value to the second."""


class Turn:
    """A message's place in its queue's line, with its ``number``."""

    def __init__(self, line: SequenceLine):
        self._line = line
        self._is_doubtful = False
        """An attempt ended without an answer, so the message may be stored under its number."""
        self._was_first = False
        self._pause_s = PAUSE_S_MIN
        self._take_number()

    def _take_number(self) -> None:
        line = self._line
        self.number = ProducerSequence(line.producer_id, line.epoch, line.next_sequence)
        line.next_sequence += 1
        line.turns.pop(self, None)
        line.turns[self] = None

    @property
    def _is_first(self) -> bool:
        return next(iter(self._line.turns)) is self

    @property
    def is_of_this_epoch(self) -> bool:
        return self.number.epoch == self._line.epoch

    def begins_attempt(self) -> ProducerSequence:
        """The number for the attempt that begins now."""
        self._was_first = self._is_first
        return self.number

    async def is_to_try_again(self, failed: RocketMQError) -> bool:
        """Whether another attempt is to be made. Waits until it may begin. ``number`` may have changed then."""
        if not isinstance(failed, RefusedError) or failed.code == ResponseCode.SERVICE_NOT_AVAILABLE:
            self._is_doubtful = True
        elif failed.code == ResponseCode.ILLEGAL_OPERATION:
            return await self._is_to_be_numbered()
        elif failed.code not in NEVER_STORED_CODES:
            return False
        await anyio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        await self._first()
        return True

    async def _is_to_be_numbered(self) -> bool:
        """Whether to try again after the broker refused the number: it was not the next, or its epoch has ended."""
        is_known_to_be_wrong = self._was_first or not self.is_of_this_epoch
        if is_known_to_be_wrong and self._is_doubtful:
            return False
        if not is_known_to_be_wrong:
            await self._first()
            if self.is_of_this_epoch:
                return True
            if self._is_doubtful:
                return False
        if self.is_of_this_epoch:
            self._line.begin_epoch()
        self._take_number()
        await anyio.lowlevel.checkpoint()
        return True

    async def _first(self) -> None:
        """Returns when every message before it is stored or given up."""
        while not self._is_first:
            await self._line.changed.park()


class SequenceLine:
    """The line of one queue. ``turns``: the messages under way, in the order of their numbers."""

    def __init__(self, producer_id: str):
        self.producer_id = producer_id
        self.epoch = 0
        self.next_sequence = 0
        self.turns: dict[Turn, None] = {}
        self.changed = ParkingLot()
        """Tasks that wait for the end of a turn."""

    async def room(self) -> None:
        """Waits until one more message may be under way. Not a checkpoint if there is room at once."""
        while self._span >= UNDER_WAY_MAX:
            await self.changed.park()

    @property
    def _span(self) -> int:
        """How many numbers of this epoch there are from the oldest message under way on. Those between may be stored
        already: the broker has to remember the oldest one's place in spite of them."""
        oldest = next((turn.number.sequence for turn in self.turns if turn.is_of_this_epoch), self.next_sequence)
        return max(self.next_sequence - oldest, len(self.turns))

    @contextlib.contextmanager
    def turn(self) -> Iterator[Turn]:
        """A new number, held while its message is under way. An exception gives the message up."""
        turn = Turn(self)
        try:
            yield turn
        except BaseException:
            if turn.is_of_this_epoch:
                self.begin_epoch()
            raise
        finally:
            del self.turns[turn]
            self.changed.unpark_all()

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.next_sequence = 0


class SequenceLines:
    """The id of one producer, and a line for each queue."""

    def __init__(self) -> None:
        self._producer_id = secrets.token_hex(8)
        self._lines: dict[MessageQueue, SequenceLine] = {}

    def of(self, queue: MessageQueue) -> SequenceLine:
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = SequenceLine(self._producer_id)
        return line
