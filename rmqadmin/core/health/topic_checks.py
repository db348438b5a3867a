"""Checks of topics and groups: whether the brokers of a cluster have the same ones, whether permissions were left
changed, and whether routes lead to brokers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts, NamesrvFacts, is_uneven, uneven_topics
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.topics.stored_queues import read_again, unread_text
from rmqadmin.core.units import perm_words
from rmqproto.bodies.routes import TopicConfig, TopicRoute
from rmqproto.codes import PERM_READ, PERM_READ_WRITE, PERM_WRITE
from rmqproto.names import group_in_topic
from rmqproto.wording import counted, names_told


def topic_findings(facts: ClusterFacts) -> Iterator[Finding]:
    for master in facts.masters:
        yield from _permissions_left(master, facts)
        yield from _switched_off(master, facts)
        yield from _unread(master, facts)
    by_cluster: dict[str, list[BrokerFacts]] = defaultdict(list)
    for master in facts.masters:
        if master.topics is not None:
            by_cluster[master.replica.cluster].append(master)
    for cluster, masters in sorted(by_cluster.items()):
        yield from _missing(cluster, masters, facts)
    yield from _registered(facts)
    yield from _routes(facts)


def is_closed(config: TopicConfig) -> bool:
    """Whether a topic cannot be read, or cannot be written."""
    return config.perm & PERM_READ_WRITE != PERM_READ_WRITE


def topic_row_findings(
    topic: str, configs: Mapping[str, TopicConfig], unread_count: int | None, *, is_read: bool = True
) -> list[Finding]:
    """What is wrong with one topic, in a few words. ``configs``: its configuration by broker name. ``unread_count``:
    its messages in queues that consumers do not read; None if that is not known. ``is_read``: whether a group reads
    what it has."""
    found: list[tuple[Check, str]] = []
    for bit, word in ((PERM_WRITE, "write"), (PERM_READ, "read")):
        closed = sorted(name for name, config in configs.items() if not config.perm & bit)
        if closed:
            where = "" if len(closed) == len(configs) else f" on {names_told(closed)}"
            found.append((Check.PERMISSION, f"no {word} permission{where}"))
    if not found and len({config.perm for config in configs.values()}) > 1:
        found.append((Check.PERMISSION, "permissions differ between brokers"))
    if unread_count:
        found.append((Check.UNREAD_QUEUES, f"{counted(unread_count, 'message')} in queues that consumers do not read"))
    elif any(map(is_uneven, configs.values())):
        read, write = (sum(getattr(one, f"{way}_queue_nums") for one in configs.values()) for way in ("read", "write"))
        found.append((Check.UNREAD_QUEUES, f"consumers read {read} of {counted(write, 'queue')}"))
    if not is_read:
        found.append((Check.UNREAD_QUEUES, "no group reads it"))
    subject = Subject(SubjectKind.TOPIC, topic)
    return [Finding(Grade.WARNING, check, subject, what) for check, what in found]


def _permissions_left(master: BrokerFacts, facts: ClusterFacts) -> Iterator[Finding]:
    by_perm: dict[int, list[str]] = defaultdict(list)
    for topic, config in sorted(facts.own_topics(master).items()):
        if is_closed(config):
            by_perm[config.perm].append(topic)
    for perm, topics in sorted(by_perm.items()):
        what = f"permits only {perm_words(perm)} on {counted(len(topics), 'topic')}: {names_told(topics)}"
        fix = f"rmqadmin updateTopicPerm -t {topics[0]} -b {master.replica.broker_addr} -p RW"
        yield Finding(Grade.WARNING, Check.PERMISSION, master.subject, what, fix)


def _switched_off(master: BrokerFacts, facts: ClusterFacts) -> Iterator[Finding]:
    off = sorted(group for group, config in facts.own_groups(master).items() if not config.consume_enable)
    if off:
        what = f"lets {counted(len(off), 'group')} consume nothing: {names_told(off)}"
        fix = f"rmqadmin updateSubGroup -g {off[0]} -b {master.replica.broker_addr} -s true"
        yield Finding(Grade.WARNING, Check.PERMISSION, master.subject, what, fix)


def _unread(master: BrokerFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Messages in queues that consumers do not read, and topics whose numbers of queues will put some there."""
    if master.unread_error is not None:
        what = f"not all topics could be asked for queues that consumers do not read: {master.unread_error}"
        yield Finding(Grade.WARNING, Check.UNREAD_QUEUES, master.subject, what)
    for name, queues in master.unread.items():
        what = f"the topic {name} has {unread_text(queues)}"
        yield Finding(Grade.WARNING, Check.UNREAD_QUEUES, master.subject, what, read_again(name, queues))
    uneven = uneven_topics(facts.own_topics(master))
    coming = [name for name in uneven if name not in master.unread]
    if coming:
        what = (
            f"{counted(len(coming), 'topic')} with fewer read than write queues: consumers miss what is sent past them"
        )
        fix = f"rmqadmin updateTopic -t {coming[0]} -b {master.replica.broker_addr} "
        fix += f"-r {uneven[coming[0]].write_queue_nums}"
        yield Finding(Grade.WARNING, Check.UNREAD_QUEUES, master.subject, f"{what}: {names_told(coming)}", fix)


def _missing(cluster: str, masters: Sequence[BrokerFacts], facts: ClusterFacts) -> Iterator[Finding]:
    """Topics and groups that some masters lack, as one that joined after they were made."""
    topics = {name for master in masters for name in facts.own_topics(master)}
    groups = {name for master in masters for name in facts.own_groups(master)}
    for master in masters:
        addr = master.replica.broker_addr
        makes_groups = master.config.get("autoCreateSubscriptionGroup", "true").lower() == "true"
        for check, lacking, what, command, effect in (
            (
                Check.TOPICS_EVERYWHERE, sorted(topics - (master.topics or {}).keys()), "topic", "updateTopic -t",
                "nothing of them is sent there",
            ),
            (
                Check.GROUPS_EVERYWHERE, sorted(groups - (master.groups or {}).keys()), "group", "updateSubGroup -g",
                "which their first client makes" if makes_groups else "whose clients it refuses",
            ),
        ):  # fmt: skip
            if lacking:
                is_refused = check is Check.GROUPS_EVERYWHERE and not makes_groups
                said = f"lacks {counted(len(lacking), what)} of {cluster}, {effect}: {names_told(lacking)}"
                fix = f"rmqadmin {command} {lacking[0]} -b {addr}"
                yield Finding(Grade.WARNING if is_refused else Grade.NOTE, check, master.subject, said, fix)


def _registered(facts: ClusterFacts) -> Iterator[Finding]:
    """Checks that name servers know the topics that masters have."""
    for master in facts.masters:
        own = facts.own_topics(master)
        for namesrv in facts.answering:
            unknown = sorted(own.keys() - namesrv.topics)
            if unknown:
                what = f"does not know {counted(len(unknown), 'topic')} of {master.name}: {names_told(unknown)}"
                fix = "Brokers report all topics every 30 s: look again. What remains was deleted at the name server "
                fix += f"only: rmqadmin updateTopic -t {unknown[0]} -b {master.replica.broker_addr}"
                yield Finding(Grade.ERROR, Check.ROUTES, namesrv.subject, what, fix)


def _routes(facts: ClusterFacts) -> Iterator[Finding]:
    for namesrv in facts.answering:
        if namesrv.routes_error is not None:
            what = f"not all routes could be read: {namesrv.routes_error}"
            yield Finding(Grade.WARNING, Check.ROUTES, namesrv.subject, what)
            continue
        problems = [*_without_master(namesrv), *_gone(namesrv, facts)]
        yield from problems
        if namesrv.routes and not problems:
            what = f"the routes of {counted(len(namesrv.routes), 'topic')} lead to masters"
            yield Finding(Grade.OK, Check.ROUTES, namesrv.subject, what)


def _gone(namesrv: NamesrvFacts, facts: ClusterFacts) -> Iterator[Finding]:
    """Finds masters that no longer have a topic whose route still leads to them."""
    for master in facts.masters:
        has, name = master.topics, master.replica.broker_name
        routes = namesrv.routes.items() if has is not None else ()
        topics = [
            topic
            for topic, route in sorted(routes)
            if topic not in (has or ()) and group_in_topic(topic) is None
            if name in (queues.broker_name for queues in route.queue_datas)
        ]
        if topics:
            what = f"lists {counted(len(topics), 'topic')} on {name}, which has them no more and refuses clients"
            fix = "To make it there again: "
            fix += f"rmqadmin updateTopic -t '{topics[0]}' -b {master.replica.broker_addr}; to delete it everywhere: "
            fix += f"rmqadmin topic delete '{topics[0]}'"
            yield Finding(Grade.WARNING, Check.ROUTES, namesrv.subject, f"{what}: {names_told(topics)}", fix)


def topics_to_route(facts: ClusterFacts, *, is_quick: bool) -> set[str]:
    """The topics whose routes are worth asking for: with ``is_quick``, of each master the one that bears its name; else
    an equal share of its topics, and at least one that may be written, even if it is a system topic."""
    if is_quick:
        return {master.replica.broker_name for master in facts.masters}
    asked = {topic for master in facts.masters for topic in sorted(facts.own_topics(master))[: facts.share]}
    for master in facts.masters:
        writeable = [topic for topic, config in (master.topics or {}).items() if config.perm & PERM_WRITE]
        asked |= {min(writeable)} if writeable else set()
    return asked


def write_permission_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """Finds masters whose write permission was wiped. ``wipeWritePerm`` removes W from routes, while the broker's own
    configuration keeps it. A broker whose own permission lacks W registers its topics without it, and is skipped."""
    for master in facts.masters:
        name, permission = master.replica.broker_name, master.config.get("brokerPermission", "")
        if permission.isdecimal() and not int(permission) & PERM_WRITE:
            continue
        wiped = {
            namesrv.addr: topics
            for namesrv in facts.namesrvs
            if (topics := {topic for topic, route in namesrv.routes.items() if _is_wiped(master, topic, route)})
        }
        if wiped:
            own = sorted(set[str]().union(*wiped.values()) & facts.own_topics(master).keys())
            named = f" ({names_told(own)})" if own else ""
            what = (
                f"no write permission at {names_told(sorted(wiped))}: it was wiped, and producers that ask there send"
            )
            fix = f"rmqadmin addWritePerm -b {name}"
            yield Finding(Grade.WARNING, Check.PERMISSION, master.subject, f"{what} it nothing{named}", fix)


def _is_wiped(master: BrokerFacts, topic: str, route: TopicRoute) -> bool:
    name, perm = master.replica.broker_name, PERM_READ_WRITE  # as it is made, if the topics were not asked for
    if master.topics is not None:
        perm = master.topics[topic].perm if topic in master.topics else 0
    return any(queues.broker_name == name and perm & PERM_WRITE & ~queues.perm for queues in route.queue_datas)


def _without_master(namesrv: NamesrvFacts) -> Iterator[Finding]:
    lost: dict[str, list[str]] = defaultdict(list)
    for topic, route in namesrv.routes.items():
        up = {broker.broker_name for broker in route.broker_datas if broker.master_addr}
        for queues in route.queue_datas:
            if queues.broker_name not in up:
                lost[queues.broker_name].append(topic)
    for name, topics in sorted(lost.items()):
        what = f"lists queues on {name}, which has no master there: {names_told(sorted(topics))}"
        fix = f"Start the master of {name} again."
        yield Finding(Grade.ERROR, Check.ROUTES, namesrv.subject, what, fix)
