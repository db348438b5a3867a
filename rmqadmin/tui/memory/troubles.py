"""The rules that say what is wrong with a broker, a group or dead letters, given one reading of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum

import msgspec

from rmqadmin.core.groups.lag_trend import LAG_AGE_MS, Stuck, stuck
from rmqadmin.core.groups.queue_owners import without_heading
from rmqadmin.core.health.health_finding import Grade, HealthFinding
from rmqadmin.core.tables.marks import Mark, disk_mark, sharing_mark
from rmqadmin.core.units import at_least, count, duration, elapsed, percent, rate
from rmqadmin.tui.memory.changes import Subject, SubjectKind
from rmqadmin.tui.memory.history import NumberChange
from rmqadmin.tui.memory.readings import (
    BrokerReading,
    GroupLag,
    LettersReading,
    MembersReading,
    NameServerReading,
)
from rmqadmin.tui.memory.standstill import Standstill
from rmqproto.wording import counted

PUT_SLOW_MS = 200
SEND_WAIT_MAX_MS = 200
"""Apache's brokers refuse a send that has waited longer (``waitTimeMillsInSendQueue``)."""

LOG_HELD_MAX_MS = 1000
"""Apache's brokers refuse sends while a put takes longer (``osPageCacheBusyTimeOutMills``)."""


BEHIND_OVER_MS = 60_000
"""The shortest time over which a lag is said not to fall."""


class Rule(StrEnum):
    """Identifies a trouble of a subject, so that a trouble whose numbers change stays the same one."""

    GONE = "gone"
    SILENT = "silent"
    INACTIVE = "inactive"
    CLOSED = "closed"
    DISK = "disk"
    LOG_HELD = "log held"
    SENDS_WAIT = "sends wait"
    SLOW = "slow"
    SHARING = "sharing"
    OFFLINE = "offline"
    STUCK = "stuck"
    RETENTION = "retention"
    BEHIND = "behind"
    GROWING = "growing"


class GroupPace(msgspec.Struct, frozen=True):
    """Where a group stands. ``still``: since when it has consumed nothing. ``lag_change``: how its lag has changed in
    the last minutes. ``lag_ms``: how long its oldest message has waited."""

    still: Standstill | None = None
    lag_change: NumberChange | None = None
    lag_ms: int | None = None


class Trouble(msgspec.Struct, frozen=True):
    """Something wrong with a subject. A rule of the user is ``alert 2``, by its position in the file."""

    subject: Subject
    rule: Rule | str
    text: str
    mark: Mark


def of_name_server(addr: str, reading: NameServerReading) -> Iterator[Trouble]:
    if reading.error is not None:
        yield Trouble(Subject(SubjectKind.NAME_SERVER, addr), Rule.SILENT, reading.error, Mark.BAD)


def of_broker(key: str, reading: BrokerReading, gone: str | None, closed_at: Collection[str] = ()) -> Iterator[Trouble]:
    """What is wrong with a broker. ``gone`` is ``gone 12 s ago`` if the broker is gone. ``closed_at``: the name servers
    that tell clients not to send there."""
    subject = Subject(SubjectKind.BROKER, key)
    if gone is not None:
        yield Trouble(subject, Rule.GONE, gone, Mark.BAD)
        return
    if reading.error is not None:
        yield Trouble(subject, Rule.SILENT, reading.error, Mark.BAD)
        return
    if reading.active is False:
        yield Trouble(subject, Rule.INACTIVE, "not active", Mark.BAD)
    if closed_at:
        text = f"no write permission at {', '.join(sorted(closed_at))}: clients that ask there send it nothing"
        yield Trouble(subject, Rule.CLOSED, text, Mark.WARN)
    if reading.disk_ratio is not None and (mark := disk_mark(reading.disk_ratio, reading.disk_limits)):
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
    standing: GroupPace,
    kept_ms: int | None,
    before: Collection[str],
) -> Iterator[Trouble]:
    """What is wrong with a group. ``kept_ms`` is from ``retention.near_ms``. ``before``: rules of its troubles until
    now. One that depends on its members, or on a broker that is lost, stays while they are unknown."""
    subject = Subject(SubjectKind.GROUP, group)
    if kept_ms is not None and lag is not None and lag.lag_count:
        text = f"what it has not consumed may be {deletion_text(kept_ms)}"
        yield Trouble(subject, Rule.RETENTION, text, Mark.WARN if kept_ms > 0 else Mark.BAD)
    if members is not None:
        mark = sharing_mark(members.summary)
        if mark in (Mark.BAD, Mark.WARN):
            yield Trouble(subject, Rule.SHARING, without_heading(members.summary), mark)
    member_ids = None if members is None else members.member_ids
    if lag is None or not (lag.lag_count or lag.lacking):
        return
    offline = _offline_text(lag, member_ids, was_offline=Rule.OFFLINE in before)
    if offline is not None:
        yield Trouble(subject, Rule.OFFLINE, offline, Mark.WARN)
        return
    has_members = Rule.STUCK in before if member_ids is None else bool(member_ids)
    found = _stuck(subject, lag, standing, has_members=has_members, was_stuck=Rule.STUCK in before)
    found = found or _behind(subject, standing)
    if found is not None:
        yield found


def _stuck(
    subject: Subject, lag: GroupLag, standing: GroupPace, *, has_members: bool, was_stuck: bool
) -> Trouble | None:
    if not lag.lag_count:
        text = "was stuck when last asked: how much waits is not known now"
        return Trouble(subject, Rule.STUCK, text, Mark.WARN) if was_stuck else None
    still = standing.still
    if still is None:
        return None
    idle_ms = still.end_ms - still.begin_ms
    how = stuck(lag_grown_count=still.lag_grown_count, idle_ms=idle_ms, has_members=has_members)
    if how is None:
        return None
    grows = how is Stuck.GROWING
    consumed = f"only {count(still.consumed_count)}" if still.consumed_count else "nothing"
    text = f"stuck: lag {_lag_text(lag)}{' and growing' if grows else ''}, {consumed} consumed for at least "
    return Trouble(subject, Rule.STUCK, text + elapsed(idle_ms), Mark.BAD if grows else Mark.WARN)


def _behind(subject: Subject, standing: GroupPace) -> Trouble | None:
    """As doctor's `lag`: messages have waited for long, and their number does not fall."""
    change, lag_ms = standing.lag_change, standing.lag_ms
    if change is None or lag_ms is None or lag_ms < LAG_AGE_MS or change.over_ms < BEHIND_OVER_MS or change.by < 0:
        return None
    how = f"growing, {rate(change.per_s)}/s" if change.by else "not catching up"
    return Trouble(subject, Rule.BEHIND, f"{elapsed(lag_ms)} behind and {how}", Mark.WARN)


def _offline_text(lag: GroupLag, member_ids: Collection[str] | None, *, was_offline: bool) -> str | None:
    """That nobody consumes what waits, or may wait; None if somebody does, or if that was never known."""
    if member_ids or not (was_offline or (member_ids is not None and lag.lag_count)):
        return None
    online = "was online when last asked" if member_ids is None else "is online"
    return f"nobody {online}, lag {_lag_text(lag)}"


def _lag_text(lag: GroupLag) -> str:
    if lag.lacking and not lag.lag_count:
        return "unknown"
    return at_least(count(lag.lag_count)) if lag.lacking else count(lag.lag_count)


def deletion_text(kept_ms: int) -> str:
    """When messages are deleted, in words. ``kept_ms`` is from ``retention.near_ms``."""
    return f"deleted in {duration(kept_ms)}" if kept_ms > 0 else "deleted at any time now"


_OF_SETS = {Grade.ERROR: Mark.BAD, Grade.WARNING: Mark.WARN}


def of_set(name: str, findings: Iterable[HealthFinding]) -> Iterator[Trouble]:
    """What `doctor` finds about a set of brokers, a member or its controllers; ``findings`` are of all sets."""
    for each in findings:
        if each.subject == name and each.grade in _OF_SETS:
            yield Trouble(Subject(SubjectKind.BROKER_SET, name), each.check, each.what, _OF_SETS[each.grade])


def of_letters(group: str, reading: LettersReading, growth: NumberChange | None) -> Iterator[Trouble]:
    if growth is not None and growth.by > 0:
        left = at_least(count(reading.left_count)) if reading.lacking else count(reading.left_count)
        what = "not redriven" if reading.redriven_count else "in all"
        text = f"{counted(round(growth.by), 'new dead letter')} in {elapsed(growth.over_ms)}, {left} {what}"
        yield Trouble(Subject(SubjectKind.DEAD_LETTERS, group), Rule.GROWING, text, Mark.WARN)
