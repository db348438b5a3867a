"""A broker that is away when something begins. Name servers know nothing of its topic then."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import BrokerData, QueueData
from rmqreplay.source.live import LiveCluster
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support import servers
from tests.support.processes import free_ports
from tests.support.servers import Server, topic_config, until

T = TypeVar("T")

TOPIC, NAME = "Written", "broker-a"


class Asking(LiveCluster):
    """Notes when it has heard that nobody knows the topic, or only others do."""

    def __init__(self, name_server: str):
        super().__init__(name_server)
        self.is_told = threading.Event()

    def route(self, topic: str) -> dict[str, tuple[QueueData, BrokerData]]:
        found = super().route(topic)
        if NAME not in found:
            self.is_told.set()
        return found


class AwayBroker:
    """One that keeps its port and its store."""

    def __init__(self, directory: Path):
        self.namesrv = servers.namesrv(directory / "namesrv")
        self.admin = AdminClient(self.namesrv.namesrv_addr)
        self._directory, self._port = directory, free_ports()[0]
        self._running = self._start()
        self.create(TOPIC)
        wait_for_route(self.admin, TOPIC)

    def _start(self) -> Server:
        return servers.broker(self._directory / "b", self.namesrv.namesrv_addr, NAME, "--port", str(self._port))

    def create(self, topic: str, **more: int) -> None:
        self.admin.create_topic(self._running.broker_addr, topic_config(topic, 2, **more))

    def delete(self, topic: str) -> None:
        self.admin.delete_topic_in_broker(self._running.broker_addr, topic)
        self.admin.delete_topic_in_namesrv(self.namesrv.namesrv_addr, topic)

    def away_until_asked(self, act: Callable[[LiveCluster], T]) -> T:
        """What ``act`` returns, which begins while the broker is away."""
        self._running.stop(signal.SIGKILL)
        until(lambda: TOPIC not in self.admin.topic_list())
        with Asking(self.namesrv.namesrv_addr) as cluster, ThreadPoolExecutor(1) as thread:
            future = thread.submit(act, cluster)
            assert cluster.is_told.wait(60)
            self._running = self._start()
            return future.result(300)

    def stored(self) -> int:
        return sum(self.admin.max_offset(self._running.broker_addr, TOPIC, queue_id) for queue_id in range(2))

    def stop(self) -> None:
        self._running.stop()
        self.admin.close()
        self.namesrv.stop()
