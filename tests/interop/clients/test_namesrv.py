"""Apache's broker at our nameserver, and ours at Apache's."""

from pathlib import Path
from typing import Self

import pytest

from rmqproto.bodies.routes import QueueData
from tests.support import servers
from tests.support.servers import Fresh, Server, until
from tests.support.wire import Wire

from ..apache import ApacheRocketMQ
from ..cluster import SETTINGS

pytestmark = pytest.mark.interop


class ApacheBroker(ApacheRocketMQ):
    """Apache's broker alone, at another nameserver. It sends its topics compressed."""

    def __init__(self, work: Path, namesrv_addr: str):
        super().__init__(work, {**SETTINGS, "compressedRegister": "true"})
        self.settings["namesrvAddr"] = namesrv_addr

    def __enter__(self) -> Self:
        self.work.mkdir(parents=True, exist_ok=True)
        self._start("broker", "org.apache.rocketmq.broker.BrokerStartup", self.settings, "boot success")
        return self


class ApacheNamesrv(ApacheRocketMQ):
    """Apache's nameserver alone."""

    def __init__(self, work: Path):
        super().__init__(work, {})

    def __enter__(self) -> Self:
        self.work.mkdir(parents=True, exist_ok=True)
        settings = {"listenPort": str(self.ports[0]), "kvConfigPath": str(self.work / "kvConfig.json")}
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        self._start("namesrv", main, settings, "Name Server boot success")
        return self


def test_apaches_broker_at_our_nameserver(tmp_path: Path, fresh: Fresh) -> None:
    with (
        servers.namesrv(tmp_path / "namesrv") as namesrv,
        Wire(namesrv.namesrv_addr) as namesrv_wire,
        ApacheBroker(tmp_path / "broker", namesrv.namesrv_addr) as broker,
    ):
        until(lambda: namesrv_wire.cluster_addrs() == {"broker-a": {0: broker.broker_addr}})
        topic = fresh("AtOurs")
        with Wire(broker.broker_addr) as wire:
            wire.create_topic(topic, queue_nums=3)
        until(lambda: namesrv_wire.route(topic) is not None)
        check_route(namesrv_wire, topic)
        broker.kill()
        until(lambda: namesrv_wire.cluster_addrs() == {})
        assert namesrv_wire.route(topic) is None


def test_our_broker_at_apaches_nameserver(tmp_path: Path, fresh: Fresh) -> None:
    args: tuple[str | Path, ...] = ("--port", "0", "--data", tmp_path / "store", *servers.SMALL)
    with ApacheNamesrv(tmp_path / "namesrv") as namesrv, Wire(namesrv.namesrv_addr) as namesrv_wire:
        with Server("broker", "--namesrv", namesrv.namesrv_addr, *args, log_file=tmp_path / "log") as broker:
            assert namesrv_wire.cluster_addrs() == {"broker-a": {0: broker.broker_addr}}
            topic = fresh("AtApaches")
            with Wire(broker.broker_addr) as wire:
                wire.create_topic(topic, queue_nums=3)
            check_route(namesrv_wire, topic)
            assert broker.stop() == 0
        until(lambda: namesrv_wire.cluster_addrs() == {})


def check_route(namesrv_wire: Wire, topic: str) -> None:
    route = namesrv_wire.route(topic)
    assert route is not None
    assert route.queue_datas == [QueueData(broker_name="broker-a", perm=6, read_queue_nums=3, write_queue_nums=3)]
