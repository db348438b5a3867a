"""What the dumps of all parts have in common: which rows are wanted, and rows in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core.results import R, ResultOf, Row
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.message.record import StoredMessage, decode_record_untrusted

if TYPE_CHECKING:
    from rmqserver.store.checks.found_files import FoundFiles

_FIRST_BATCH_ROWS, _BATCH_ROWS = 20, 500


class DumpWindow(msgspec.Struct, frozen=True):
    """The offsets wanted, from ``begin`` on and below ``end``, of the kind that the part has; None for no bound."""

    begin: int | None = None
    end: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    table: str | None = None

    def has(self, offset: int) -> bool:
        return (self.begin is None or self.begin <= offset) and (self.end is None or offset < self.end)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        return self.topic in (None, topic) and self.queue_id in (None, queue_id)

    def refuse_unused(self, part: str, *used: str) -> None:
        """UsageError for a bound that does not apply to the part."""
        options = {"begin": "--from", "end": "--to", "topic": "--topic", "queue_id": "--queue", "table": "--table"}
        for field, option in options.items():
            if field not in used and getattr(self, field) is not None:
                raise UsageError(f"{option} does not apply to {part}", hint="rmqadmin store dump --help")


def record_at(log: FoundFiles, log_offset: int, size_bytes: int) -> StoredMessage | None:
    """The record at a place of the commit log; None if none of this size is there."""
    try:
        return decode_record_untrusted(log.read(log_offset, size_bytes))
    except ProtocolError:
        return None


class DumpedRows:
    """The first ``limit`` of some rows, in batches. OSErrors of the disk become StorageErrors."""

    def __init__(self, rows: Iterable[Row], limit: int | None):
        self._rows = iter(rows)
        self._limit = limit
        self.problem_count = 0
        self.was_stopped = False
        """Whether there were more than the limit."""

    def batches(self) -> Iterator[Sequence[Row]]:
        from rmqserver.store.disk.disk import storage_error

        left, size = self._limit, _FIRST_BATCH_ROWS
        try:
            while left is None or left > 0:
                batch = list(islice(self._rows, size if left is None else min(size, left)))
                if not batch:
                    return
                self.problem_count += sum(getattr(row, "problem", None) is not None for row in batch)
                yield batch
                size, left = _BATCH_ROWS, None if left is None else left - len(batch)
            self.was_stopped = next(self._rows, None) is not None
        except OSError as error:
            raise storage_error(error, "cannot read", error.filename or "the store") from error


class Dump(ResultOf[R], frozen=True):
    """The base of the dumps. ``rows`` may be called once."""

    found: DumpedRows

    def rows(self) -> Sequence[Row]:
        return [row for batch in self.batches() for row in batch]

    def batches(self) -> Iterator[Sequence[Row]]:
        return self.found.batches()

    def remark(self) -> str | None:
        parts = []
        if self.found.was_stopped:
            parts.append("there is more: stopped by --limit")
        if self.found.problem_count:
            parts.append(f"{self.found.problem_count:,} with a problem: store verify says what it means")
        return "; ".join(parts) or None
