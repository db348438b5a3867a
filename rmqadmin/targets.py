"""Which servers a command means: ``-b`` one broker, ``-c`` the masters of a cluster, a topic the brokers of its route;
and asking several of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rmqclient.addresses import split_address
from rmqclient.admin import AdminClient
from rmqproto.bodies import BrokerData, ClusterInfo, TopicRoute
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, RefusedError, UsageError

ASKED_AT_ONCE_MAX = 16
"""Threads that wait for brokers; each broker has one socket."""

T = TypeVar("T")
A = TypeVar("A")


def masters(admin: AdminClient, broker_addr: str | None, cluster_name: str | None) -> list[str]:
    """Addresses meant by ``-b`` or ``-c``, exactly one of which is given: UsageError, in mqadmin's words, otherwise.
    NotFoundError for a cluster that is unknown or has no master."""
    if broker_addr is not None and cluster_name is not None:
        raise UsageError(
            "The option 'c' was specified but an option from this group has already been selected: 'b'",
            hint="Give -b for one broker or -c for a cluster.",
        )
    if broker_addr is not None:
        split_address(broker_addr.strip())
        return [broker_addr.strip()]
    if cluster_name is None:
        raise UsageError("Missing required option: -b or -c", hint="Give -b for one broker or -c for a cluster.")
    found = [broker.broker_addrs[0] for broker in cluster(admin, cluster_name) if 0 in broker.broker_addrs]
    if not found:
        raise NotFoundError(f"the cluster {cluster_name.strip()} has no master")
    return found


def cluster(admin: AdminClient, cluster_name: str) -> list[BrokerData]:
    """The brokers of one cluster, by name. NotFoundError, which lists what there is, for an unknown one."""
    info = admin.cluster_info()
    names = info.cluster_addr_table.get(cluster_name.strip())
    if names is None:
        known = ", ".join(sorted(info.cluster_addr_table)) or "none"
        raise NotFoundError(
            f"there is no cluster {cluster_name.strip()}",
            hint=f"The name server knows: {known}. Is it the right one?",
        )
    return [info.broker_addr_table[name] for name in sorted(names) if name in info.broker_addr_table]


def all_brokers(info: ClusterInfo) -> list[BrokerData]:
    return [info.broker_addr_table[name] for name in sorted(info.broker_addr_table)]


def selected_addrs(brokers: Iterable[BrokerData]) -> list[str]:
    """One address a broker name: the master's, else any replica's."""
    return [addr for broker in brokers if (addr := broker.selected_addr()) is not None]


def find_route(admin: AdminClient, topic: str) -> TopicRoute | None:
    """A topic's route, or None where no broker has registered the topic."""
    try:
        return admin.topic_route(topic)
    except RefusedError as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return None


def ask_each(ask: Callable[[A], T], of: Sequence[A]) -> list[T]:
    """``ask`` of each, at the same time, in order. Raises the first one's error, after all have answered."""
    if len(of) < 2:
        return [ask(one) for one in of]
    from concurrent.futures import ThreadPoolExecutor  # 6 ms

    with ThreadPoolExecutor(max_workers=min(len(of), ASKED_AT_ONCE_MAX)) as pool:
        return [future.result() for future in [pool.submit(ask, one) for one in of]]
