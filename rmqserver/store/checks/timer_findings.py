"""Faults of timers, and whether a start repairs them."""

from __future__ import annotations

from rmqproto.names import TIMER_TOPIC
from rmqserver.store.checks.checked_store import CheckedStore
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.checks.wheel_check import WheelCheck

MENDED = "brings wheel and timer log together again"
LEFT = "leaves it"


def add_all(checked: CheckedStore, wheel: WheelCheck, now_ms: int) -> None:
    queue = checked.queues.queues.get((TIMER_TOPIC, 0))
    queue_end = queue.end_offset if queue is not None else 0
    faults = list(wheel.faults(checked.found.disk, queue_end, now_ms))
    left = _left_by_a_start(checked, wheel, queue_end, now_ms) if faults else None
    for fault in faults:
        is_mended = left is not None and fault.kind not in left
        is_usual = is_mended and not checked.found.is_clean
        becomes = MENDED if is_mended else LEFT
        is_light = is_mended or fault.is_doubt
        checked.add(
            Severity.NOTE if is_usual else Severity.WARNING if is_light else Severity.ERROR, fault.kind, fault.what,
            fault.path, log_offset=fault.log_offset, topic=TIMER_TOPIC,
            lost_messages=0 if is_mended else fault.lost_messages, end_ms=fault.due_ms, becomes=becomes,
        )  # fmt: skip


def _left_by_a_start(checked: CheckedStore, wheel: WheelCheck, queue_end: int, now_ms: int) -> set[FindingKind] | None:
    """The kinds of faults that remain after a start of our broker; None if it refuses."""
    if checked.dry.refusal is not None:
        return None
    return {fault.kind for fault in wheel.faults(checked.dry.disk, queue_end, now_ms)}
