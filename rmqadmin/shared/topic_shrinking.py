"""``updateTopic --shrink-to``: takes queues from a topic in safe steps. Each call goes as far as is safe now, and says
what the rest waits for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rmqadmin.call import Call
from rmqadmin.core.changes import KEEP, ChangeRow, Changes, FieldChange
from rmqadmin.core.topics.shrinking import Unconsumed, configs_on, unconsumed, unconsumed_text
from rmqadmin.core.topics.topic_changes import TopicWish, plan_everywhere
from rmqadmin.shared.changing import change


class Shrunk(Changes, frozen=True):
    """What was changed, or would be. ``waits_for``: why that is not all."""

    waits_for: str | None = None
    is_dry_run: bool = False

    def remark(self) -> str | None:
        return self.waits_for if self.is_dry_run else super().remark()

    def problem(self) -> str | None:
        return super().problem() or (None if self.is_dry_run else self.waits_for)


def shrink(call: Call, addrs: Sequence[str], topic: str, nums: int) -> Shrunk:
    """Fewer write queues on the brokers that have more than ``nums``; on the others fewer read queues, once every group
    has consumed what is in the queues past them. NotFoundError if no broker has the topic."""
    configs = configs_on(call.admin, addrs, topic)
    written = [addr for addr, config in configs.items() if config.write_queue_nums > nums]
    read = {
        addr: range(nums, config.read_queue_nums)
        for addr, config in configs.items()
        if addr not in written and config.read_queue_nums > nums
    }
    rows = _shrunk_write_queues(call, written, topic, nums)
    waits = []
    if any(configs[addr].read_queue_nums > nums for addr in written):
        waits.append("producers learn within 30 s that there are fewer write queues; only then read queues may go")
    left: list[Unconsumed] = []
    for addr, queue_ids in read.items():
        left_here = unconsumed(call.admin, addr, topic, queue_ids)
        if left_here:
            rows.append(_waiting(addr, queue_ids))
        else:
            done, left_here = _shrunk_read_queues(call, addr, topic, queue_ids)
            rows += done
        left += left_here
    if left:
        waits.append(f"not consumed yet: {unconsumed_text(left)}")
    if not rows:
        rows = [ChangeRow(target=addr, action=KEEP, changes=[], done=not call.dry_run, error=None) for addr in configs]
    waits_for = f"{'; '.join(waits)}. The same command goes on from there" if waits else None
    return Shrunk(rows, waits_for=waits_for, is_dry_run=call.dry_run)


def _waiting(addr: str, queue_ids: range) -> ChangeRow:
    change = FieldChange("read_queue_nums", queue_ids.stop, queue_ids.start)
    return ChangeRow(target=addr, action="wait", changes=[change], done=False, error=None)


def _shrunk_write_queues(call: Call, addrs: Sequence[str], topic: str, nums: int) -> list[ChangeRow]:
    if not addrs:
        return []
    return _changed(call, addrs, TopicWish(topic=topic, write_queue_nums=nums))


def _shrunk_read_queues(
    call: Call, addr: str, topic: str, queue_ids: range
) -> tuple[list[ChangeRow], list[Unconsumed]]:
    """Takes the read queues, whose messages are all consumed. If some came meanwhile, gives the queues back: what is
    left to consume."""
    rows = _changed(call, [addr], TopicWish(topic=topic, read_queue_nums=queue_ids.start))
    if call.dry_run:
        return rows, []
    left = unconsumed(call.admin, addr, topic, queue_ids)
    if left:
        rows += _changed(call, [addr], TopicWish(topic=topic, read_queue_nums=queue_ids.stop))
    return rows, left


def _changed(call: Call, addrs: Sequence[str], wish: TopicWish) -> list[ChangeRow]:
    steps = plan_everywhere(call.admin, addrs, wish).steps
    silent = [msgspec.structs.replace(step, warnings=[]) for step in steps]  # what is left there is consumed
    return list(change(call, silent, lambda _done: "").found)
