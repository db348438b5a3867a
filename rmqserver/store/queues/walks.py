"""A walk over the units of a queue, for a pull that does not want every message (``DefaultMessageStore.getMessage``,
5.5.0)."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sized
from typing import NamedTuple

from rmqserver.store.queues.consume_queue import RECORD_SIZE_MAX_BYTES, UNIT
from rmqserver.store.results import GetStatus, LogRange, Walk


@functools.lru_cache(maxsize=256)
def sizes_struct(count: int) -> struct.Struct:
    """Unpacks only the record sizes of ``count`` units."""
    return struct.Struct(">" + "8xi8x" * count)


@functools.lru_cache(maxsize=256)
def offsets_struct(count: int) -> struct.Struct:
    """Unpacks only the log offsets of ``count`` units."""
    return struct.Struct(">" + "q12x" * count)


class WalkLimits(NamedTuple):
    """Messages and bytes that a pull takes at most, for records in memory (from a log offset on) and for others; and
    where the log begins. The first message is taken whatever its size."""

    in_memory: tuple[int, int]
    on_disk: tuple[int, int]
    in_memory_from: int
    log_min: int

    def of(self, log_offset: int) -> tuple[int, int]:
        return self.in_memory if log_offset >= self.in_memory_from else self.on_disk


class UnitWalk:
    """Selects by tags codes alone. The wanted records are in ``ranges``. ``seen`` units were looked at, the last one
    that of the record at ``last_log_offset``. ``status`` tells why the last unwanted one was refused."""

    def __init__(self, walk: Walk, limits: WalkLimits):
        self.ranges: list[LogRange] = []
        self._taken: Sized = self.ranges
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self.seen = self.last_log_offset = 0
        self._units = walk.units
        self._accepts_code = walk.wanted.accepts_code
        self._limits = limits
        self._total = 0

    def go(self) -> bool:
        """Walks until a limit is reached or the units end. False if it would have to wait."""
        for log_offset, size, tags_code in UNIT.iter_unpack(self._units):
            if self.ranges and self._is_full(log_offset, size):
                break
            self.seen += 1
            self.last_log_offset = log_offset
            refused = self._first_stage(log_offset, size, tags_code)
            if refused is None:
                self.ranges.append((log_offset, size))
                self._total += size
            else:
                self.status = refused
        return True

    def _is_full(self, log_offset: int, size: int) -> bool:
        count_max, bytes_max = self._limits.of(log_offset)
        return len(self._taken) >= count_max or self._total + size > bytes_max

    def _first_stage(self, log_offset: int, size: int, tags_code: int) -> GetStatus | None:
        """Why the record is refused; None if it is taken."""
        if log_offset < self._limits.log_min or not 0 < size <= RECORD_SIZE_MAX_BYTES:  # removed, a blank, or damaged
            return GetStatus.MESSAGE_WAS_REMOVING
        is_taken = self._accepts_code is None or self._accepts_code(tags_code)
        return None if is_taken else GetStatus.NO_MATCHED_MESSAGE
