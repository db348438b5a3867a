"""Groups with dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def dead_letter_topics(facts: ClusterFacts, *, of_all: bool) -> list[str]:
    """The dead-letter topics of the masters; where those were not asked for their topics, those that name servers know:
    ``of_all`` clusters, or else of the masters' groups."""
    names = {topic for master in facts.masters for topic in master.topics or {}}
    if any(master.topics is None for master in facts.masters):
        groups = {group for master in facts.masters for group in master.groups or {}}
        registered = {topic for namesrv in facts.answering for topic in namesrv.topics}
        names |= {topic for topic in registered if of_all or topic.removeprefix(DLQ_PREFIX) in groups}
    return sorted(topic for topic in names if topic.startswith(DLQ_PREFIX))


def dead_letter_findings(admin: AdminClient, topics: Sequence[str], now_ms: int) -> Iterator[HealthFinding]:
    for topic, found in zip(topics, targets.ask_each(lambda name: read_dead_letters(admin, name), topics), strict=True):
        group = topic.removeprefix(DLQ_PREFIX)
        if found.error is not None and found.depth_count is None:
            yield HealthFinding(grade=Grade.WARNING, check=Check.DEAD_LETTERS, subject=group, what=found.error)
        elif found.left_count:
            newest_ms = found.newest_ms or 0
            beside = f" that were not redriven, and {found.redriven_count:,} that were" if found.redriven_count else ""
            is_recent = now_ms - newest_ms < RECENT_MS
            yield HealthFinding(
                grade=Grade.WARNING if is_recent else Grade.NOTE,
                check=Check.DEAD_LETTERS,
                subject=group,
                what=f"has {counted(found.left_count, 'dead letter')}{beside}, the newest"
                f" {units.age(newest_ms, now_ms)}",
                fix=f"rmqadmin dlq show {group}",
            )
