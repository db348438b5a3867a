"""Problems that show only across several broker processes: duplicate names, missing masters, brokers of one cluster
that differ in version, role or flush mode."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts, NamesrvFacts
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.servers.broker_answers import ask_each
from rmqproto.bodies.routes import ClusterInfo
from rmqproto.hosts import is_loopback
from rmqproto.wording import counted, names_told

_VERSION = "brokerVersionDesc"


def cluster_findings(facts: ClusterFacts) -> Iterator[Finding]:
    yield from _names_given_twice(facts)
    by_name: dict[str, list[BrokerFacts]] = defaultdict(list)
    by_cluster: dict[str, list[BrokerFacts]] = defaultdict(list)
    for broker in facts.brokers:
        by_name[broker.replica.broker_name].append(broker)
        by_cluster[broker.replica.cluster].append(broker)
    for name, processes in sorted(by_name.items()):
        yield from _roles(name, processes)
    for cluster, brokers in sorted(by_cluster.items()):
        yield from _differences(cluster, brokers)


def _names_given_twice(facts: ClusterFacts) -> Iterator[Finding]:
    """Finds brokers that share a name and id, or an address. A name server keeps one address per name and id: that of
    the broker that registered last. So duplicates show only where name servers differ, or where the process at an
    address calls itself something else. Our name servers list the other brokers as well."""
    check = Check.BROKER_NAMES
    addrs: dict[str, set[str]] = defaultdict(set)
    clusters: dict[str, set[str]] = defaultdict(set)
    names: dict[str, set[str]] = defaultdict(set)
    for broker in facts.brokers:
        addrs[broker.name].add(broker.replica.broker_addr)
        clusters[broker.replica.broker_name].add(broker.replica.cluster)
        names[broker.replica.broker_addr].add(broker.name)
    rename = "Give one of them another brokerName in its settings, and start it again."
    for name, found in sorted(addrs.items()):
        if len(found) > 1:
            what = f"there are two brokers of this name and id: {' and '.join(sorted(found))}"
            yield Finding(Grade.ERROR, check, Subject(SubjectKind.BROKER, name), what, rename)
    for name, found in sorted(clusters.items()):
        if len(found) > 1:
            what = f"is a broker of several clusters: {', '.join(sorted(found))}"
            yield Finding(Grade.ERROR, check, Subject(SubjectKind.BROKER_SET, name), what, rename)
    for addr, found in sorted(names.items()):
        if len(found) > 1:
            what = f"is registered as several brokers: {', '.join(sorted(found))}"
            fix = "Each broker needs an address of its own: brokerIP1 and listenPort in its settings."
            yield Finding(Grade.ERROR, check, Subject(SubjectKind.BROKER, addr), what, fix)
    for broker in facts.brokers:
        own = broker.config.get("brokerName")
        if own and own != broker.replica.broker_name:
            what = f"calls itself {own}: {broker.replica.broker_addr} is not the broker that registered it"
            yield Finding(Grade.ERROR, check, broker.subject, what, rename)


def _roles(name: str, processes: Sequence[BrokerFacts]) -> Iterator[Finding]:
    check = Check.ROLES
    masters = [broker for broker in processes if broker.is_master]
    slaves = [broker for broker in processes if not broker.is_master]
    if not masters:
        what = f"has no master, only {names_told([slave.name for slave in slaves])}: nobody can send to it"
        fix = "Start its master (brokerId 0) again."
        if any(broker.config.get("enableControllerMode") == "true" for broker in processes):
            fix = "Start one of those that were in sync: rmqadmin getSyncStateSet knows them."
        yield Finding(Grade.ERROR, check, Subject(SubjectKind.BROKER_SET, name), what, fix)
    for broker in processes:
        role = broker.config.get("brokerRole")
        if role is None:
            continue
        if broker.is_master == (role == "SLAVE"):
            what = f"registered with the id {broker.replica.broker_id}, and its role is {role}"
            fix = "brokerRole and brokerId in its settings have to fit: id 0 for the master, others for slaves."
            yield Finding(Grade.ERROR, check, broker.subject, what, fix)
        elif (
            role == "SYNC_MASTER"
            and broker.config.get("enableControllerMode") != "true"  # where every master is one
            and not any(slave.replica.error is None for slave in slaves)
        ):
            what = "is a SYNC_MASTER without a slave that answers: nothing of it is copied"
            fix = f"Start its slave: rmqadmin haStatus -b {broker.replica.broker_addr} shows which are connected."
            yield Finding(Grade.WARNING, check, broker.subject, what, fix)


def _differences(cluster: str, brokers: Sequence[BrokerFacts]) -> Iterator[Finding]:
    versions: dict[str, list[str]] = defaultdict(list)
    flushes: dict[str, list[str]] = defaultdict(list)
    for broker in brokers:
        if version := broker.replica.info.get(_VERSION):
            versions[version].append(broker.name)
        if broker.is_master and (flush := broker.config.get("flushDiskType")):
            flushes[flush].append(broker.name)
    if len(versions) > 1:
        what = f"its brokers are of different versions: {_by_value(versions)}"
        fix = "Finish the upgrade."
        yield Finding(Grade.WARNING, Check.VERSIONS, Subject(SubjectKind.CLUSTER, cluster), what, fix)
    elif versions:
        told = sum(map(len, versions.values()))
        who = "all its brokers" if told == len(brokers) else f"{told} of its {counted(len(brokers), 'broker')}"
        what = f"{who} are of version {next(iter(versions))}"
        yield Finding(Grade.OK, Check.VERSIONS, Subject(SubjectKind.CLUSTER, cluster), what)
    if len(flushes) > 1:
        what = f"what a power cut loses depends on the broker: {_by_value(flushes)}"
        fix = "Give all masters one flushDiskType in their settings."
        yield Finding(Grade.WARNING, Check.FLUSH, Subject(SubjectKind.CLUSTER, cluster), what, fix)


def _by_value(found: dict[str, list[str]]) -> str:
    return "; ".join(f"{value}: {names_told(names)}" for value, names in sorted(found.items()))


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
        return targets.or_none(lambda: admin.controller_config(addr, with_own_defaults=True)) or {}

    wanted = sorted(set(addrs))
    return dict(zip(wanted, ask_each(read, wanted), strict=True))


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
        own = _brokers(namesrv)
        brokers = sorted({name for name, _, _ in known - own} - {name for name, _, _ in own})
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


def _other(facts: ClusterFacts, namesrv: NamesrvFacts) -> str:
    return next(other.addr for other in facts.answering if other is not namesrv)
