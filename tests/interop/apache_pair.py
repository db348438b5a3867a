"""A cluster of two of Apache's brokers: what our clients and tools do with static topics, which only Apache's serve."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rmqclient.admin import AdminClient
from tests.support import servers

from .apache import ApacheBroker, ApacheRocketMQ
from .cluster import SETTINGS

SECOND = "broker-b"


class ApachePair(NamedTuple):
    """broker-a, with the nameserver, and broker-b."""

    first: ApacheRocketMQ
    second: ApacheBroker


@contextmanager
def apache_pair(work: Path) -> Iterator[ApachePair]:
    with (
        ApacheRocketMQ(work / "a", SETTINGS) as first,
        ApacheBroker(work / "b", {**SETTINGS, "brokerName": SECOND}, first.namesrv_addr) as second,
        AdminClient(first.namesrv_addr) as admin,
    ):

        def is_known() -> bool:
            """Apache's broker may register only 10 s after its start, unless its permissions are set."""
            admin.update_broker_config(second.broker_addr, {"brokerPermission": "6"})
            return SECOND in admin.cluster_info().broker_addr_table

        servers.until(is_known)
        yield ApachePair(first, second)
