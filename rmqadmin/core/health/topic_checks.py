"""Checks of topics and groups: whether the brokers of a cluster have the same ones, whether permissions were left
changed, and whether routes lead to brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts, read_route
from rmqadmin.core.health.health_finding import Check, Grade, HealthFinding, names_told
from rmqadmin.core.topics.perms import perm_words
from rmqadmin.core.topics.stored_queues import UnreadQueue, read_again, unread_queues, unread_text
from rmqproto.bodies.routes import TopicRoute
from rmqproto.errors import RocketMQError
from rmqproto.perm import PERM_READ_WRITE, PERM_WRITE
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

ROUTES_MAX = 200
"""How many topics' routes are asked for, from each name server; and how many topics, of all masters together, for
queues past their counts, at 3 ms each."""


def topic_findings(admin: AdminClient, facts: ClusterFacts) -> Iterator[HealthFinding]:
    for master in facts.masters:
        yield from _permissions_left(master, facts)
        yield from _switched_off(master, facts)
        yield from _unread(admin, master, facts)
    by_cluster: dict[str, list[BrokerFacts]] = defaultdict(list)
    for master in facts.masters:
        if master.topics is not None:
            by_cluster[master.replica.cluster].append(master)
    for cluster, masters in sorted(by_cluster.items()):
        yield from _missing(cluster, masters, facts)
    yield from _registered(facts)
    yield from _routes(admin, facts)


def write_permission_findings(admin: AdminClient, facts: ClusterFacts) -> Iterator[HealthFinding]:
    """Finds brokers whose write permission was wiped, by the routes of the topics that bear their names."""
    names = {master.replica.broker_name for master in facts.masters}
    for namesrv in facts.answering:
        known = sorted(names & namesrv.topics)
        try:
            found = targets.ask_each(partial(read_route, admin, namesrv.addr), known)
        except RocketMQError as error:
            yield _unread_routes(namesrv.addr, error)
            continue
        routes = {topic: route for topic, route in zip(known, found, strict=True) if route is not None}
        yield from _wiped(namesrv.addr, routes, facts)


def _permissions_left(master: BrokerFacts, facts: ClusterFacts) -> Iterator[HealthFinding]:
    by_perm: dict[int, list[str]] = defaultdict(list)
    for topic, config in sorted(facts.own_topics(master).items()):
        if config.perm & PERM_READ_WRITE != PERM_READ_WRITE:
            by_perm[config.perm].append(topic)
    for perm, topics in sorted(by_perm.items()):
        yield HealthFinding(
            grade=Grade.WARNING,
            check=Check.PERMISSION,
            subject=master.name,
            what=f"permits only {perm_words(perm)} on {counted(len(topics), 'topic')}: {names_told(topics)}",
            fix=f"rmqadmin updateTopicPerm -t {topics[0]} -b {master.replica.broker_addr} -p RW",
        )


def _switched_off(master: BrokerFacts, facts: ClusterFacts) -> Iterator[HealthFinding]:
    off = sorted(group for group, config in facts.own_groups(master).items() if not config.consume_enable)
    if off:
        yield HealthFinding(
            grade=Grade.WARNING,
            check=Check.PERMISSION,
            subject=master.name,
            what=f"lets {counted(len(off), 'group')} consume nothing: {names_told(off)}",
            fix=f"rmqadmin updateSubGroup -g {off[0]} -b {master.replica.broker_addr} -s true",
        )


def _unread(admin: AdminClient, master: BrokerFacts, facts: ClusterFacts) -> Iterator[HealthFinding]:
    """Finds messages that lie in queues that consumers do not read, in the first topics, and topics whose numbers of
    queues will put some there."""
    own, addr = facts.own_topics(master), master.replica.broker_addr
    uneven = {name: config for name, config in sorted(own.items()) if config.write_queue_nums > config.read_queue_nums}
    asked = [*uneven, *(name for name in sorted(own) if name not in uneven)][: unread_asked_count(facts, len(own))]
    by_topic: dict[str, list[UnreadQueue]] = {}
    try:
        found = targets.ask_each(lambda name: unread_queues(admin, master.replica.broker_name, addr, own[name]), asked)
        by_topic = {name: queues for name, queues in zip(asked, found, strict=True) if queues}
    except RocketMQError as error:
        what = f"not all topics could be asked for queues that consumers do not read: {error}"
        yield HealthFinding(grade=Grade.WARNING, check=Check.UNREAD_QUEUES, subject=master.name, what=what)
    for name, queues in by_topic.items():
        yield HealthFinding(
            grade=Grade.WARNING,
            check=Check.UNREAD_QUEUES,
            subject=master.name,
            what=f"the topic {name} has {unread_text(queues)}",
            fix=read_again(name, queues),
        )
    coming = [name for name in uneven if name not in by_topic]
    if coming:
        what = (
            f"{counted(len(coming), 'topic')} with fewer read than write queues: consumers miss what is sent past them"
        )
        yield HealthFinding(
            grade=Grade.WARNING,
            check=Check.UNREAD_QUEUES,
            subject=master.name,
            what=f"{what}: {names_told(coming)}",
            fix=f"rmqadmin updateTopic -t {coming[0]} -b {addr} -r {uneven[coming[0]].write_queue_nums}",
        )


def unread_asked_count(facts: ClusterFacts, topic_count: int) -> int:
    """How many of a master's topics are asked for queues that consumers do not read: its share of ROUTES_MAX."""
    return min(topic_count, max(1, ROUTES_MAX // max(1, len(facts.masters))))


def _missing(cluster: str, masters: Sequence[BrokerFacts], facts: ClusterFacts) -> Iterator[HealthFinding]:
    """Finds topics and groups that some masters lack. A broker that joined later lacks those made before, until
    somebody makes them there too."""
    topics = {name for master in masters for name in facts.own_topics(master)}
    groups = {name for master in masters for name in facts.own_groups(master)}
    for master in masters:
        addr = master.replica.broker_addr
        for check, lacking, what, command, effect in (
            (
                Check.TOPICS_EVERYWHERE, sorted(topics - (master.topics or {}).keys()), "topic", "updateTopic -t",
                "nothing of them is sent there",
            ),
            (
                Check.GROUPS_EVERYWHERE, sorted(groups - (master.groups or {}).keys()), "group", "updateSubGroup -g",
                _effect(master),
            ),
        ):  # fmt: skip
            if lacking:
                is_refused = check is Check.GROUPS_EVERYWHERE and effect != _MADE
                yield HealthFinding(
                    grade=Grade.WARNING if is_refused else Grade.NOTE,
                    check=check,
                    subject=master.name,
                    what=f"lacks {counted(len(lacking), what)} of {cluster}, {effect}: {names_told(lacking)}",
                    fix=f"rmqadmin {command} {lacking[0]} -b {addr}",
                )


_MADE = "which their first client makes"


def _effect(master: BrokerFacts) -> str:
    makes_groups = master.config.get("autoCreateSubscriptionGroup", "true").lower() == "true"
    return _MADE if makes_groups else "whose clients it refuses"


def _registered(facts: ClusterFacts) -> Iterator[HealthFinding]:
    """Checks that name servers know the topics that masters have."""
    for master in facts.masters:
        own = facts.own_topics(master)
        for namesrv in facts.answering:
            unknown = sorted(own.keys() - namesrv.topics)
            if unknown:
                yield HealthFinding(
                    grade=Grade.ERROR,
                    check=Check.ROUTES,
                    subject=namesrv.addr,
                    what=f"does not know {counted(len(unknown), 'topic')} of {master.name}: {names_told(unknown)}",
                    fix="Brokers report all topics every 30 s: look again. What remains was deleted at the name server "
                    f"only: rmqadmin updateTopic -t {unknown[0]} -b {master.replica.broker_addr}",
                )


def _routes(admin: AdminClient, facts: ClusterFacts) -> Iterator[HealthFinding]:
    asked = _asked_topics(facts)
    for namesrv in facts.answering:
        known = [topic for topic in asked if topic in namesrv.topics]
        try:
            found = targets.ask_each(partial(read_route, admin, namesrv.addr), known)
        except RocketMQError as error:
            yield _unread_routes(namesrv.addr, error)
            continue
        routes = {topic: route for topic, route in zip(known, found, strict=True) if route is not None}
        problems = [*_wiped(namesrv.addr, routes, facts), *_without_master(namesrv.addr, routes)]
        yield from problems
        if routes and not problems:
            what = f"the routes of {counted(len(routes), 'topic')} lead to writable masters"
            yield HealthFinding(grade=Grade.OK, check=Check.ROUTES, subject=namesrv.addr, what=what)


def _unread_routes(namesrv_addr: str, error: RocketMQError) -> HealthFinding:
    what = f"not all routes could be read: {error}"
    return HealthFinding(grade=Grade.WARNING, check=Check.ROUTES, subject=namesrv_addr, what=what)


def _asked_topics(facts: ClusterFacts) -> list[str]:
    """The topics to check: an equal share from each master, up to ROUTES_MAX together, and at least one that may be
    written from each, even if it is a system topic."""
    each_max = max(1, ROUTES_MAX // max(1, len(facts.masters)))
    asked = {topic for master in facts.masters for topic in sorted(facts.own_topics(master))[:each_max]}
    for master in facts.masters:
        writeable = [topic for topic, config in (master.topics or {}).items() if config.perm & PERM_WRITE]
        asked |= {min(writeable)} if writeable else set()
    return sorted(asked)


def _wiped(namesrv_addr: str, routes: Mapping[str, TopicRoute], facts: ClusterFacts) -> Iterator[HealthFinding]:
    """Finds brokers whose write permission was wiped. ``wipeWritePerm`` removes W from routes, while the broker's own
    configuration keeps it. A broker whose own permission lacks W registers its topics without it, and is skipped."""
    for master in facts.masters:
        name = master.replica.broker_name
        permission = master.config.get("brokerPermission", "")
        if permission.isdecimal() and not int(permission) & PERM_WRITE:
            continue
        wiped = {
            topic
            for topic, route in routes.items()
            for queues in route.queue_datas
            if queues.broker_name == name and _perm_of(master, topic) & PERM_WRITE & ~queues.perm
        }
        if wiped:
            own = sorted(wiped & facts.own_topics(master).keys())
            named = f" ({names_told(own)})" if own else ""
            yield HealthFinding(
                grade=Grade.WARNING,
                check=Check.PERMISSION,
                subject=namesrv_addr,
                what=f"keeps producers from {name}: its write permission was wiped{named}",
                fix=f"rmqadmin addWritePerm -b {name}",
            )


def _perm_of(master: BrokerFacts, topic: str) -> int:
    """A topic's permission at its broker; as it is made there, if the broker's topics were not asked for."""
    if master.topics is None:
        return PERM_READ_WRITE
    return master.topics[topic].perm if topic in master.topics else 0


def _without_master(namesrv_addr: str, routes: Mapping[str, TopicRoute]) -> Iterator[HealthFinding]:
    lost: dict[str, list[str]] = defaultdict(list)
    for topic, route in routes.items():
        up = {broker.broker_name for broker in route.broker_datas if broker.master_addr}
        for queues in route.queue_datas:
            if queues.broker_name not in up:
                lost[queues.broker_name].append(topic)
    for name, topics in sorted(lost.items()):
        yield HealthFinding(
            grade=Grade.ERROR,
            check=Check.ROUTES,
            subject=namesrv_addr,
            what=f"lists queues on {name}, which has no master there: {names_told(sorted(topics))}",
            fix=f"Start the master of {name} again.",
        )
