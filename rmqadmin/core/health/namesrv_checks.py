"""Checks that all name servers answer, and give the same answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.health.facts import ClusterFacts, NamesrvFacts
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind, names_told
from rmqproto.bodies.routes import ClusterInfo
from rmqproto.errors import RocketMQError
from rmqproto.hosts import is_loopback
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


_TURN_ON = "authenticationEnabled=true in its settings"
_OR = "and a new start, or listen on 127.0.0.1 alone (--listen), or keep others from its port."


def namesrv_access(subject: Subject, config: Mapping[str, str]) -> Iterator[Finding]:
    """The finding for one name server. ``config`` includes settings that only rmqserver has; it is empty if the server
    did not return it."""
    fix = f"{_TURN_ON} (with a broker in one process: and namesrvAuthEnabled=true) {_OR}"
    return _access(subject, config, "namesrvAuthEnabled", fix)


def controllers_access(configs: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """``configs`` by address of those that return their settings."""
    for addr, config in sorted(configs.items()):
        subject = Subject(SubjectKind.BROKER_SET, addr)
        yield from _access(subject, config, "authenticationEnabled", f"{_TURN_ON} {_OR}")


def read_controller_configs(admin: AdminClient, addrs: Iterable[str]) -> dict[str, dict[str, str]]:
    def read(addr: str) -> dict[str, str]:
        try:
            return admin.controller_config(addr, with_own_defaults=True)
        except RocketMQError:
            return {}

    wanted = sorted(set(addrs))
    return dict(zip(wanted, targets.ask_each(read, wanted), strict=True))


def _access(subject: Subject, config: Mapping[str, str], asking_key: str, fix: str) -> Iterator[Finding]:
    """The finding for one server. Apache's servers cannot check users, whatever their settings, so they get no warning.
    Our servers always say whether they check."""
    bound, asks = config.get("bindAddress"), config.get(asking_key)
    if bound is None:
        return
    open_to_all = f"listens on {bound} and serves anybody: it checks no users"
    if asks == "true":
        grade, what, way_out = Grade.OK, "checks users", None
    elif is_loopback(bound):
        grade, what, way_out = Grade.OK, f"listens only on {bound}", None
    elif asks is None:
        way_out = "Keep others from its port, or set bindAddress=127.0.0.1."
        grade, what = Grade.NOTE, f"{open_to_all}, as all of Apache's"
    else:
        grade, what, way_out = Grade.WARNING, open_to_all, fix
    yield Finding(grade, Check.ACCESS, subject, what, way_out)


def namesrv_findings(facts: ClusterFacts, cluster: str | None = None) -> Iterator[Finding]:
    """``cluster``: the only cluster that is being checked; None for all."""
    for namesrv in facts.namesrvs:
        yield answer_finding(namesrv)
        yield from namesrv_access(namesrv.subject, namesrv.config)
    if cluster is not None and facts.answering and not facts.brokers:
        clusters = {
            name for namesrv in facts.answering if namesrv.cluster for name in namesrv.cluster.cluster_addr_table
        }
        what = "no name server knows a broker of this cluster"
        fix = f"Start its brokers. Or was another cluster meant? There are: {names_told(sorted(clusters)) or None}."
        yield Finding(Grade.ERROR, Check.NAME_SERVER, Subject(SubjectKind.CLUSTER, cluster), what, fix)
    if len(facts.answering) > 1:
        yield from _agreement(facts)
    for addr, error in facts.silent.items():  # one that is down takes away half of a cluster's doors, and is not missed
        what = f"{names_told(facts.unasked[addr])} registers there too, but from here: {error}"
        fix = "Start it; or take it out of namesrvAddr in the brokers' settings."
        yield Finding(Grade.WARNING, Check.NAME_SERVER, Subject(SubjectKind.NAME_SERVER, addr), what, fix)


def _agreement(facts: ClusterFacts) -> Iterator[Finding]:
    """Whether the name servers that answer, two at least, know the same brokers and topics."""
    known = {key for namesrv in facts.answering for key in _brokers(namesrv)}
    topics = {topic for namesrv in facts.answering for topic in namesrv.topics}
    for namesrv in facts.answering:
        brokers = sorted({name for name, _, _ in known - _brokers(namesrv)} - _names(namesrv))
        if brokers:
            what = f"does not know {names_told(brokers)}, which other name servers know"
            fix = "Make each broker register with every name server (namesrvAddr in its settings; "
            fix += f"`rmqadmin getBrokerConfig -n {_other(facts, namesrv)} -b ADDRESS` shows it)."
            yield Finding(Grade.ERROR, Check.AGREEMENT, namesrv.subject, what, fix)
        lacking = sorted(topics - namesrv.topics)
        if lacking and not brokers:
            what = f"lacks {counted(len(lacking), 'topic')} that other name servers have: {names_told(lacking)}"
            fix = "Brokers report all topics every 30 s: look again. What remains was deleted on one side: "
            fix += f"rmqadmin deleteTopic -n {_other(facts, namesrv)} -t {lacking[0]} -c CLUSTER"
            yield Finding(Grade.WARNING, Check.AGREEMENT, namesrv.subject, what, fix)
        if not brokers and not lacking:
            yield Finding(Grade.OK, Check.AGREEMENT, namesrv.subject, "agrees with the other name servers that answer")


def answer_finding(namesrv: NamesrvFacts) -> Finding:
    if namesrv.cluster is None:
        what = namesrv.error or "does not answer"
        fix = "Start it, or name those that are up: -n HOST:PORT, or `rmqadmin context edit`."
        return Finding(Grade.ERROR, Check.NAME_SERVER, namesrv.subject, what, fix)
    if not namesrv.cluster.broker_addr_table:
        what = "knows no broker"
        fix = f"Start a broker that registers there: rmqserver broker --namesrv {namesrv.addr}"
        return Finding(Grade.ERROR, Check.NAME_SERVER, namesrv.subject, what, fix)
    count = len(namesrv.cluster.broker_addr_table)
    what = f"answers, and knows {counted(count, 'broker')} and {counted(len(namesrv.topics), 'topic')}"
    return Finding(Grade.OK, Check.NAME_SERVER, namesrv.subject, what)


def _brokers(namesrv: NamesrvFacts) -> set[tuple[str, int, str]]:
    info = namesrv.cluster or ClusterInfo()
    return {(name, id, addr) for name, data in info.broker_addr_table.items() for id, addr in data.broker_addrs.items()}


def _names(namesrv: NamesrvFacts) -> set[str]:
    return {name for name, _, _ in _brokers(namesrv)}


def _other(facts: ClusterFacts, namesrv: NamesrvFacts) -> str:
    return next(other.addr for other in facts.answering if other is not namesrv)
