"""Problems that show only across several broker processes: duplicate names, missing masters, brokers of one cluster
that differ in version, role or flush mode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind, names_told
from rmqproto.wording import counted

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
