"""One finding of a check of a cluster: how bad it is, where, and what to do about it."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from rmqadmin.core.terminal_text import wrapped_lines


class Grade(StrEnum):
    """How bad a finding is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"


class Check(StrEnum):
    """The checks of `doctor`; docs/health.md says what each finds."""

    NAME_SERVER = "name-server"
    AGREEMENT = "agreement"
    REACHABLE = "reachable"
    SERVING = "serving"
    PERMISSION = "permission"
    PUTS = "puts"
    TIMERS = "timers"
    CLOCK = "clock"
    DISK = "disk"
    FLUSH = "flush"
    VERSIONS = "versions"
    ROLES = "roles"
    IN_SYNC = "in-sync"
    REPLICA_LAG = "replica-lag"
    MASTERS = "masters"
    CONTROLLERS = "controllers"
    BROKER_NAMES = "broker-names"
    ACCESS = "access"
    ROUTES = "routes"
    TOPICS_EVERYWHERE = "topics-everywhere"
    GROUPS_EVERYWHERE = "groups-everywhere"
    DEAD_LETTERS = "dead-letters"
    RETENTION = "retention"
    SUBSCRIPTIONS = "subscriptions"
    QUEUE_OWNERS = "queue-owners"
    MEMBERS = "members"
    STUCK = "stuck"
    LAG = "lag"
    UNREAD_QUEUES = "unread-queues"
    OFFSETS = "offsets"
    POSITIONS = "positions"


class SubjectKind(StrEnum):
    """The kind of thing that a finding, a change or samples are about."""

    NAME_SERVER = "name server"
    BROKER = "broker"
    BROKER_SET = "set of brokers"
    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"
    DEAD_LETTERS = "dead letters"
    QUEUE = "queue"


class Subject(msgspec.Struct, frozen=True):
    """What something is about. ``name`` is ``NAME/ID`` for a broker; the name of a set of brokers, of its member, or
    the addresses of its controllers; the group for dead letters; ``GROUP: TOPIC/BROKER/ID`` for a queue of a group."""

    kind: SubjectKind
    name: str


class Finding(msgspec.Struct, frozen=True):
    """``what`` is one sentence without its subject. ``fix`` is the command to run, or another remedy; None if there is
    nothing to do. ``check`` is a ``Check``, or ``alert 2`` for the second rule of a user."""

    grade: Grade
    check: Check | str
    subject: Subject
    what: str
    fix: str | None = None

    @property
    def is_bad(self) -> bool:
        """Whether somebody has to do something about it."""
        return self.grade in (Grade.ERROR, Grade.WARNING)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, worst first; those of one grade in the order they were found."""
    grades = list(Grade)
    return sorted(findings, key=lambda finding: grades.index(finding.grade))


_INDENT = 9


def finding_lines(findings: Iterable[Finding], width: int | None) -> Iterator[str]:
    """Findings as people see them: how bad and where, and below that, what to do. Whole lines. ``width`` is that of the
    terminal; None for as wide as it gets."""
    for one in findings:
        yield from wrapped_lines(f"{one.grade:{_INDENT}}{one.subject.name}: {one.what}", width, _INDENT)
        if one.fix is not None:
            yield from wrapped_lines(f"{'':{_INDENT}}fix: {one.fix}", width, _INDENT + len("fix: "))
