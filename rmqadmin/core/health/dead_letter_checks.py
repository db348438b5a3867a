"""Groups with dead letters."""

from __future__ import annotations

from collections.abc import Iterator

from rmqadmin.core import units
from rmqadmin.core.health.facts import ClusterFacts
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.messages.dead_letters import DeadLetters
from rmqproto.names import DLQ_PREFIX
from rmqproto.wording import counted

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


def dead_letter_findings(group: str, found: DeadLetters, now_ms: int) -> Iterator[Finding]:
    subject = Subject(SubjectKind.DEAD_LETTERS, group)
    fix = f"rmqadmin dlq show {group}"
    if found.error is not None and found.depth_count is None:
        yield Finding(Grade.WARNING, Check.DEAD_LETTERS, subject, found.error)
    elif found.left_count:
        newest_ms = found.newest_ms or 0
        beside = f" that were not redriven, and {found.redriven_count:,} that were" if found.redriven_count else ""
        grade = Grade.WARNING if now_ms - newest_ms < RECENT_MS else Grade.NOTE
        what = f"has {counted(found.left_count, 'dead letter')}{beside}, the newest {units.age(newest_ms, now_ms)}"
        yield Finding(grade, Check.DEAD_LETTERS, subject, what, fix)


def new_letters_finding(group: str, found: DeadLetters, more: str, *, is_part: bool) -> Finding:
    """For somebody who watches: ``more`` says how many have come in the last minutes. ``is_part``: a broker may have
    others."""
    left = units.count(found.depth_count if found.redriven_count is None else found.left_count)
    what = f"{more}, {units.at_least(left) if is_part else left} {'not redriven' if found.redriven_count else 'in all'}"
    subject = Subject(SubjectKind.DEAD_LETTERS, group)
    return Finding(Grade.WARNING, Check.DEAD_LETTERS, subject, what, f"rmqadmin dlq show {group}")
