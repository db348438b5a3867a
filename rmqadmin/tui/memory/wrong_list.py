"""What is wrong now and since when. Each beginning and end goes into the log of changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.tables.marks import BY_GRADE, Mark
from rmqadmin.tui.memory.history import ChangeLog

_ENDED: dict[str, str] = {
    Check.REACHABLE: "answers again", Check.NAME_SERVER: "answers again", Check.SERVING: "is active again",
    Check.PERMISSION: "has its write permission again", Check.DISK: "has room on its disk again",
    Check.PUTS: "takes sends again, and quickly", Check.LAG: "catches up, or has nothing to consume",
    Check.STUCK: "consumes again, or its lag no longer grows",
    Check.RETENTION: "what it has not consumed is safe again, or was deleted",
    Check.SUBSCRIPTIONS: "its members subscribe to the same again",
    Check.QUEUE_OWNERS: "each queue has one owner again", Check.MEMBERS: "all members answer again",
    Check.IN_SYNC: "its brokers are in sync again", Check.MASTERS: "has one master again",
    Check.REPLICA_LAG: "follows its master again", Check.CONTROLLERS: "controllers answer and agree again",
}  # fmt: skip
"""What the log says when a finding ends. Dead letters are logged as they come."""

FROM_MEMBERS: frozenset[str] = frozenset({Check.SUBSCRIPTIONS, Check.QUEUE_OWNERS, Check.MEMBERS})
"""What can only be judged once a group's members have been read."""

_KINDS = tuple(SubjectKind)
_SERVERS = (SubjectKind.NAME_SERVER, SubjectKind.BROKER, SubjectKind.BROKER_SET)


class Wrong(msgspec.Struct, frozen=True):
    """``is_old``: it was so when last asked, and now nobody knows. ``place``: among those of one check."""

    finding: Finding
    since_ms: int
    is_old: bool = False
    place: int = 0

    @property
    def key(self) -> str:
        subject = self.finding.subject
        return f"{subject.kind}/{subject.name}/{self.finding.check}" + (f"/{self.place}" if self.place else "")


class Verdict(msgspec.Struct, frozen=True):
    """``mark`` is None while that is not known."""

    text: str
    mark: Mark | None


class WrongList:
    """What is wrong, by subject. What was found at the first look, or may have been so while it could not be checked,
    is no change and is not logged."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._lines: dict[Subject, dict[str, list[Wrong]]] = {}
        self._looked_at: set[tuple[Subject, bool]] = set()
        self._unknown: dict[Subject, Collection[str]] = {}

    def judge(
        self,
        at_ms: int,
        subject: Subject,
        findings: Iterable[Finding],
        *,
        unknown: Collection[str] = (),
        stays: Collection[str] = (),
        quiet: Collection[str] = (),
        new: Collection[str] = (),
        by_members: bool = False,
    ) -> None:
        """Sets everything that is wrong with a subject now. ``unknown``: checks that could not be made, so their end is
        not logged; ``stays``: of these, what was found before stays. ``quiet``: checks of which the caller logs
        beginning and end; ``new``: what these find was not so before. ``by_members``: whether its members have been
        asked."""
        before = self._lines.pop(subject, {})
        after: dict[str, list[Wrong]] = {}
        for one in findings:
            if not one.is_bad:
                continue
            known = before.get(one.check)
            since_ms = at_ms if known is None else known[0].since_ms
            is_change = (subject, one.check in FROM_MEMBERS) in self._looked_at
            is_change = one.check in new or (is_change and one.check not in self._unknown.get(subject, ()))
            if known is None and is_change and one.check not in quiet and one.check not in after:
                self._log.add(at_ms, subject, one.what, BY_GRADE[one.grade])
            mine = after.setdefault(one.check, [])
            mine.append(Wrong(one, since_ms, place=len(mine)))
        for check in before.keys() - after.keys():
            if check in stays:
                after[check] = [msgspec.structs.replace(one, is_old=True) for one in before[check]]
            elif check not in unknown and check not in quiet and check in _ENDED:
                self._log.add(at_ms, subject, _ENDED[check], Mark.GOOD)
        if after:
            self._lines[subject] = after
        self._unknown[subject] = unknown
        self._looked_at.add((subject, False))
        if by_members:
            self._looked_at.add((subject, True))

    def of(self, subject: Subject) -> list[Wrong]:
        """What is wrong with a subject, the worst first."""
        found = [line for lines in self._lines.get(subject, {}).values() for line in lines]
        return sorted(found, key=lambda one: one.finding.grade is not Grade.ERROR)

    def keep(self, kind: SubjectKind, names: Iterable[str]) -> None:
        """Drops what is wrong with subjects that no longer exist, without a log entry."""
        kept = set(names)
        for subject in [one for one, _ in self._looked_at if one.kind is kind and one.name not in kept]:
            self._lines.pop(subject, None)
            self._unknown.pop(subject, None)
            self._looked_at -= {(subject, False), (subject, True)}

    def all(self) -> list[Wrong]:
        return [line for subject in self._lines for line in self.of(subject)]


def worst_first(found: Iterable[Wrong]) -> list[Wrong]:
    """The worst first: then servers before what is on them, as they are often its cause, and the longest first."""

    def rank(one: Wrong) -> tuple[bool, bool, int, int, str]:
        subject, is_bad = one.finding.subject, one.finding.grade is Grade.ERROR
        is_server = subject.kind in _SERVERS
        return not is_bad, is_bad and not is_server, one.since_ms, _KINDS.index(subject.kind), subject.name

    return sorted(found, key=rank)
