"""What `rmqadmin doctor` checks, step by step, and what it shows."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.files import cache_dir, write_private
from rmqadmin.core.groups.group_standing import GroupStanding, StandingsReader
from rmqadmin.core.health.broker_checks import broker_findings, gone_finding
from rmqadmin.core.health.cluster_checks import (
    cluster_findings,
    controllers_access,
    namesrv_findings,
    read_controller_configs,
)
from rmqadmin.core.health.facts import ClusterFacts, read_facts, with_routes, with_unasked, with_unread_queues
from rmqadmin.core.health.finding import Check, Finding, Grade, finding_lines, in_order
from rmqadmin.core.health.group_checks import (
    dead_letter_findings,
    dead_letter_topics,
    groups_findings,
    position_findings,
    with_positions,
)
from rmqadmin.core.health.ha_checks import ServerFacts, ha_findings, read_settled, registered_brokers
from rmqadmin.core.health.topic_checks import topic_findings, topics_to_route, write_permission_findings
from rmqadmin.core.messages.dead_letters import DeadLetters, read_dead_letters
from rmqadmin.core.results import ResultOf, Row, doc
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.servers.ha_sets import HaFacts, read_ha
from rmqproto.names import DLQ_PREFIX
from rmqproto.wording import counted

MISSED_FOR_MS = 24 * 3_600_000
"""How long a broker is missed. Who takes one out on purpose hears of it for a day."""

FILES_MAX = 16
"""How many sets of name servers are remembered, the newest. Test servers, each on a new port, would leave one each."""


class ListedBroker(msgspec.Struct, frozen=True):
    cluster: str
    broker_addr: str
    seen_ms: int


Seen = dict[str, ListedBroker]
"""``broker-a/0`` -> when it was last seen."""


def missing_findings(facts: ClusterFacts, seen: Mapping[str, ListedBroker], now_ms: int) -> Iterator[Finding]:
    """Those of ``seen`` that no name server lists. None while no name server answers: nothing is known then."""
    if not facts.answering:
        return
    listed = {broker.name for broker in facts.brokers}
    addrs = {broker.replica.broker_addr for broker in facts.brokers}
    for name, one in sorted(seen.items()):
        if name not in listed and one.broker_addr not in addrs and now_ms - one.seen_ms < MISSED_FOR_MS:
            yield gone_finding(name, one.broker_addr, one.seen_ms, now_ms)


def read_seen(namesrv_addrs: Sequence[str], cluster: str | None) -> Seen:
    """The brokers seen before, of one cluster or of all."""
    try:
        found = msgspec.json.decode(_path(namesrv_addrs).read_bytes(), type=Seen)
    except (OSError, msgspec.MsgspecError):
        return {}
    return {name: one for name, one in found.items() if cluster is None or one.cluster == cluster}


def remember_seen(namesrv_addrs: Sequence[str], facts: ClusterFacts, now_ms: int) -> None:
    """Adds the brokers that are listed now, and forgets those not seen for a day. Does nothing if it cannot."""
    kept = {name: one for name, one in read_seen(namesrv_addrs, None).items() if now_ms - one.seen_ms < MISSED_FOR_MS}
    for broker in facts.brokers:
        kept[broker.name] = ListedBroker(broker.replica.cluster, broker.replica.broker_addr, now_ms)
    path = _path(namesrv_addrs)
    try:
        write_private(path, msgspec.json.encode(kept).decode())
        by_age = sorted(path.parent.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in by_age[:-FILES_MAX]:
            file.unlink()
    except OSError:
        return


def _path(namesrv_addrs: Sequence[str]) -> Path:
    return cache_dir() / "seen-brokers" / (re.sub(r"[^\w.-]", "_", ",".join(sorted(namesrv_addrs)))[:200] + ".json")


QUICK_MAX = 50
"""How many groups, and how many dead-letter queues, ``--quick`` looks at."""

QUICK_PATIENCE_MS = 10_000
"""``--quick`` reads a group twice only if what it last consumed is older than this: clients commit every 5 s."""

QUEUES_DATED_MAX = 8
"""How many queues of one group `doctor` checks for the age of their first waiting message."""


class HealthRow(Row, frozen=True):
    severity: Annotated[str, doc("error, warning, note; with --all also ok", key=True)]
    check: Annotated[str, doc("what was looked at", key=True)]
    subject: Annotated[str, doc("server, broker, cluster or group", key=True)]
    what: Annotated[str, doc("what was found", vital=True)]
    fix: Annotated[str | None, doc("what to do about it, often the command to run")]


class HealthCounts(Row, frozen=True):
    errors: Annotated[int, doc("findings that somebody has to do something about now")]
    warnings: Annotated[int, doc("findings that somebody should look at")]
    notes: Annotated[int, doc("what is worth knowing, and often wanted")]
    passed: Annotated[int, doc("checks that found nothing; --all shows them")]
    looked_at: Annotated[list[str], doc("what the checks looked at; with --quick, a part of many groups")]
    left_out: Annotated[list[str], doc("what they did not look at")]
    took_ms: Annotated[int, doc("how long all of it took")]


class Diagnosis(ResultOf[HealthRow], frozen=True):
    """What was found, the worst first."""

    findings: list[Finding]
    shows_all: bool
    took_ms: int
    looked_at: list[str]
    left_out: list[str] = []

    def rows(self) -> Sequence[HealthRow]:
        return [
            HealthRow(severity=one.grade, check=one.check, subject=one.subject.name, what=one.what, fix=one.fix)
            for one in self._shown()
        ]

    def _shown(self) -> list[Finding]:
        return [one for one in self.findings if self.shows_all or one.grade is not Grade.OK]

    def summary(self) -> HealthCounts:
        return HealthCounts(
            errors=self._count(Grade.ERROR),
            warnings=self._count(Grade.WARNING),
            notes=self._count(Grade.NOTE),
            passed=self._count(Grade.OK),
            looked_at=self.looked_at,
            left_out=self.left_out,
            took_ms=self.took_ms,
        )

    def _count(self, grade: Grade) -> int:
        return sum(one.grade is grade for one in self.findings)

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str]:
        yield from finding_lines(self._shown(), width)
        told = self.summary()
        counts = f"{counted(told.errors, 'error')}, {counted(told.warnings, 'warning')}, {counted(told.notes, 'note')}"
        left_out = f"; not at {', '.join(told.left_out)}" if told.left_out else ""
        passed = f"{counted(told.passed, 'check')} passed; looked at {', '.join(told.looked_at)}"
        yield f"{counts}; {passed}{left_out}\n"

    def problem(self) -> str | None:
        errors, warnings = self._count(Grade.ERROR), self._count(Grade.WARNING)
        if not errors and not warnings:
            return None
        first = self.findings[0]
        counts = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
        return f"{counts}; the first: {first.subject.name}: {first.what}"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `doctor` has read. ``seen``: brokers seen before. ``letters`` by group."""

    cluster: ClusterFacts
    only_cluster: str | None
    is_quick: bool
    ha: HaFacts
    seen: Seen
    controllers: Mapping[str, Mapping[str, str]]
    letters: Mapping[str, DeadLetters]
    groups: Sequence[GroupStanding]
    now_ms: int


def findings(facts: Facts) -> Iterator[Finding]:
    """What is wrong, and what is well. How to add a check: docs/adding-a-check.md."""
    cluster, now_ms = facts.cluster, facts.now_ms
    yield from namesrv_findings(cluster, facts.only_cluster)
    yield from missing_findings(cluster, facts.seen, now_ms)
    yield from broker_findings(cluster)
    yield from cluster_findings(cluster)
    yield from position_findings(cluster)
    yield from ha_findings(facts.ha, now_ms)
    yield from controllers_access(facts.controllers)
    if not facts.is_quick:
        yield from topic_findings(cluster)
    yield from write_permission_findings(cluster)
    for group, letters in facts.letters.items():
        yield from dead_letter_findings(group, letters, now_ms)
    yield from groups_findings(facts.groups, now_ms)


class Examiner(msgspec.Struct, frozen=True, kw_only=True):
    """``members`` and ``sample_s`` are as for ``StandingsReader``. ``controller_addrs``: controllers besides those that
    brokers name. ``is_quick``: checks no topics, and some groups if there are many. ``ignored``: checks whose findings
    are not wanted. ``say`` is told what is being asked."""

    admin: AdminClient
    members: AdminClient
    cluster: str | None
    controller_addrs: Sequence[str]
    is_quick: bool
    ignored: frozenset[Check]
    sample_s: float
    now_ms: Callable[[], int]
    say: Callable[[str], None]

    def diagnosis(self, *, shows_all: bool) -> Diagnosis:
        began_ms, looked_at, left_out = self.now_ms(), list[str](), list[str]()
        found = [one for one in findings(self._read(looked_at, left_out)) if one.check not in self.ignored]
        left_out += [f"{check} (--ignore)" for check in sorted(self.ignored)]
        return Diagnosis(in_order(found), shows_all, self.now_ms() - began_ms, looked_at, left_out)

    def _read(self, looked_at: list[str], left_out: list[str]) -> Facts:
        """The facts. Adds what was looked at to ``looked_at``, and what was not to ``left_out``."""
        admin = self.admin
        self.say("asking name servers, brokers and controllers")
        cluster, ha = read_settled(self._servers, self.say)
        looked_at += [counted(len(cluster.namesrvs), "name server"), counted(len(cluster.brokers), "broker")]
        seen = read_seen(admin.namesrv_addrs, self.cluster)
        remember_seen(admin.namesrv_addrs, cluster, self.now_ms())
        cluster = with_positions(admin, with_unasked(admin, cluster))
        answering = [one.addr for group in ha.controllers for one in group.answering]
        controllers = read_controller_configs(admin, answering)
        self.say("asking for topics and routes")
        cluster = with_routes(admin, cluster, topics_to_route(cluster, is_quick=self.is_quick))
        if self.is_quick:
            left_out.append("topics (--quick)")
        else:
            looked_at.append(counted(len({name for one in cluster.masters for name in one.topics or {}}), "topic"))
            # of many, only the numbers of queues are compared
            unsearched = sum(max(0, len(cluster.own_topics(one)) - cluster.share) for one in cluster.masters)
            left_out += [f"messages past the read queues of {counted(unsearched, 'topic')}"] if unsearched else []
            cluster = with_unread_queues(admin, cluster)
        topics = dead_letter_topics(cluster, of_all=self.cluster is None)
        wanted = self._portion(topics)
        looked_at.append(_portion_text(len(wanted), len(topics), "dead-letter queue"))
        letters = ask_each(lambda topic: read_dead_letters(admin, topic), wanted)
        groups = cluster.brokers_of_groups()
        chosen = {group: groups[group] for group in self._portion(list(groups))}
        looked_at.append(_portion_text(len(chosen), len(groups), "group"))
        self.say(f"looking at {looked_at[-1]}")
        now_ms = self.now_ms()
        reader = StandingsReader(
            admin=admin, members=self.members, sample_s=self.sample_s, now_ms=now_ms,
            queues_dated_max=QUEUES_DATED_MAX, patience_ms=QUICK_PATIENCE_MS if self.is_quick else 0,
        )  # fmt: skip
        return Facts(
            cluster=cluster, only_cluster=self.cluster, is_quick=self.is_quick, ha=ha, seen=seen,
            controllers=controllers, groups=reader.read(chosen), now_ms=now_ms,
            letters={topic.removeprefix(DLQ_PREFIX): one for topic, one in zip(wanted, letters, strict=True)},
        )  # fmt: skip

    def _portion(self, names: Sequence[str]) -> Sequence[str]:
        return names[:QUICK_MAX] if self.is_quick else names

    def _servers(self) -> ServerFacts:
        facts = read_facts(self.admin, self.cluster, with_tables=True, with_topics=not self.is_quick)
        has_all = self.cluster is None
        sets = read_ha(self.admin, registered_brokers(facts), self.controller_addrs, has_all=has_all)
        return ServerFacts(facts, sets)


def _portion_text(seen_count: int, count: int, what: str) -> str:
    """``12 groups``, ``50 of 310 groups``."""
    return counted(count, what) if seen_count == count else f"{seen_count:,} of {counted(count, what)}"
