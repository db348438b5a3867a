"""Checks the commit log by itself: where no record can be read, which readable records are odd, which messages are lost
by that, and what a start does about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
from rmqproto.wording import counted
from rmqserver.store.checks.checked_store import CheckedStore, message_count, named_queues
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.checks.log_walk import LogStretch, Reason, RecordHead
from rmqserver.store.checks.queue_check import QueueCheck
from rmqserver.store.log.scan import FoundRecord

_KNOWN_FLAGS = (
    COMPRESSED | MULTI_TAGS | TRANSACTION_MASK | HOSTS_V6 | NEED_UNWRAP | INNER_BATCH
    | COMPRESSION_TYPE_MASK
)  # fmt: skip

# The end of a record with enabledAppendPropCRC=true (MessageExtEncoder, 5.5.0): the checksum of what precedes it, in
# ten digits, the least significant first.
_PROPERTY_CRC = re.compile(rb"__CRC32#\x01(\d{10})\x02\Z")
_PROPERTY_CRC_SIZE = 20


class OddRecord(NamedTuple):
    """A readable record, and why it is odd."""

    record: FoundRecord
    kind: FindingKind
    what: str


@dataclass(slots=True)
class StretchTimes:
    """A stretch without records, and the store times of the records before and behind it."""

    stretch: LogStretch
    before_ms: int | None
    after_ms: int | None = None


class LogCheck:
    """``take`` everything that ``walk`` yields."""

    def __init__(self, start: int, read: Callable[[int, int], bytes]):
        """``read`` returns bytes of the log."""
        self.stretches: list[StretchTimes] = []
        self.odd: list[OddRecord] = []
        self.steps: list[tuple[int, int]] = []
        """Where store times go back: by how much, in ms, and the log offset of the record behind."""
        self.end_offset = start
        self.record_count = 0
        self.last_ms: int | None = None
        self.last_offset: int | None = None
        """Log offset of the last record."""
        self._read = read

    def take(self, portion: Sequence[FoundRecord]) -> None:
        times = [found.store_timestamp_ms for found in portion]
        last_ms = times[0] if self.last_ms is None else self.last_ms
        if last_ms > times[0] or times != sorted(times):
            for found, before_ms in zip(portion, (last_ms, *times), strict=False):
                if found.store_timestamp_ms < before_ms:
                    self.steps.append((before_ms - found.store_timestamp_ms, found.log_offset))
        if self.stretches and self.stretches[-1].after_ms is None:
            self.stretches[-1].after_ms = times[0]
        for found in portion:
            properties = found.properties
            if 0 in properties:
                self.odd.append(OddRecord(found, FindingKind.RECORD_TORN, "zeros in the properties"))
            elif what := self._odd_properties(found):
                self.odd.append(OddRecord(found, FindingKind.RECORD_PROPERTIES, what))
            if found.sys_flag & ~_KNOWN_FLAGS:
                self.odd.append(OddRecord(found, FindingKind.RECORD_FLAGS, f"sysFlag {found.sys_flag:#x}"))
        newest = portion[-1]
        self.end_offset = newest.log_offset + newest.size_bytes
        self.last_ms, self.last_offset = newest.store_timestamp_ms, newest.log_offset
        self.record_count += len(portion)

    def take_stretch(self, stretch: LogStretch) -> None:
        self.stretches.append(StretchTimes(stretch, self.last_ms))

    def _odd_properties(self, found: FoundRecord) -> str:
        """What is odd about them; empty if nothing is."""
        properties = found.properties
        if properties.count(1) == properties.count(2) and properties.isascii() and b"__CRC32#" not in properties:
            return ""
        has_open_end = properties.count(1) == properties.count(2) + 1 and not properties.endswith(b"\x02")
        if properties.count(1) != properties.count(2) and not has_open_end:  # 4.x leaves the last separator out
            return "separators in the properties do not pair"
        try:
            properties.decode()
        except UnicodeDecodeError:
            return "the properties are not UTF-8"
        if (crc := _PROPERTY_CRC.search(properties)) is not None:
            data = self._read(found.log_offset, found.size_bytes - _PROPERTY_CRC_SIZE)
            if int(crc[1][::-1]) != body_crc(data):
                return "the record does not have the checksum in its properties"
        return ""


TIME_STEP_WARNED_MS = 3_600_000
"""A clock correction goes back by less."""


def add_all(checked: CheckedStore, records: LogCheck, queues: QueueCheck) -> None:
    for each in records.stretches:
        _add_stretch(checked, records, queues, each)
    for odd in records.odd:
        _add_odd(checked, *odd)
    _add_lost_end(checked, records, queues)
    _add_times(checked, records)


def _add_stretch(checked: CheckedStore, records: LogCheck, queues: QueueCheck, each: StretchTimes) -> None:
    stretch, record = each.stretch, each.stretch.record
    lost = queues.lost.get(stretch.log_offset, {})
    what = f"{stretch.reason}: {counted(stretch.end_offset - stretch.log_offset, 'byte')}"
    where = {}
    begin_ms, end_ms = each.before_ms, each.after_ms
    lost_messages = message_count(lost) or int(stretch.head is not None)
    if record is not None:
        where = {"topic": record.topic, "queue_id": record.queue_id, "queue_offset": record.queue_offset}
        begin_ms = end_ms = record.store_timestamp_ms
        lost_messages = int(stretch.reason is not Reason.PLACE)
    elif lost:
        what += f"; {counted(lost_messages, 'message')}: {named_queues(lost)}"
    elif stretch.head is not None:
        what += f"; a message of {_likely_queue(queues, stretch.head)}, offset {stretch.head.queue_offset}"
        begin_ms = end_ms = stretch.head.store_timestamp_ms
    stretches, end = [each.stretch for each in records.stretches], records.end_offset
    checked.add_of_log(
        Severity.WARNING if stretch.is_tail and not lost_messages else Severity.ERROR,
        FindingKind.LOG_TAIL if stretch.is_tail else FindingKind.LOG_DAMAGE, what, stretch.log_offset,
        lost_messages=lost_messages, begin_ms=begin_ms, end_ms=end_ms,
        ours=checked.ours.what_becomes_of(stretch, stretches, end),
        apache=checked.apache.what_becomes_of(stretch, stretches, end), **where,
    )  # fmt: skip


def _likely_queue(queues: QueueCheck, head: RecordHead) -> str:
    """A header has no topic; often only one queue continues with its offset."""
    likely = [
        queue
        for queue in queues.queues.values()
        if queue.queue_id == head.queue_id and queue.next_offset == head.queue_offset
    ]
    return f"what is most likely {likely[0].topic}-{head.queue_id}" if len(likely) == 1 else f"a queue {head.queue_id}"


def _add_odd(checked: CheckedStore, record: FoundRecord, kind: FindingKind, what: str) -> None:
    is_cut = not checked.ours.refusal and record.log_offset >= checked.ours.end_offset
    checked.add_of_log(
        Severity.ERROR if kind is FindingKind.RECORD_TORN else Severity.WARNING, kind, what, record.log_offset,
        topic=record.topic, queue_id=record.queue_id, queue_offset=record.queue_offset,
        begin_ms=record.store_timestamp_ms, end_ms=record.store_timestamp_ms,
        becomes=("cuts the log off here" if is_cut else "serves it as it is", "serves it as it is"),
    )  # fmt: skip


def _add_lost_end(checked: CheckedStore, records: LogCheck, queues: QueueCheck) -> None:
    """Messages that queues know, but that would lie behind the end of the log."""
    end = records.end_offset
    lost = queues.lost.get(end, {})
    if checked.found.is_in_use or not lost or any(each.stretch.log_offset == end for each in records.stretches):
        return
    count = message_count(lost)
    checked.add_of_log(
        Severity.ERROR, FindingKind.LOG_LOST,
        f"the log ends here; consume queues know {counted(count, 'message')} behind: {named_queues(lost)}", end,
        lost_messages=count, begin_ms=records.last_ms, becomes="forgets them",
    )  # fmt: skip


def _add_times(checked: CheckedStore, records: LogCheck) -> None:
    if steps := records.steps:
        largest_ms, log_offset = max(steps)
        checked.add_of_log(
            Severity.WARNING if largest_ms >= TIME_STEP_WARNED_MS else Severity.NOTE, FindingKind.RECORD_TIME,
            f"store times go back {counted(len(steps), 'time')}, by {largest_ms:,} ms at most: searches by "
            "time may miss messages there", log_offset, count=len(steps), becomes="nothing",
        )  # fmt: skip
