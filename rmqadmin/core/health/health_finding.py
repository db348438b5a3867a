"""One finding of a check of a cluster: how bad it is, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

NAMES_TOLD_MAX = 5


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


class HealthFinding(msgspec.Struct, frozen=True, kw_only=True):
    """``subject`` is the server, topic or group. ``fix`` is the command to run, or another remedy; None if there is
    nothing to do."""

    grade: Grade
    check: Check
    subject: str
    what: str
    fix: str | None = None


def in_order(findings: Iterable[HealthFinding]) -> list[HealthFinding]:
    """The findings, worst first; those of one grade in the order they were found."""
    grades = list(Grade)
    return sorted(findings, key=lambda finding: grades.index(finding.grade))


def names_told(names: Sequence[str]) -> str:
    """Names in short: ``a, b and 7 more``."""
    shown = ", ".join(names[:NAMES_TOLD_MAX])
    left = len(names) - NAMES_TOLD_MAX
    return f"{shown} and {left} more" if left > 0 else shown
