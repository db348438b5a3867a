"""The two systems that the interop tests run against, the real Apache RocketMQ and ours, with one interface and the
same settings.

If a test passes on ``apache`` and fails on ``ours``, that is our bug. If it fails on ``apache``, the test is wrong.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from .apache import ApacheRocketMQ
from .ours import OurRocketMQ

BROKER_NAME = "broker-a"
CLUSTER_NAME = "DefaultCluster"

# Entries of broker.conf that both understand. Delay level 1 and the first levels of a failed message (3, 4) are short,
# so that tests can wait for retries and delays. Level 6 is still pending when a store moves.
SETTINGS = {
    "brokerClusterName": CLUSTER_NAME,
    "brokerName": BROKER_NAME,
    "brokerId": "0",
    "brokerRole": "ASYNC_MASTER",
    "flushDiskType": "ASYNC_FLUSH",
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "enablePropertyFilter": "true",
    "recallMessageEnable": "false",  # Apache's default, which our standalone has not
    "messageDelayLevel": "1s 2s 1s 1s 1s 15s 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h",
    "diskMaxUsedSpaceRatio": "95",
    # The outcome must not depend on how busy the machine is: no refusals for a slow page cache or a long queue.
    "brokerFastFailureEnable": "false",
    "osPageCacheBusyTimeOutMills": "60000",
    # The shipped sizes are 1 GiB per commit log file and 420 MB per index file.
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": str(30_000 * 20),
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
    "mappedFileSizeTimerLog": str(1000 * 52 * 10),
}


class Cluster(Protocol):
    """A nameserver and one broker. ``ports`` are both listen ports; ``settings`` are the broker's."""

    name: str
    namesrv_addr: str
    broker_addr: str
    ports: tuple[int, int]
    store_dir: Path
    work: Path

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


class MakeCluster(Protocol):
    def __call__(
        self,
        work: Path,
        settings: Mapping[str, str],
        *,
        store_dir: Path | None = None,
        ports: tuple[int, int] | None = None,
    ) -> Cluster: ...


SYSTEMS: dict[str, MakeCluster] = {"apache": ApacheRocketMQ, "ours": OurRocketMQ}
