"""Skips messages that were consumed before. Delivery is at least once, and some applications want exactly once.

Consumed messages are recorded in a SQLite file, which several consumers on one machine may share. A message is marked
after the listener has consumed it. It comes again after a crash in between, or if two machines get it at once.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread

from rmqclient.listener import LATER, SUCCESS, AsyncListener, ConsumeStatus, Listener, as_async
from rmqclient.message import ReceivedMessage
from rmqproto.errors import StorageError

KEEP_S = 7 * 24 * 3600.0
"""Longer than a broker usually keeps messages (72 h), so that resetting an offset to an earlier one repeats nothing."""

FORGET_EVERY_COUNT = 1000
"""Messages marked between two purges of old entries."""

BUSY_TIMEOUT_S = 10.0
"""How long one process waits for another one that writes."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS consumed (
    topic TEXT NOT NULL, key TEXT NOT NULL, consumed_s REAL NOT NULL, PRIMARY KEY (topic, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS consumed_by_time ON consumed (consumed_s);
"""

KeyOf = Callable[[ReceivedMessage], str]
"""Two messages of a topic with the same key are the same message. A message with an empty key equals no other."""


def by_unique_key(message: ReceivedMessage) -> str:
    """The id that the producer's client gave the message. It matches a send that was stored twice and a message that
    was delivered twice."""
    return message.message_id


def by_key(message: ReceivedMessage) -> str:
    """The keys that the application gave the message. They also match two sends of one order."""
    return " ".join(message.keys)


class Deduplication:
    """``with Deduplication(Path("consumed.db")) as once: PushConsumer(..., once.listener(mine))``"""

    def __init__(self, file: Path, *, key_of: KeyOf = by_unique_key, keep_s: float = KEEP_S):
        """Entries are dropped after ``keep_s``. StorageError for a file that cannot be used."""
        self._key_of = key_of
        self._keep_s = keep_s
        self._file = file
        self._marked_count = 0
        self._running: set[tuple[str, str]] = set()
        self._one_at_a_time = anyio.CapacityLimiter(1)
        try:
            self._db = _opened(file)
        except sqlite3.Error as error:
            raise StorageError(f"{file}: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def listener(self, listener: Listener, *, thread_count: int = 20) -> AsyncListener:
        """A listener that passes to ``listener`` only what it has not consumed yet. A second copy of a message that is
        being consumed right now comes again later. A StorageError of the file also makes the message come again.
        ``thread_count`` is for a ``listener`` that is a plain function."""
        consume = as_async(listener, anyio.CapacityLimiter(thread_count))

        async def once(message: ReceivedMessage) -> ConsumeStatus:
            entry = (message.topic, self._key_of(message))
            if not entry[1]:
                return await consume(message) or SUCCESS
            if entry in self._running:
                return LATER
            self._running.add(entry)
            try:
                if await self._run(self._is_consumed, entry):
                    return SUCCESS
                status = await consume(message) or SUCCESS
                if status.is_success:
                    await self._run(self._mark, entry)
                return status
            finally:
                self._running.discard(entry)

        return once

    async def is_consumed(self, message: ReceivedMessage) -> bool:
        """Whether the message is marked. StorageError."""
        return await self._run(self._is_consumed, (message.topic, self._key_of(message)))

    async def _run(self, do: Callable[[tuple[str, str]], bool], entry: tuple[str, str]) -> bool:
        try:
            return await anyio.to_thread.run_sync(do, entry, limiter=self._one_at_a_time)
        except sqlite3.Error as error:
            raise StorageError(f"{self._file}: {error}") from None

    def _is_consumed(self, entry: tuple[str, str]) -> bool:
        found = self._db.execute("SELECT 1 FROM consumed WHERE topic = ? AND key = ?", entry)
        return found.fetchone() is not None

    def _mark(self, entry: tuple[str, str]) -> bool:
        now_s = time.time()
        self._db.execute("INSERT OR REPLACE INTO consumed VALUES (?, ?, ?)", (*entry, now_s))
        self._marked_count += 1
        if self._marked_count % FORGET_EVERY_COUNT == 0:
            self._db.execute("DELETE FROM consumed WHERE consumed_s < ?", (now_s - self._keep_s,))
        return True


def _opened(file: Path) -> sqlite3.Connection:
    """sqlite3.Error if it is not a database."""
    db = sqlite3.connect(file, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # a power cut may take the last marks back, never the file
        db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db
