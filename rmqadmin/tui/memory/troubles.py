"""The rules that say what is wrong with a broker, a group or dead letters, given one reading of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum

import msgspec

from rmqadmin.core.groups.lag_trend import Stuck, stuck
from rmqadmin.core.groups.queue_owners import without_heading
from rmqadmin.core.health.health_finding import Grade, HealthFinding
from rmqadmin.core.tables.marks import Mark, disk_mark, sharing_mark
from rmqadmin.core.units import at_least, count, duration, elapsed, percent
from rmqadmin.tui.memory.changes import Subject, SubjectKind
from rmqadmin.tui.memory.history import NumberChange
from rmqadmin.tui.memory.readings import BrokerReading, GroupLag, LettersReading, MembersReading
from rmqproto.wording import counted

PUT_SLOW_MS = 200
SEND_WAIT_MAX_MS = 200
"""Apache's brokers refuse a send that has waited longer (``waitTimeMillsInSendQueue``)."""

LOG_HELD_MAX_MS = 1000
"""Apache's brokers refuse sends while a put takes longer (``osPageCacheBusyTimeOutMills``)."""


class Rule(StrEnum):
    """Identifies a trouble of a subject, so that a trouble whose numbers change stays the same one."""

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
    RETENTION = "retention"
    GROWING = "growing"


class Trouble(msgspec.Struct, frozen=True):
    """Something wrong with a subject. A rule of the user is ``alert 2``, by its position in the file."""

    subject: Subject
    rule: Rule | str
    text: str
    mark: Mark


def of_broker(key: str, reading: BrokerReading, gone: str | None) -> Iterator[Trouble]:
    """What is wrong with a broker. ``gone`` is ``gone 12 s ago`` if the broker is gone."""
    subject = Subject(SubjectKind.BROKER, key)
    if gone is not None:
        yield Trouble(subject, Rule.GONE, gone, Mark.BAD)
        return
    if reading.error is not None:
        yield Trouble(subject, Rule.SILENT, reading.error, Mark.BAD)
        return
    if reading.active is False:
        yield Trouble(subject, Rule.INACTIVE, "not active", Mark.BAD)
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
    lag_change: NumberChange | None,
    eaten: NumberChange | None,
    kept_ms: int | None,
    before: Collection[str],
) -> Iterator[Trouble]:
    """What is wrong with a group. ``lag_change`` and ``eaten``: how its lag and the sum of its offsets have changed in
    the last minutes. ``kept_ms`` is from ``retention.near_ms``. ``before``: rules of its troubles until now. One that
    depends on its members stays while they are unknown."""
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
    if not lag.lag_count or lag_change is None or eaten is None or eaten.by != 0:
        return
    has_members = Rule.STUCK in before if member_ids is None else bool(member_ids)
    how = stuck(lag_grown_count=lag_change.by, idle_ms=eaten.over_ms, has_members=has_members)
    if how is not None:
        grows = how is Stuck.GROWING
        text = f"stuck: lag {_lag_text(lag)}{' and growing' if grows else ''}, nothing consumed for at least "
        yield Trouble(subject, Rule.STUCK, text + elapsed(eaten.over_ms), Mark.BAD if grows else Mark.WARN)


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
