"""Selects the wanted messages, counts those examined and those wanted, and records why it ended."""

from __future__ import annotations

from threading import Lock
from typing import Annotated

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.results import Row, doc
from rmqproto.errors import ProtocolError
from rmqproto.filters.message_conditions import TakesMessage
from rmqproto.filters.message_filter import AcceptsProperties


class SieveRow(Row, frozen=True):
    scanned: Annotated[int, doc("queue offsets that were looked at")]
    matched: Annotated[int, doc("messages that were wanted")]
    unreadable: Annotated[int, doc("bodies that a condition was about, and that could not be unpacked")]
    stopped_because: Annotated[str, doc("what ended it")]


class Sieve:
    """``takes`` is None if every message is wanted. ``limit``: the most messages; it may be set on the way.
    ``covered`` says what was read if nothing else ended it."""

    def __init__(self, takes: TakesMessage | None = None, limit: int | None = None):
        self.scanned_count = self.matched_count = self.unreadable_count = 0
        self.stopped: str | None = None
        self.limit = limit
        self.covered = "the end was reached"
        self._takes = takes
        self._lock = Lock()

    @classmethod
    def by_properties(cls, accepts: AcceptsProperties | None) -> Sieve:
        return cls() if accepts is None else cls(lambda _, properties: accepts(properties))

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.matched_count >= self.limit

    def add_scanned(self, count: int) -> None:
        """Counts examined messages. May be called from any thread, because queues are pulled at the same time."""
        with self._lock:
            self.scanned_count += count

    def passes(self, message: FoundMessage) -> bool:
        """Whether the message is wanted. If a condition needs the body and it cannot be decompressed, the message is
        not."""
        try:
            if self._takes is not None and not self._takes(message.stored, message.properties):
                return False
        except ProtocolError:
            self.unreadable_count += 1
            return False
        self.matched_count += 1
        return True

    def end(self) -> None:
        """Records that what was asked for was read, or that there are enough."""
        self.stopped = f"--limit {self.limit} was reached" if self.is_full else self.covered

    def end_by(self, error: BaseException) -> None:
        """Records that an error or interruption ended it."""
        if isinstance(error, KeyboardInterrupt):
            self.stopped = "Ctrl-C was pressed"
        elif not isinstance(error, BrokenPipeError):
            self.stopped = "an error ended it"

    def row(self) -> SieveRow:
        return SieveRow(
            scanned=self.scanned_count,
            matched=self.matched_count,
            unreadable=self.unreadable_count,
            stopped_because=self.stopped or "nobody reads on",
        )

    def __str__(self) -> str:
        row = self.row()
        unreadable = f", {row.unreadable:,} bodies could not be unpacked" if row.unreadable else ""
        return f"scanned {row.scanned:,}, matched {row.matched:,}{unreadable}, stopped because {row.stopped_because}"
