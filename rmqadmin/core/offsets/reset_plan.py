"""A reset of offsets, from the user's words to the outcome: the goal, each queue before and after, the undo file.

Commands and dashboard show the plan, ask, and carry it out. ``reset`` tells the brokers.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import settle_undo_file
from rmqadmin.core.groups.group_standing import QUEUES_DATED_MAX
from rmqadmin.core.groups.lag import first_waiting_ms
from rmqadmin.core.mqadmin_text import cut
from rmqadmin.core.names import near_name
from rmqadmin.core.offsets import reset, reset_undo
from rmqadmin.core.offsets.reset import BEGIN, END, Goal, QueueReset
from rmqadmin.core.results import TIME, Notice, ResultOf, Row, doc, row_of, some_failed
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.topics.routes import chosen_queues
from rmqadmin.core.units import at_least, count, moment
from rmqproto.bodies.routes import TopicRoute
from rmqproto.bodies.statistics import ConsumeOffset, lag_between
from rmqproto.errors import NotFoundError, RefusedError, UsageError
from rmqproto.times import parse_time, understood
from rmqproto.wording import counted

_COLUMN = 40
_EPOCH_MS_DIGITS = 13


class ResetRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    min_offset: Annotated[int, doc("queue offset of the oldest message", wide=True)]
    max_offset: Annotated[int, doc("queue offset that the next message will get", wide=True)]
    old_offset: Annotated[int | None, doc("queue offset of the group before; unknown if it had none")]
    new_offset: Annotated[
        int | None, doc("queue offset of the group afterwards; unknown if nothing is done", vital=True)
    ]
    old_lag_count: Annotated[int | None, doc("messages to consume before the reset")]
    new_lag_count: Annotated[int | None, doc("messages to consume after the reset")]
    again_count: Annotated[
        int | None, doc("messages that the group has consumed and gets again; none if it moves forward", sparse=True)
    ]
    skipped_count: Annotated[
        int | None,
        doc("messages that the group has not consumed and leaves behind; none if it goes back", sparse=True),
    ]
    oldest_skipped_ms: Annotated[int | None, TIME, doc("when the first of them was stored", sparse=True)]
    done: Annotated[bool, doc("false under --dry-run, and where it failed", vital=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class ResetTotals(Row, frozen=True):
    group: Annotated[str, doc("consumer group")]
    topic: Annotated[str, doc("topic name")]
    old_lag_count: Annotated[int | None, doc("messages to consume before, in queues where that is known")]
    new_lag_count: Annotated[int | None, doc("messages to consume after the reset, in queues where that is known")]
    again_count: Annotated[
        int | None, doc("messages that the group has consumed and gets again, in all queues", sparse=True)
    ]
    skipped_count: Annotated[
        int | None, doc("messages that the group has not consumed and leaves behind, in all queues", sparse=True)
    ]
    oldest_skipped_ms: Annotated[int | None, TIME, doc("when the first of them was stored", sparse=True)]
    unchanged_count: Annotated[
        int | None,
        doc("queues left where they are, because the group had no offset to go back to", sparse=True),
    ]
    undo_file: Annotated[str | None, doc("what `resetOffset --undo` takes back; none under --dry-run")]


class Resets(ResultOf[ResetRow], frozen=True):
    """Each queue before and after."""

    group: str
    topic: str
    queues: list[QueueReset]
    undo_file: str | None = None
    mqadmin_head: str | None = None
    is_one_queue: bool = False

    def rows(self) -> Sequence[ResetRow]:
        return [
            row_of(
                ResetRow,
                one,
                broker_name=one.queue.broker_name,
                queue_id=one.queue.queue_id,
                old_lag_count=None if one.old_offset is None else lag_between(one.old_offset, one.max_offset),
                new_lag_count=None if one.new_offset is None else lag_between(one.new_offset, one.max_offset),
                again_count=one.again_count or None,
                skipped_count=one.skipped_count or None,
            )
            for one in self.queues
        ]

    def summary(self) -> ResetTotals:
        rows = self.rows()
        return row_of(
            ResetTotals,
            self,
            old_lag_count=_sum_of_known([row.old_lag_count for row in rows]),
            new_lag_count=_sum_of_known(_lags_afterwards(rows)),
            again_count=self.again_count or None,
            skipped_count=self.skipped_count or None,
            unchanged_count=sum(row.new_offset is None for row in rows) or None,
        )

    @property
    def again_count(self) -> int:
        return sum(one.again_count for one in self.queues)

    @property
    def skipped_count(self) -> int:
        return sum(one.skipped_count for one in self.queues)

    @property
    def oldest_skipped_ms(self) -> int | None:
        return min((one.oldest_skipped_ms for one in self.queues if one.oldest_skipped_ms is not None), default=None)

    def lag_text(self) -> str:
        """The total lag before and after, with a mark where it lacks queues, how many messages come again, and since
        when those wait that are left behind."""
        rows = self.rows()
        before, after = _total_text([row.old_lag_count for row in rows]), _total_text(_lags_afterwards(rows))
        again = f"; {self.again_text('')}" if self.again_count else ""
        skipped = f"; {count(self.skipped_count)} left behind{self._since()}" if self.skipped_count else ""
        return f"lag in {counted(len(rows), 'queue')}: {before} before, {after} after{again}{skipped}"

    def question(self, words: str) -> str:
        """What is about to happen, as the question to the user. ``words`` describe the goal."""
        skipped = ""
        if self.skipped_count:
            left = "is left" if self.skipped_count == 1 else "are left"
            messages = f"{counted(self.skipped_count, 'message')} that it has not consumed"
            skipped = f" {messages} {left} behind{self._since()}."
        again = f" {self.again_text(' that it has consumed')}." if self.again_count else ""
        return f"This moves the group {self.group} in {self.topic} {words}.{again}{skipped}"

    def _since(self) -> str:
        oldest_ms = self.oldest_skipped_ms
        return "" if oldest_ms is None else f", the oldest of {moment(oldest_ms)}"

    def again_text(self, which: str) -> str:
        return f"{counted(self.again_count, 'message')}{which} come{'s' if self.again_count == 1 else ''} again"

    def remark(self) -> str | None:
        """How many messages come again: what was delivered cannot be taken back."""
        return self.again_text(f" that {self.group} has consumed") if self.again_count else None

    def problem(self) -> str | None:
        return some_failed([one.error for one in self.queues], "queue")

    def mqadmin_text(self) -> str | None:
        if self.mqadmin_head is None:
            return None
        if self.is_one_queue:
            return f"{self.mqadmin_head}\nreset consumer offset to {self.queues[0].new_offset}\n"
        moved = sorted((one.queue, one.new_offset) for one in self.queues)
        lines = [("#brokerName", "#queueId", "#offset")]
        lines += [(cut(queue.broker_name, 32), str(queue.queue_id), str(offset)) for queue, offset in moved]
        table = "".join("  ".join(f"{cell:{_COLUMN}}" for cell in line) + "\n" for line in lines)
        return (self.mqadmin_head and f"{self.mqadmin_head}\n") + table


def _lags_afterwards(rows: Sequence[ResetRow]) -> list[int | None]:
    """Each queue's lag after the reset. A queue that is not moved keeps its lag."""
    return [row.old_lag_count if row.new_offset is None else row.new_lag_count for row in rows]


def _sum_of_known(lag_counts: Sequence[int | None]) -> int | None:
    known = [lag_count for lag_count in lag_counts if lag_count is not None]
    return sum(known) if known else None


def _total_text(lag_counts: Sequence[int | None]) -> str:
    total = _sum_of_known(lag_counts)
    if total is None:
        return "unknown"
    return at_least(count(total)) if None in lag_counts else count(total)


R = TypeVar("R", bound=Resets)


class Destination(msgspec.Struct, frozen=True):
    """Where to move a group. ``words`` complete "This moves the group …"; ``notice``: how a time was understood."""

    goal: Goal
    words: str
    notice: str | None = None


def parse_destination(text: str, now_ms: int) -> Destination:
    """``begin``, ``end``, a queue offset, a time, or ``+N`` or ``-N``: messages from where the group is. A time always
    has a unit. UsageError for anything else."""
    if text.lower() in (BEGIN, END):
        return Destination(Goal(edge=text.lower()), f"to the {text.lower()} of every queue")
    if re.fullmatch(r"[0-9]{1,18}", text):
        if len(text) >= _EPOCH_MS_DIGITS:
            raise UsageError(f"{text} is too large for a queue offset", hint=f"As a time it is @{text}.")
        return Destination(Goal(queue_offset=int(text)), f"to queue offset {text}")
    if re.fullmatch(r"[+-][0-9]{1,18}", text):
        way = "back" if text[0] == "-" else "forward"
        return Destination(Goal(by_count=int(text)), f"{way} by {counted(abs(int(text)), 'message')} in each queue")
    try:
        timestamp_ms = parse_time(text, now_ms)
    except UsageError as error:
        raise UsageError(str(error), hint=f"{error.hint or ''} Or {BEGIN}, {END}, 1200, +10, -10.".strip()) from None
    if timestamp_ms > now_ms:
        hint = f"{END} goes behind the last message."
        raise UsageError(f"{text} is in the future, at {understood(timestamp_ms)}: nothing is stored there", hint=hint)
    said = understood(timestamp_ms)
    return Destination(Goal(timestamp_ms=timestamp_ms), f"to {said}", f"--to {text} is {said}")


def plan_queues(
    admin: AdminClient, route: TopicRoute, group: str, topic: str, goal: Goal, only: Sequence[str] = ()
) -> list[QueueReset]:
    """Each queue of the topic, or of those in ``only`` (``chosen_queues``), before and after. Changes nothing.
    NotFoundError if there is none, and if the group has no offset there that ``by_count`` could count from."""
    found = reset.plan(admin, route, group, topic, reset.offset_finder(admin, goal))
    if not found:
        raise NotFoundError(f"the topic {topic} has no queues")
    if only:
        chosen = chosen_queues(only, [one.queue for one in found])
        found = [one for one in found if one.queue in chosen]
    if all(one.new_offset is None for one in found):
        raise NotFoundError(
            f"the group {group} has no offset in {', '.join(only) or f'the topic {topic}'} to count from",
            hint="Reset it to begin, end, an offset or a time.",
        )
    dated = {one.queue for one in [one for one in found if one.skipped_count][:QUEUES_DATED_MAX]}

    def with_oldest(one: QueueReset) -> QueueReset:
        """With the time of the first message that is left behind."""
        if one.queue not in dated:
            return one
        first = max(one.old_offset or 0, one.min_offset)
        there = ConsumeOffset(broker_offset=one.max_offset, consumer_offset=first)
        oldest_ms = first_waiting_ms(admin, one.broker_addr, one.queue, there)
        return msgspec.structs.replace(one, oldest_skipped_ms=oldest_ms)

    return ask_each(with_oldest, found)


def say_if_unknown(admin: AdminClient, group: str, planned: Sequence[QueueReset], notice: Notice) -> None:
    """A notice if no broker of the topic knows the group, with the name that may have been meant. A group may be given
    offsets before it first consumes, but a mistyped name would leave the group that was meant where it is."""
    if any(one.old_offset is not None for one in planned):
        return
    try:
        addrs = {one.broker_addr for one in planned}
        known = {name for addr in addrs for name in admin.all_groups(addr).subscription_group_table}
    except RefusedError:  # who may move a group need not be allowed to list all
        return
    if group in known:
        return
    near = near_name(group, sorted(known))
    meant = f"; did you mean {near}?" if near else ""
    notice(f"there is no group {group} now{meant}")


def remarks(planned: Sequence[QueueReset], goal: Goal) -> list[str]:
    """Of a reset by a number of messages: the queues that stay as they are, and those that cannot go so far."""
    if goal.by_count is None:
        return []
    said = []
    unknown = sum(one.old_offset is None for one in planned)
    if unknown:
        said.append(f"the group has no offset in {counted(unknown, 'queue')} to count from: nothing is changed there")
    short = sum(one.old_offset is not None and one.new_offset != one.old_offset + goal.by_count for one in planned)
    if short:
        said.append(f"{counted(short, 'queue')} cannot go that far: the group goes to the nearest limit there")
    return said


def only_queue(planned: Sequence[QueueReset], broker: str, queue_id: int) -> list[QueueReset]:
    """The plan of one queue; ``broker`` is the name or address of its broker. NotFoundError if there is none."""
    found = [
        one for one in planned if broker in (one.broker_addr, one.queue.broker_name) and one.queue.queue_id == queue_id
    ]
    if not found:
        topics = {one.queue.topic for one in planned}
        raise NotFoundError(f"the topic {', '.join(topics)} has no queue {queue_id} on {broker}")
    return found


def plan_undo(admin: AdminClient, record: reset_undo.Undo, notice: Notice) -> Resets:
    """The way back of the reset that wrote the undo file, each queue from where the group is now. Changes nothing.
    ``notice`` takes what stays as it is."""
    noted = record.by_queue()
    before = {queue: each.committed_offset for queue, each in noted.items()}
    route = admin.topic_route(record.topic)
    planned = reset.plan(admin, route, record.group, record.topic, lambda _addr, queue, *_: before.get(queue))
    queues = [
        msgspec.structs.replace(one, undone_offset=noted[one.queue].reset_offset)
        for one in planned
        if one.queue in noted
    ]
    unknown = sum(one.new_offset is None for one in queues)
    if unknown:
        notice(f"the group had no offset in {counted(unknown, 'queue')}: nothing is changed there")
    return Resets(record.group, record.topic, queues)


def act(
    admin: AdminClient, planned: R, goal: Goal | None, now_ms: int, notice: Notice, *, only_writes: bool = False
) -> R:
    """Writes the undo file, moves the group and reads its offsets back. ``goal`` and ``only_writes`` are as for
    ``reset.carry_out``. StorageError if the undo file cannot be written; nothing is changed then. After any other error
    the file is gone only if certainly nothing was changed; otherwise the error, or a notice after Ctrl-C, names it."""
    path = reset_undo.write(planned.group, planned.topic, admin.namesrv_addrs, planned.queues, now_ms)
    back = f"rmqadmin resetOffset --undo {shlex.quote(str(path))}"
    try:
        moved = reset.carry_out(admin, planned.group, planned.queues, goal, only_writes=only_writes)
    except BaseException as error:  # Ctrl-C, too
        settle_undo_file(path, error, back, notice)
        raise
    notice(f"to undo this: {back}")
    return msgspec.structs.replace(planned, queues=moved, undo_file=str(path))
