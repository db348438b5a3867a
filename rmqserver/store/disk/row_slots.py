"""Where each row of a table lies in its file, so that a change of one row writes only that row.

The file is the usual JSON with extra blanks: each row lies in a slot, and a slot is one sector. A sector is written
whole or not at all, whether a process is killed or the power fails, so the file is a complete table at every moment.
This file writes nothing itself: it tells what to write, and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

SLOT_BYTES = 512
"""The smallest sector of any device. It divides a page: no write of one slot crosses pages, where a kill could
interrupt it."""

SPARE_SLOTS_MIN = 4
ROWS_PER_SPARE_SLOT = 4
"""A growing table is written whole each time that it has grown by a quarter, so creating rows one by one takes linear
time."""


class Change(NamedTuple):
    """``data`` is to be written at byte ``at`` of the file."""

    at: int
    data: bytes


class RowSlots:
    """The layout of one file with ``rows`` (``"key":value`` by key), and its changes since. ``head`` is the text before
    the first row, ``end`` the text behind the last. Rows that are longer than a slot lie just before ``end``; at least
    one row must fit a slot (``can_hold``)."""

    #   head, blanks up to a whole sector | slots: row, or ,row, or blanks | long rows, each with a comma before it, end
    # The first slot has no comma, so it stays taken.

    def __init__(self, head: bytes, rows: Mapping[str, bytes], end: bytes, spare_count_min: int = SPARE_SLOTS_MIN):
        self._head_size_bytes = -(-len(head) // SLOT_BYTES) * SLOT_BYTES
        self._end = end
        self._long = {key for key, row in rows.items() if not _fits(row)}
        self._slots = {key: slot for slot, key in enumerate(key for key in rows if key not in self._long)}
        count = len(self._slots)
        spare_count = max(spare_count_min, count // ROWS_PER_SPARE_SLOT)
        self._free = list(range(count + spare_count - 1, count - 1, -1))

    @staticmethod
    def can_hold(rows: Mapping[str, bytes]) -> bool:
        """Whether a row fits the first slot."""
        return any(map(_fits, rows.values()))

    def content(self, head: bytes, rows: Mapping[str, bytes]) -> bytes:
        """The whole file, with the head and the rows for which it was laid out."""
        taken = [_slot_text(slot, rows[key]) for key, slot in self._slots.items()]
        blank = b" " * (SLOT_BYTES * len(self._free))
        long = [b",\n" + rows[key] for key in rows if key in self._long]
        return b"".join([head.ljust(self._head_size_bytes), *taken, blank, *long, self._end])

    def changes(self, head: bytes, rows: Iterable[tuple[str, bytes | None]], end: bytes) -> list[Change] | None:
        """What to write, in this order, so that the file has this head and these rows; a row of None is removed.
        Returns None if the file has to be laid out again: this object is of no more use then."""
        if len(head) > SLOT_BYTES or end != self._end:
            return None
        changes = [Change(0, head.ljust(self._head_size_bytes))]
        for key, row in rows:
            change = self._remove(key) if row is None else self._put(key, row)
            if change is None:
                return None
            changes.append(change)
        return changes

    def _put(self, key: str, row: bytes) -> Change | None:
        if key in self._long or not _fits(row):
            return None
        slot = self._slots.get(key)
        if slot is None:
            if not self._free:
                return None
            slot = self._slots[key] = self._free.pop()
        return Change(self._at(slot), _slot_text(slot, row))

    def _remove(self, key: str) -> Change | None:
        slot = self._slots.pop(key, 0)
        if slot == 0:
            return None
        self._free.append(slot)
        return Change(self._at(slot), b" " * SLOT_BYTES)

    def _at(self, slot: int) -> int:
        return self._head_size_bytes + slot * SLOT_BYTES


def _fits(row: bytes) -> bool:
    return len(row) <= SLOT_BYTES - len(b",\n")


def _slot_text(slot: int, row: bytes) -> bytes:
    return ((b",\n" if slot else b"\n") + row).ljust(SLOT_BYTES)
