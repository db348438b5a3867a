"""A task of a replay that begins while the target's broker restarts."""

from pathlib import Path

from rmqreplay.sending.target import ReplayTarget, read_fences
from rmqreplay.source.live import ClusterAccess, LiveCluster
from tests.rmqreplay.away import TOPIC, AwayBroker


def test_it_waits_for_the_broker(tmp_path: Path) -> None:
    """Spark repeats a task that fails three times within a second, and a replay that goes on ended."""
    broker = AwayBroker(tmp_path)
    try:
        with LiveCluster(broker.namesrv.namesrv_addr) as cluster:
            fences = read_fences(cluster, [TOPIC])

        def made(cluster: LiveCluster) -> ReplayTarget:
            class Through(ClusterAccess):
                def cluster(self, name_server: str) -> LiveCluster:
                    return cluster

            address = broker.namesrv.namesrv_addr
            return ReplayTarget(address, fences, "job", Through(), keep_order=False, send_timeout_s=5)

        target = broker.away_until_asked(made)
        assert target.look() == set()
        target.close()
    finally:
        broker.stop()
