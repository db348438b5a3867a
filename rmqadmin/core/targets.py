"""Which servers a command means: ``-b`` one broker, ``-c`` the masters of a cluster, a topic those of its route."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.names import did_you_mean
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, ClusterInfo, TopicRoute
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, RefusedError, RocketMQError, UsageError
from rmqproto.hosts import split_address

if TYPE_CHECKING:
    from rmqproto.bodies.statistics import TopicOffset

T = TypeVar("T")
A = TypeVar("A")

NO_BROKER = "the name server knows no broker"
NO_BROKER_HINT = "Start a broker that registers there, or name other name servers: -n."


def masters(admin: AdminClient, broker_addr: str | None, cluster_name: str | None) -> list[str]:
    """The addresses meant by ``-b`` or ``-c``. UsageError, in mqadmin's words, unless exactly one of them is given.
    NotFoundError for a cluster that is unknown or has no master."""
    brokers = _of_cluster(admin, broker_addr, cluster_name)
    if brokers is None:
        return [(broker_addr or "").strip()]
    found = [broker.master_addr for broker in brokers if broker.master_addr]
    if not found:
        raise NotFoundError(f"the cluster {(cluster_name or '').strip()} has no master")
    return found


def replicas(admin: AdminClient, broker_addr: str | None, cluster_name: str | None) -> list[str]:
    """Like ``masters``, with the cluster's slaves. A broker's master comes first."""
    brokers = _of_cluster(admin, broker_addr, cluster_name)
    return [(broker_addr or "").strip()] if brokers is None else replicas_of_all(brokers)


def everywhere(
    admin: AdminClient, broker_addr: str | None, cluster_name: str | None, *, all_clusters: bool
) -> list[str]:
    """Like ``replicas``, or every broker that the name server knows. UsageError for both, and for neither."""
    if not all_clusters:
        return replicas(admin, broker_addr, cluster_name)
    if broker_addr is not None or cluster_name is not None:
        raise UsageError("--all-clusters means every broker", hint="Leave out -b and -c.")
    return replicas_of_all(all_brokers(admin.cluster_info()))


def only_cluster(info: ClusterInfo, missing: str = "-b or -c") -> str:
    """The only cluster that the name server knows. UsageError, with the ``missing`` options in mqadmin's words and the
    clusters, if there is another number of them."""
    known = sorted(info.cluster_addr_table)
    if len(known) == 1:
        return known[0]
    hint = f"The name server knows the clusters {', '.join(known)}." if known else NO_BROKER_HINT
    raise UsageError(f"Missing required option: {missing}", hint=hint)


def replicas_of_all(brokers: Iterable[BrokerData]) -> list[str]:
    return [addr for broker in brokers for _, addr in sorted(broker.broker_addrs.items())]


def check_one_of(broker_addr: str | None, cluster_name: str | None) -> None:
    """UsageError, in mqadmin's words, unless exactly one of ``-b`` and ``-c`` is given."""
    if broker_addr is not None and cluster_name is not None:
        raise UsageError(
            "The option 'c' was specified but an option from this group has already been selected: 'b'",
            hint="Give -b for one broker or -c for a cluster.",
        )
    if broker_addr is None and cluster_name is None:
        raise UsageError("Missing required option: -b or -c", hint="Give -b for one broker or -c for a cluster.")


def _of_cluster(admin: AdminClient, broker_addr: str | None, cluster_name: str | None) -> list[BrokerData] | None:
    """The brokers of ``-c``; None if ``-b`` names one."""
    check_one_of(broker_addr, cluster_name)
    if broker_addr is not None:
        split_address(broker_addr.strip())
        return None
    assert cluster_name is not None
    return cluster(admin, cluster_name)


def cluster(admin: AdminClient, cluster_name: str) -> list[BrokerData]:
    """The brokers of one cluster, by name. NotFoundError, which lists the clusters, for an unknown one."""
    info = admin.cluster_info()
    names = info.cluster_addr_table.get(cluster_name.strip())
    if names is None:
        raise not_there("cluster", cluster_name.strip(), info.cluster_addr_table)
    return [info.broker_addr_table[name] for name in sorted(names) if name in info.broker_addr_table]


def named_cluster(admin: AdminClient, cluster_name: str | None) -> list[BrokerData]:
    """``cluster``; without a name, the brokers of the only one. UsageError if there are several."""
    return cluster(admin, only_cluster(admin.cluster_info(), "-c") if cluster_name is None else cluster_name)


def not_there(kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    """The error for a broker or a cluster that is not among the known ones."""
    names = sorted(known)
    said = [did_you_mean(name, names), f"The name server knows: {', '.join(names) or 'none'}."]
    return NotFoundError(f"there is no {kind} {name}", hint=" ".join(filter(None, said)))


def all_brokers(info: ClusterInfo) -> list[BrokerData]:
    return [info.broker_addr_table[name] for name in sorted(info.broker_addr_table)]


def selected_addrs(brokers: Iterable[BrokerData]) -> list[str]:
    """One address for each broker name: the master's, else any replica's."""
    return [addr for broker in brokers if (addr := broker.selected_addr()) is not None]


def by_selected_addr(brokers: Iterable[BrokerData]) -> dict[str, BrokerData]:
    """The brokers by those addresses, in their order."""
    return {addr: broker for broker in brokers if (addr := broker.selected_addr()) is not None}


def unless_gone(ask: Callable[[], T]) -> T | None:
    """What a server says of a topic, or None if it has no such topic. A name server may still name a topic's broker
    long after the topic was deleted there, so a broker of a route need not know it."""
    try:
        return ask()
    except RefusedError as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return None


def or_none(ask: Callable[[], T]) -> T | None:
    """What a server says, or None if it does not answer or refuses: for what is only shown where it is known."""
    try:
        return ask()
    except RocketMQError:
        return None


def find_route(admin: AdminClient, topic: str) -> TopicRoute | None:
    """A topic's route, or None if no broker has registered the topic."""
    return unless_gone(lambda: admin.topic_route(topic))


def queue_ends(admin: AdminClient, broker_addr: str, topic: str) -> dict[MessageQueue, TopicOffset]:
    """Where a topic's queues begin and end on one broker of its route; empty if it is gone there."""
    found = unless_gone(lambda: admin.topic_stats(broker_addr, topic))
    return {} if found is None else found.offset_table
