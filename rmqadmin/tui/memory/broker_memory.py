"""Brokers and name servers over time: their latest answers, what is wrong with them, and what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from rmqadmin.core.health.broker_checks import findings_of_broker, gone_finding
from rmqadmin.core.health.cluster_checks import answer_finding
from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts, NamesrvFacts
from rmqadmin.core.health.finding import Check, Subject, SubjectKind
from rmqadmin.core.health.topic_checks import write_permission_findings
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import elapsed
from rmqadmin.tui.memory.cluster import SeenBroker, gone_text
from rmqadmin.tui.memory.history import ChangeLog, NumberHistory, Series, cluster_series
from rmqadmin.tui.memory.readings import LINE_SAMPLES, BrokerLine
from rmqadmin.tui.memory.wrong_list import Wrong, WrongList
from rmqproto.ha import MASTER_ID

_FIELDS = ("in_tps", "out_tps", "disk_ratio", "put_ms")

_ELSEWHERE = frozenset({Check.ACCESS, Check.CLOCK})
"""Who may ask was decided once, and is on the screen of users. The time of a recorded answer is not that of its
replay."""


class BrokerMemory:
    def __init__(self, now_ms: Callable[[], int], history: NumberHistory, log: ChangeLog, wrong: WrongList):
        self._now_ms, self._history, self._log, self._wrong = now_ms, history, log, wrong
        self.seen: Mapping[str, SeenBroker] | None = None
        """Every process, present or gone; None before the first reading."""
        self.name_servers: Mapping[str, NamesrvFacts] = {}
        self._facts: Mapping[str, BrokerFacts] = {}
        self._silent_since_ms: int | None = None

    def take(self, seen: Mapping[str, SeenBroker], facts: Mapping[str, BrokerFacts]) -> None:
        """Takes all brokers, with ``facts`` of those that are not gone."""
        at_ms = self._now_ms()
        if self._silent_since_ms is not None:
            away = elapsed(at_ms - self._silent_since_ms)
            self._log.add(at_ms, None, f"the name server answers again, after {away}", Mark.GOOD)
            self._silent_since_ms = None
        before = self.seen
        for key in seen:
            if before is not None:
                self._tell(at_ms, key, seen[key], before, facts.get(key))
            for field in _FIELDS:
                series = Series(SubjectKind.BROKER, key, field)
                self._history.add(series, at_ms, getattr(facts.get(key), field, None))
        counted_at: dict[str, Iterable[str]] = {"in_tps": _masters(seen), "out_tps": seen}
        for field, keys in counted_at.items():
            values = {key: getattr(facts.get(key), field, None) for key in keys}
            known = [value for value in values.values() if value is not None]
            lacking = [key for key, value in values.items() if value is None]
            self._history.add(cluster_series(field), at_ms, sum(known) if known else None, lacking)
        kept = {key: one for key, one in self._facts.items() if key in seen and key not in facts}
        self.seen, self._facts = dict(seen), {**kept, **facts}
        self._wrong.keep(SubjectKind.BROKER, seen)
        for key, one in seen.items():
            was_gone = before is not None and key in before and before[key].gone_since_ms is not None
            self._judge(at_ms, key, one, was_gone=was_gone)

    def _tell(
        self, at_ms: int, key: str, now: SeenBroker, seen_before: Mapping[str, SeenBroker], facts: BrokerFacts | None
    ) -> None:
        """Logs a broker that is new, gone, back or restarted, and a process that has taken another id, as in a
        handover."""
        known, addr, before = seen_before.get(key), now.replica.broker_addr, self._facts.get(key)
        boot_ms, booted_ms = (None if one is None else one.replica.count("bootTimestamp") for one in (facts, before))
        texts: list[tuple[str, Mark | None]] = []
        if known is None and now.gone_since_ms is None:
            ids = [one for one, each in seen_before.items() if each.replica.broker_addr == addr]
            texts.append((f"was {ids[0]} before" if ids else "broker is new", None))
        elif now.gone_since_ms is not None and (known is None or known.gone_since_ms is None):
            texts.append(("is gone", Mark.BAD))
        elif known is not None and known.replica.broker_addr != addr:
            texts.append((f"is {addr} now, was {known.replica.broker_addr}", Mark.WARN))
        elif boot_ms and booted_ms not in (None, boot_ms):
            texts.append(("was restarted", Mark.WARN))
        if known is not None and known.gone_since_ms is not None and now.gone_since_ms is None:
            texts.append(("is back", Mark.GOOD))
        for text, mark in texts:
            self._log.add(at_ms, Subject(SubjectKind.BROKER, key), text, mark)

    def _judge(self, at_ms: int, key: str, seen: SeenBroker, *, was_gone: bool) -> None:
        facts = self._facts.get(key) or BrokerFacts(replica=seen.replica, asked_ms=at_ms, answered_ms=at_ms)
        if seen.gone_since_ms is not None:
            facts = msgspec.structs.replace(facts, asked_ms=at_ms, gone_ms=seen.gone_since_ms)
        found = list(findings_of_broker(facts, self.name_servers))
        is_known = facts.gone_ms is None and facts.error is None
        if is_known:
            servers = list(self.name_servers.values())
            found += write_permission_findings(ClusterFacts(namesrvs=servers, brokers=[facts]))
        unknown: set[str] = set() if is_known else set(Check)
        if any(one.error is not None for one in self.name_servers.values()):
            unknown.add(Check.PERMISSION)
        subject = Subject(SubjectKind.BROKER, key)  # of one whose id another has taken, also its address
        is_told = was_gone or facts.gone_ms is not None
        self._wrong.judge(
            at_ms,
            subject,
            [msgspec.structs.replace(one, subject=subject) for one in found if one.check not in _ELSEWHERE],
            unknown=unknown,
            quiet=(Check.REACHABLE,) if is_told else (),
        )

    def told_now(self, wrong: Wrong) -> Wrong:
        """How long a broker has been gone goes on while the name server cannot be asked."""
        finding = wrong.finding
        seen = (self.seen or {}).get(finding.subject.name) if finding.check == Check.REACHABLE else None
        if seen is None or seen.gone_since_ms is None:
            return wrong
        now = gone_finding(finding.subject.name, seen.replica.broker_addr, seen.gone_since_ms, self._now_ms())
        return msgspec.structs.replace(wrong, finding=now)

    def take_silence(self, why: str) -> None:
        """Notes that the nameserver cannot be asked, and so nobody is. The log must say that it misses changes
        meanwhile."""
        if self._silent_since_ms is None and self.seen is not None:
            self._silent_since_ms = self._now_ms()
            self._log.add(self._silent_since_ms, None, f"cannot ask the name server: {why}", Mark.BAD)

    def take_name_servers(self, found: Sequence[NamesrvFacts]) -> None:
        """Takes every name server by itself: the others are used while one answers, so its absence is easily missed."""
        self.name_servers = {one.addr: one for one in found}
        self._wrong.keep(SubjectKind.NAME_SERVER, self.name_servers)
        for one in found:
            self._wrong.judge(self._now_ms(), one.subject, [answer_finding(one)])

    def lines(self) -> dict[str, BrokerLine]:
        """A line for every broker, present or gone, by ``NAME/ID``."""
        return {key: self._line(key, seen) for key, seen in (self.seen or {}).items()}

    def _line(self, key: str, seen: SeenBroker) -> BrokerLine:
        facts = self._facts.get(key)
        error = "asking …" if facts is None else facts.error
        if seen.gone_since_ms is not None:
            error = gone_text(seen.gone_since_ms, self._now_ms())
        lines = {field: self._history.values(Series(SubjectKind.BROKER, key, field), LINE_SAMPLES) for field in _FIELDS}
        now = facts or BrokerFacts(replica=seen.replica, asked_ms=0, answered_ms=0)
        return BrokerLine(
            now.in_tps, lines["in_tps"], now.out_tps, lines["out_tps"],
            now.disk_ratio, lines["disk_ratio"], now.put_ms, lines["put_ms"], error,
        )  # fmt: skip


def _masters(seen: Mapping[str, SeenBroker]) -> list[str]:
    """The brokers that take messages. A slave counts as incoming what its master has counted already. A master whose id
    another has taken is missed by nobody."""
    masters = {key: one for key, one in seen.items() if one.replica.broker_id == MASTER_ID}
    here = {one.replica.broker_name for one in masters.values() if one.gone_since_ms is None}
    return [key for key, one in masters.items() if one.gone_since_ms is None or one.replica.broker_name not in here]
