"""A queue of a system topic that the broker itself reads: it acts on each due message from an offset on. The progress
is saved when the log holds what was put for it. Delay levels are read so, and all else that stores a message now and
acts on it later.

After a crash a message may be acted upon twice, but none is skipped: the saved offset is never ahead of the device, nor
of the brokers that must have the log. If another broker is the master then, what was put may be cut off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from rmqproto.errors import ProtocolError, RocketMQError
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqserver.operation import Refused
from rmqserver.store.queues.consume_queue import ConsumeQueue

if TYPE_CHECKING:
    from rmqserver.store.disk.config_files import Document
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.1
RETRY_AFTER_S = 1.0
"""The pause after something that was due could not be put."""
SAVE_EVERY_S = 1.0
PORTION_MAX = 32
"""Messages acted upon before other tasks have their turn; also the messages of one read of the store."""

STOPS = (RocketMQError, Refused, OSError)
"""What the store or a table refuses, or the device. It ends a step of one of the broker's own tasks, never the broker:
the task says so, and tries again later."""

Act = Callable[[StoredMessage], None]
"""Puts what a message leads to. STOPS end the step, and the message is the next to be tried. ProtocolError means that
the message itself is damaged: it is skipped."""

DueCount = Callable[[ConsumeQueue, int], int]
"""How many of the messages from a queue offset on, up to PORTION_MAX, are due."""


class Relay:
    """One queue. ``next_offset`` is the queue offset of the next message to act upon."""

    def __init__(self, store: MessageStore, topic: str, queue_id: int, due_count: DueCount, act: Act):
        self.next_offset = 0
        self._store = store
        self._topic = topic
        self._queue_id = queue_id
        self._due_count = due_count
        self._act = act

    def __str__(self) -> str:
        return f"{self._queue_id}@{self._topic}"

    async def step(self) -> bool:
        """Acts on a portion; returns False if nothing is due. Raises the refusals of ``act``; earlier messages are
        done."""
        queue = self._store.queues.find(self._topic, self._queue_id)
        if queue is None:
            return False
        start = min(max(self.next_offset, queue.min_offset), queue.max_offset)
        count = self._due_count(queue, start)
        if not count:
            return False
        result = self._store.get(self._topic, self._queue_id, start, count, cached_only=True)
        if not result.is_loaded:
            await trio.to_thread.run_sync(self._store.load, result)
        done = start
        try:
            for record in result.records():
                done = self._act_on(record, done)
            done = result.next_offset
        finally:
            self._store.commit()
            if done > start:
                self.next_offset = done
        return done > start

    def _act_on(self, record: bytes, done: int) -> int:
        """Acts on the message of a record. Returns the queue offset behind it, or ``done`` if the record is damaged."""
        try:
            message = decode_record_untrusted(record)
            self._act(message)
        except ProtocolError as error:
            log.error("event=message-damaged topic=%s queue=%d reason=%r", self._topic, self._queue_id, str(error))
            return done
        return message.queue_offset + 1


class _Snapshot(NamedTuple):
    """What may be saved once the log is kept up to ``log_offset``."""

    log_offset: int
    document: Document


class Progress:
    """Saves a document with the progress of relays once the log holds what they put."""

    def __init__(self, store: MessageStore, document: Callable[[], Document], save: Callable[[Document], None]):
        self._store = store
        self._document = document
        self._save = save
        self._saved: Document | None = None
        self._waiting: _Snapshot | None = None

    def loaded(self) -> None:
        """Notes that the file holds the present progress."""
        self._saved = self._document()

    def save_when_kept(self) -> None:
        """To be called now and then: saves what was noted before and is kept, then notes what has changed."""
        if self._waiting is not None and self._store.kept_offset >= self._waiting.log_offset:
            self._save(self._waiting.document)
            self._waiting = None
        if self._waiting is None and (document := self._document()) != self._saved:
            self._saved = document
            self._waiting = _Snapshot(self._store.written_offset, document)

    def save(self) -> None:
        """Saves the progress at the end, when all of the log is kept."""
        self._save(self._document())


async def run_relays(relays: Callable[[], Sequence[Relay]], progress: Progress) -> None:
    """Steps all present ``relays`` again and again until cancelled. One that cannot go on does not hold up the
    others."""
    save_at_s = trio.current_time() + SAVE_EVERY_S
    while True:
        pause_s = LOOK_EVERY_S
        for relay in relays():
            try:
                while await relay.step():
                    await trio.lowlevel.checkpoint()
            except STOPS as error:
                log.warning("event=relay-stopped queue=%s reason=%r", relay, str(error))
                pause_s = RETRY_AFTER_S
        if trio.current_time() >= save_at_s:
            save_at_s = trio.current_time() + SAVE_EVERY_S
            progress.save_when_kept()
        await trio.sleep(pause_s)


async def run_every(interval_s: Callable[[], float], act: Callable[[], None]) -> None:
    """Acts again and again until cancelled, each time after the interval that there is then."""
    while True:
        await trio.sleep(interval_s())
        act()
