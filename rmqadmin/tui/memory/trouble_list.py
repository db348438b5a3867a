"""What is wrong now and since when. Each beginning and end goes into the log of changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from rmqadmin.core.groups.queue_owners import without_heading
from rmqadmin.core.health.health_finding import Check
from rmqadmin.core.tables.marks import Mark
from rmqadmin.tui.memory.changes import ChangeLog, Subject, SubjectKind
from rmqadmin.tui.memory.troubles import Rule, Trouble

_ENDED: dict[str, str] = {
    Rule.GONE: "is back", Rule.SILENT: "answers again", Rule.INACTIVE: "is active again",
    Rule.CLOSED: "has its write permission again",
    Rule.DISK: "has room on its disk again", Rule.LOG_HELD: "takes sends again", Rule.SENDS_WAIT: "takes sends again",
    Rule.SLOW: "puts are quick again", Rule.OFFLINE: "is online, or has nothing to consume",
    Rule.STUCK: "consumes again, or its lag no longer grows",
    Rule.BEHIND: "catches up",
    Rule.RETENTION: "what it has not consumed is safe again, or was deleted",
    Check.IN_SYNC: "its brokers are in sync again", Check.MASTERS: "has one master again",
    Check.REPLICA_LAG: "follows its master again", Check.CONTROLLERS: "controllers answer and agree again",
}  # fmt: skip
"""What the log says when a trouble ends. Dead letters are logged as they come."""

_FROM_MEMBERS: frozenset[str] = frozenset({Rule.SHARING, Rule.OFFLINE})
"""Troubles that can only be judged once a group's members have been read."""


_KINDS = tuple(SubjectKind)
_SERVERS = (SubjectKind.NAME_SERVER, SubjectKind.BROKER, SubjectKind.BROKER_SET)


class TroubleLine(msgspec.Struct, frozen=True):
    trouble: Trouble
    since_ms: int


class TroubleList:
    """Troubles by subject. Those found in the first reading of a subject are not logged, because they are no change."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._lines: dict[Subject, dict[str, TroubleLine]] = {}
        self._looked_at: set[tuple[Subject, bool]] = set()

    def judge(
        self,
        at_ms: int,
        subject: Subject,
        troubles: Iterable[Trouble],
        *,
        unknown: Collection[str] = (),
        by_members: bool = False,
        shared: str = "",
    ) -> None:
        """Sets everything that is wrong with a subject now. ``unknown``: rules that could not be checked, so the end of
        their troubles is not logged. ``by_members``: whether its members have been asked. ``shared``: how its queues
        are assigned, in words."""
        before = self._lines.pop(subject, {})
        after: dict[str, TroubleLine] = {}
        for trouble in troubles:
            known = before.get(trouble.rule)
            after[trouble.rule] = TroubleLine(trouble, at_ms if known is None else known.since_ms)
            is_change = (subject, trouble.rule in _FROM_MEMBERS) in self._looked_at
            if known is None and is_change and trouble.rule is not Rule.GROWING:
                self._log.add(at_ms, subject, "is gone" if trouble.rule is Rule.GONE else trouble.text, trouble.mark)
        for rule in before.keys() - after.keys() - set(unknown):
            ended = without_heading(shared) if rule == Rule.SHARING else _ENDED.get(rule)
            if ended is not None:
                self._log.add(at_ms, subject, ended, Mark.GOOD)
        if after:
            self._lines[subject] = after
        self._looked_at.add((subject, False))
        if by_members:
            self._looked_at.add((subject, True))

    def of(self, subject: Subject) -> list[Trouble]:
        """What is wrong with a subject, the worst first."""
        found = [line.trouble for line in self._lines.get(subject, {}).values()]
        return sorted(found, key=lambda one: one.mark is not Mark.BAD)

    def keep(self, kind: SubjectKind, names: Iterable[str]) -> None:
        """Drops the troubles of subjects that no longer exist, without a log entry."""
        kept = set(names)
        for subject in [one for one, _ in self._looked_at if one.kind is kind and one.name not in kept]:
            self._lines.pop(subject, None)
            self._looked_at -= {(subject, False), (subject, True)}

    def lines(self) -> list[TroubleLine]:
        return [line for by_rule in self._lines.values() for line in by_rule.values()]


def worst_first(lines: Iterable[TroubleLine]) -> list[TroubleLine]:
    """Sorts troubles, the worst first: then servers before what is on them, as they are often its cause, and the
    longest first."""

    def rank(line: TroubleLine) -> tuple[bool, bool, int, int, str]:
        subject = line.trouble.subject
        is_server = subject.kind in _SERVERS
        is_bad = line.trouble.mark is Mark.BAD
        return not is_bad, is_bad and not is_server, line.since_ms, _KINDS.index(subject.kind), subject.name

    return sorted(lines, key=rank)
