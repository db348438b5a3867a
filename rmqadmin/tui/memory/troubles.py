"""What is wrong with a broker, a group or dead letters, by one reading of each: the rules, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from rmqadmin.core.tables.marks import Mark, disk_mark, sharing_mark
from rmqadmin.core.units import at_least, count, duration, elapsed, percent
from rmqadmin.tui.memory.changes import Subject, SubjectKind
from rmqadmin.tui.memory.history import NumberChange
from rmqadmin.tui.memory.readings import BrokerReading, GroupLag, LettersReading, MembersReading

PUT_SLOW_MS = 200
SEND_WAIT_MAX_MS = 200
"""Apache's brokers refuse a send that has waited longer (``waitTimeMillsInSendQueue``)."""

LOG_HELD_MAX_MS = 1000
"""Apache's brokers refuse sends while a put takes longer (``osPageCacheBusyTimeOutMills``)."""

STUCK_AFTER_MS, STUCK_STEADY_AFTER_MS = 60_000, 240_000
"""So long nothing has been consumed: while the lag grows, and while it does not and members are online."""


class Rule(StrEnum):
    """Tells troubles of one subject apart, so that a trouble whose numbers change stays the same one."""

    GONE = "gone"
    SILENT = "silent"
    INACTIVE = "inactive"
    DISK = "disk"
    LOG_HELD = "log held"
    SENDS_WAIT = "sends wait"
    SLOW = "slow"
    SHARING = "sharing"
    OFFLINE = "offline"
    STUCK = "stuck"
    GROWING = "growing"


class Trouble(msgspec.Struct, frozen=True):
    subject: Subject
    rule: Rule
    text: str
    mark: Mark


def of_broker(key: str, reading: BrokerReading, gone: str | None) -> Iterator[Trouble]:
    """``gone``: ``gone 12 s ago`` for a broker that is."""
    subject = Subject(SubjectKind.BROKER, key)
    if gone is not None:
        yield Trouble(subject, Rule.GONE, gone, Mark.BAD)
        return
    if reading.error is not None:
        yield Trouble(subject, Rule.SILENT, reading.error, Mark.BAD)
        return
    if reading.active is False:
        yield Trouble(subject, Rule.INACTIVE, "not active", Mark.BAD)
    if reading.disk_ratio is not None and (mark := disk_mark(reading.disk_ratio)) is not None:
        yield Trouble(subject, Rule.DISK, f"disk {percent(reading.disk_ratio)} full", mark)
    if reading.log_held_ms is not None and reading.log_held_ms > LOG_HELD_MAX_MS:
        held = f"a put has held the commit log for {duration(reading.log_held_ms)}: sends are refused"
        yield Trouble(subject, Rule.LOG_HELD, held, Mark.BAD)
    if reading.send_wait_ms is not None and reading.send_wait_ms > SEND_WAIT_MAX_MS:
        waited = f"sends have waited for {duration(reading.send_wait_ms)}: some are refused"
        yield Trouble(subject, Rule.SENDS_WAIT, waited, Mark.BAD)
    if reading.put_ms is not None and reading.put_ms > PUT_SLOW_MS:
        yield Trouble(subject, Rule.SLOW, f"1 % of puts take more than {duration(reading.put_ms)}", Mark.WARN)


def of_group(
    group: str,
    lag: GroupLag | None,
    members: MembersReading | None,
    lag_change: NumberChange | None,
    eaten: NumberChange | None,
) -> Iterator[Trouble]:
    """``lag_change``, ``eaten``: how its lag, and the sum of its offsets, have changed in the last minutes."""
    subject = Subject(SubjectKind.GROUP, group)
    if members is not None:
        mark = sharing_mark(members.summary)
        if mark in (Mark.BAD, Mark.WARN):
            yield Trouble(subject, Rule.SHARING, f"queues {members.summary}", mark)
        if members.member_ids is not None and not members.member_ids and lag is not None and lag.lag_count:
            yield Trouble(subject, Rule.OFFLINE, f"nobody is online, lag {count(lag.lag_count)}", Mark.WARN)
            return
    if lag is None or not lag.lag_count or lag_change is None or eaten is None or eaten.by != 0:
        return
    nothing = f"nothing consumed for {elapsed(eaten.over_ms)}"
    if lag_change.by > 0 and eaten.over_ms >= STUCK_AFTER_MS:
        text = f"stuck: lag {count(lag.lag_count)} and growing, {nothing}"
        yield Trouble(subject, Rule.STUCK, text, Mark.BAD)
    elif members is not None and members.member_ids and eaten.over_ms >= STUCK_STEADY_AFTER_MS:
        yield Trouble(subject, Rule.STUCK, f"stuck: lag {count(lag.lag_count)}, {nothing}", Mark.WARN)


def of_letters(group: str, reading: LettersReading, growth: NumberChange | None) -> Iterator[Trouble]:
    if growth is not None and growth.by > 0:
        depth = at_least(count(reading.depth_count)) if reading.lacking else count(reading.depth_count)
        letters = "dead letter" if growth.by == 1 else "dead letters"
        text = f"{count(round(growth.by))} new {letters} in {elapsed(growth.over_ms)}, {depth} in all"
        yield Trouble(Subject(SubjectKind.DEAD_LETTERS, group), Rule.GROWING, text, Mark.WARN)
