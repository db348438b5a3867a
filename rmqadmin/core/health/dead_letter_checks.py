"""Groups with dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmqadmin.core import targets, units
from rmqadmin.core.health.facts import ClusterFacts
from rmqadmin.core.health.health_finding import Check, Grade, HealthFinding
from rmqadmin.core.messages.dead_letters import read_dead_letters
from rmqproto.names import DLQ_PREFIX
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

RECENT_MS = 3_600_000
"""A group gets a warning if its newest dead letter is younger than this."""


def dead_letter_findings(admin: AdminClient, facts: ClusterFacts, now_ms: int) -> Iterator[HealthFinding]:
    names = {topic for master in facts.masters for topic in master.topics or {}}
    topics = sorted(topic for topic in names if topic.startswith(DLQ_PREFIX))
    for topic, found in zip(topics, targets.ask_each(lambda name: read_dead_letters(admin, name), topics), strict=True):
        group = topic.removeprefix(DLQ_PREFIX)
        if found.error is not None:
            yield HealthFinding(grade=Grade.WARNING, check=Check.DEAD_LETTERS, subject=group, what=found.error)
        elif found.depth_count:
            newest_ms = found.newest_ms or 0
            is_recent = now_ms - newest_ms < RECENT_MS
            yield HealthFinding(
                grade=Grade.WARNING if is_recent else Grade.NOTE,
                check=Check.DEAD_LETTERS,
                subject=group,
                what=f"has {counted(found.depth_count, 'dead letter')}, the newest of {units.age(newest_ms, now_ms)}",
                fix=f"rmqadmin dlq show {group}",
            )
