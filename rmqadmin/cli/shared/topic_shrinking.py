"""``updateTopic --shrink-to``: takes queues from a topic in safe steps. Each call goes as far as is safe now, and says
what the rest waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.shared.changing import change
from rmqadmin.core.changes import KEEP, ChangeRow, Changes, FieldChange
from rmqadmin.core.topics.shrinking import OUT_OF_REACH, Unconsumed, configs_on, unconsumed, unconsumed_text
from rmqadmin.core.topics.stored_queues import unread_ids
from rmqadmin.core.topics.topic_changes import TopicWish, plan_everywhere
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import UsageError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


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
    has consumed what is in the queues past them. Messages that consumers do not read, because read queues were taken
    before, get their read queues back first. NotFoundError if no broker has the topic; UsageError if it has fewer
    queues on each."""
    configs = configs_on(call.admin, addrs, topic)
    lost = {addr: _out_of_reach(call.admin, addr, config) for addr, config in configs.items()}
    if not any(lost.values()):
        _require_shrink(configs, nums)
    waits, left = list[str](), list[Unconsumed]()
    wishes: dict[tuple[int, int], list[str]] = {}
    for addr, config in configs.items():
        reads, writes = config.read_queue_nums, config.write_queue_nums
        safe_reads = max(reads, min(nums, writes), *(one.queue_id + 1 for one in lost[addr]), 0)
        if writes <= nums and safe_reads == reads:
            continue
        wishes.setdefault((safe_reads, min(nums, writes)), []).append(addr)
        if lost[addr]:
            waits.append(f"{OUT_OF_REACH} with {reads} read queues: {unconsumed_text(lost[addr])}")
        if safe_reads > nums:
            waits.append(_PRODUCERS if writes > nums else _CONSUMERS)
    rows = list[ChangeRow]()
    for (reads, writes), of in wishes.items():
        rows += _changed(call, of, TopicWish(topic=topic, read_queue_nums=reads, write_queue_nums=writes))
    for addr in [addr for addr in configs if not any(addr in of for of in wishes.values())]:
        queue_ids = range(nums, configs[addr].read_queue_nums)
        left_here = unconsumed(call.admin, addr, topic, queue_ids)
        if left_here:
            rows.append(_waiting(addr, queue_ids))
        elif queue_ids:
            done, left_here = _shrunk_read_queues(call, addr, topic, queue_ids)
            rows += done
        left += left_here
    waits += _left_texts(left, topic, nums)
    if not rows:
        rows = [ChangeRow(target=addr, action=KEEP, changes=[], done=not call.dry_run, error=None) for addr in configs]
    waits_for = f"{'; '.join(dict.fromkeys(waits))}. The same command goes on from there" if waits else None
    return Shrunk(rows, waits_for=waits_for, is_dry_run=call.dry_run)


_PRODUCERS = "producers learn within 30 s that there are fewer write queues; only then read queues may go"
_CONSUMERS = "consumers learn within 30 s that there are more read queues; what is in them is waited for"


def _out_of_reach(admin: AdminClient, addr: str, config: TopicConfig) -> list[Unconsumed]:
    """What groups have not consumed in queues that consumers do not read."""
    return unconsumed(admin, addr, config.topic_name, unread_ids(admin, addr, config))


def _left_texts(left: list[Unconsumed], topic: str, nums: int) -> list[str]:
    """Why read queues cannot go yet."""
    texts = [f"not consumed yet: {unconsumed_text(left)}"] if left else []
    if any(one.group is None for one in left):
        texts.append(
            "until a group reads them, only their expiry ends this; to give them up now: rmqadmin updateTopic"
            f" -t '{topic}' -r {nums} -w {nums}, with -b or -c as here"
        )
    return texts


def _require_shrink(configs: Mapping[str, TopicConfig], nums: int) -> None:
    most = max(max(config.read_queue_nums, config.write_queue_nums) for config in configs.values())
    if nums > most:
        topic = next(iter(configs.values())).topic_name
        raise UsageError(
            f"--shrink-to {nums} is no shrink: {topic} has {counted(most, 'queue')} on a broker at most",
            hint=f"More queues: rmqadmin updateTopic -t '{topic}' -r {nums} -w {nums}, with -b or -c as here.",
        )


def _waiting(addr: str, queue_ids: range) -> ChangeRow:
    change = FieldChange("read_queue_nums", queue_ids.stop, queue_ids.start)
    return ChangeRow(target=addr, action="wait", changes=[change], done=False, error=None)


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
