"""Checks the commit log by itself: where no record can be read, and which readable records are odd."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rmqproto.message.record import body_crc
from rmqproto.message.sys_flag import (
    COMPRESSED,
    COMPRESSION_TYPE_MASK,
    HOSTS_V6,
    INNER_BATCH,
    MULTI_TAGS,
    NEED_UNWRAP,
    TRANSACTION_MASK,
)
from rmqserver.store.checks.log_walk import LogStretch
from rmqserver.store.log.scan import FoundRecord

_KNOWN_FLAGS = (
    COMPRESSED | MULTI_TAGS | TRANSACTION_MASK | HOSTS_V6 | NEED_UNWRAP | INNER_BATCH
    | COMPRESSION_TYPE_MASK
)  # fmt: skip

# The end of a record with enabledAppendPropCRC=true (MessageExtEncoder, 5.5.0): the checksum of what precedes it, in
# ten digits, the least significant first.
_PROPERTY_CRC = re.compile(rb"__CRC32#\x01(\d{10})\x02\Z")
_PROPERTY_CRC_SIZE = 20


@dataclass(slots=True)
class OddRecord:
    """A readable record, and why it is odd."""

    record: FoundRecord
    what: str
    is_torn: bool = False
    is_flag: bool = False


@dataclass(slots=True)
class StretchTimes:
    """A stretch without records, and the store times of the records before and behind it."""

    stretch: LogStretch
    before_ms: int | None
    after_ms: int | None = None


@dataclass(slots=True)
class TimeSteps:
    """Where store times go back: how often, by how much at most, and behind which record that was."""

    count: int = 0
    largest_ms: int = 0
    log_offset: int = 0


class LogCheck:
    """``take`` everything that ``walk`` yields."""

    def __init__(self, start: int, read: Callable[[int, int], bytes]):
        """``read`` returns bytes of the log."""
        self.stretches: list[StretchTimes] = []
        self.odd: list[OddRecord] = []
        self.steps = TimeSteps()
        self.end_offset = start
        self.record_count = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.last_offset: int | None = None
        """Log offset of the last record."""
        self._read = read

    def take(self, portion: Sequence[FoundRecord]) -> None:
        newest = portion[-1]
        if self.first_ms is None:
            self.first_ms = portion[0].store_timestamp_ms
        if self.stretches and self.stretches[-1].after_ms is None:
            self.stretches[-1].after_ms = portion[0].store_timestamp_ms
        self._check_times(portion)
        for found in portion:
            properties = found.properties
            if 0 in properties:
                self.odd.append(OddRecord(found, "zeros in the properties", is_torn=True))
            elif properties.count(1) != properties.count(2) or not properties.isascii() or b"__CRC32#" in properties:
                self._look_closer(found)
            if found.sys_flag & ~_KNOWN_FLAGS:
                self.odd.append(OddRecord(found, f"sysFlag {found.sys_flag:#x}", is_flag=True))
        self.end_offset = newest.log_offset + newest.size_bytes
        self.last_ms, self.last_offset = newest.store_timestamp_ms, newest.log_offset
        self.record_count += len(portion)

    def take_stretch(self, stretch: LogStretch) -> None:
        self.stretches.append(StretchTimes(stretch, self.last_ms))

    def _check_times(self, portion: Sequence[FoundRecord]) -> None:
        times = [found.store_timestamp_ms for found in portion]
        last = self.last_ms if self.last_ms is not None else times[0]
        if last <= times[0] and times == sorted(times):
            return
        for found in portion:
            step = last - found.store_timestamp_ms
            last = found.store_timestamp_ms
            if step > 0:
                self.steps.count += 1
                if step > self.steps.largest_ms:
                    self.steps.largest_ms, self.steps.log_offset = step, found.log_offset

    def _look_closer(self, found: FoundRecord) -> None:
        properties = found.properties
        has_open_end = properties.count(1) == properties.count(2) + 1 and not properties.endswith(b"\x02")
        if properties.count(1) != properties.count(2) and not has_open_end:  # 4.x leaves the last separator out
            self.odd.append(OddRecord(found, "separators in the properties do not pair"))
            return
        try:
            properties.decode()
        except UnicodeDecodeError:
            self.odd.append(OddRecord(found, "the properties are not UTF-8"))
            return
        if (crc := _PROPERTY_CRC.search(properties)) is not None:
            data = self._read(found.log_offset, found.size_bytes - _PROPERTY_CRC_SIZE)
            if int(crc[1][::-1]) != body_crc(data):
                self.odd.append(OddRecord(found, "the record does not have the checksum in its properties"))
