"""Faults of the commit log, which messages are lost by them, and what a start does about them."""

from __future__ import annotations

from rmqproto.wording import counted
from rmqserver.store.checks.checked_store import CheckedStore, LogStart, message_count, named_queues
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.checks.log_check import OddRecord, StretchTimes
from rmqserver.store.checks.log_walk import LogStretch, Reason, RecordHead

TIME_STEP_WARNED_MS = 3_600_000
"""A clock correction goes back by less."""


def add_all(checked: CheckedStore) -> None:
    for each in checked.records.stretches:
        _add_stretch(checked, each)
    for odd in checked.records.odd:
        _add_odd(checked, odd)
    _add_lost_end(checked)
    _add_times(checked)


def _add_stretch(checked: CheckedStore, each: StretchTimes) -> None:
    stretch, record = each.stretch, each.stretch.record
    lost = checked.queues.lost.get(stretch.log_offset, {})
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
        what += f"; a message of {_likely_queue(checked, stretch.head)}, offset {stretch.head.queue_offset}"
        begin_ms = end_ms = stretch.head.store_timestamp_ms
    checked.add_of_log(
        Severity.WARNING if stretch.is_tail and not lost_messages else Severity.ERROR,
        FindingKind.LOG_TAIL if stretch.is_tail else FindingKind.LOG_DAMAGE, what, stretch.log_offset,
        lost_messages=lost_messages, begin_ms=begin_ms, end_ms=end_ms, ours=_becomes(checked, checked.ours, stretch),
        apache=_becomes(checked, checked.apache, stretch), **where,
    )  # fmt: skip


def _likely_queue(checked: CheckedStore, head: RecordHead) -> str:
    """A header has no topic; often only one queue continues with its offset."""
    queues = [
        queue
        for queue in checked.queues.queues.values()
        if queue.queue_id == head.queue_id and queue.next_offset == head.queue_offset
    ]
    return f"what is most likely {queues[0].topic}-{head.queue_id}" if len(queues) == 1 else f"a queue {head.queue_id}"


def _becomes(checked: CheckedStore, start: LogStart, stretch: LogStretch) -> str:
    stretches = [each.stretch for each in checked.records.stretches]
    text = start.what_becomes_of(stretch, stretches)
    behind = checked.records.end_offset - stretch.end_offset
    if start.cuts_at(stretch, stretches) and behind > 0:
        text += f", with {counted(behind, 'byte')} of records behind it"
    return text


def _add_odd(checked: CheckedStore, odd: OddRecord) -> None:
    record = odd.record
    kind = (
        FindingKind.RECORD_TORN
        if odd.is_torn
        else FindingKind.RECORD_FLAGS
        if odd.is_flag
        else FindingKind.RECORD_PROPERTIES
    )
    is_cut = not checked.ours.refusal and record.log_offset >= checked.ours.end_offset
    checked.add_of_log(
        Severity.ERROR if odd.is_torn else Severity.WARNING, kind, odd.what, record.log_offset, topic=record.topic,
        queue_id=record.queue_id, queue_offset=record.queue_offset, begin_ms=record.store_timestamp_ms,
        end_ms=record.store_timestamp_ms,
        becomes=("cuts the log off here" if is_cut else "serves it as it is", "serves it as it is"),
    )  # fmt: skip


def _add_lost_end(checked: CheckedStore) -> None:
    """Messages that queues know, but that would lie behind the end of the log."""
    end = checked.records.end_offset
    lost = checked.queues.lost.get(end, {})
    if not lost or any(each.stretch.log_offset == end for each in checked.records.stretches):
        return
    count = message_count(lost)
    checked.add_of_log(
        Severity.ERROR, FindingKind.LOG_LOST,
        f"the log ends here; consume queues know {counted(count, 'message')} behind: {named_queues(lost)}", end,
        lost_messages=count, begin_ms=checked.records.last_ms, becomes="forgets them",
    )  # fmt: skip


def _add_times(checked: CheckedStore) -> None:
    steps = checked.records.steps
    if not steps.count:
        return
    checked.add_of_log(
        Severity.WARNING if steps.largest_ms >= TIME_STEP_WARNED_MS else Severity.NOTE, FindingKind.RECORD_TIME,
        f"store times go back {counted(steps.count, 'time')}, by {steps.largest_ms:,} ms at most: searches by "
        "time may miss messages there", steps.log_offset, count=steps.count, becomes="nothing",
    )  # fmt: skip
