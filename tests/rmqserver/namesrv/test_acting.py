"""A slave that acts for its master, at the nameserver: the answers of a real 5.5.0 while a master was killed, played
against ours; and notices to the other brokers."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.headers.base import from_ext
from rmqproto.headers.nameserver import MinBrokerIdHeader, RegisterBrokerHeader, RouteHeader
from tests.support import golden, servers
from tests.support.controller_scenes import acting_exchanges
from tests.support.peer import Peer
from tests.support.servers import Server
from tests.support.wire import Wire

MASTER_DIES_BEFORE = "901-GET_BROKER_MEMBER_GROUP/03"
ASKED_OF_NAMESERVERS = (R.GET_ROUTEINFO_BY_TOPIC, R.REGISTER_BROKER, R.UNREGISTER_BROKER, R.GET_BROKER_MEMBER_GROUP)
SLAVE_ACTS = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10921"},"brokerName":"broker-a","cluster":"DefaultCluster",'
    b'"enableActingMaster":true}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":4,'
    b'"readQueueNums":1024,"topicSysFlag":0,"writeQueueNums":1024}]}'
)
"""The route as the real nameserver gave it, for the topic BenchmarkTest, which both brokers register."""


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = ("--set", "supportActingMaster=true", "--set", "notifyMinBrokerIdChanged=true")
    with servers.namesrv(tmp_path_factory.mktemp("namesrv"), *settings) as server:
        yield server


def test_it_answers_as_a_real_one(namesrv: Server) -> None:
    with Wire(namesrv.namesrv_addr) as client, Wire(namesrv.namesrv_addr) as slave, ExitStack() as stack:
        master = stack.enter_context(Wire(namesrv.namesrv_addr))
        compared = 0
        for exchange in acting_exchanges():
            if exchange.request.code not in ASKED_OF_NAMESERVERS:
                continue
            if exchange.name == MASTER_DIES_BEFORE:
                master.close()
                servers.until(lambda: b"10911" not in client.ask(exchange.request.code, exchange.request.ext).body)  # noqa: B023
                assert client.ask(R.GET_ROUTEINFO_BY_TOPIC, RouteHeader(topic="BenchmarkTest")).body == SLAVE_ACTS
            wire = client
            if exchange.request.code == R.REGISTER_BROKER:
                wire = master if exchange.request.ext["brokerId"] == "0" else slave
            found = wire.ask(exchange.request.code, exchange.request.ext, exchange.request.body)
            assert golden.said(found) == golden.said(exchange.answer), exchange.name
            compared += 1
        assert compared == 10


class Broker:
    """A broker that registers, and listens to notices of nameservers."""

    def __init__(self, stack: ExitStack, namesrv: Server, name: str, broker_id: int, *, acts: bool = True):
        self.peer = stack.enter_context(Peer(lambda request: None))
        self.wire = stack.enter_context(Wire(namesrv.namesrv_addr))
        header = RegisterBrokerHeader(
            broker_name=name, broker_addr=self.peer.address, cluster_name="c", ha_server_addr=f"ha-of-{broker_id}:1",
            broker_id=broker_id, enable_acting_master=acts,
        )  # fmt: skip
        assert self.wire.ask(R.REGISTER_BROKER, header).code == 0

    @property
    def told(self) -> list[MinBrokerIdHeader]:
        with self.peer.changed:
            assert all(each.code == R.NOTIFY_MIN_BROKER_ID_CHANGE and each.is_oneway for each in self.peer.requests)
            return [from_ext(each.ext, MinBrokerIdHeader) for each in self.peer.requests]


def test_the_others_are_told_who_has_the_smallest_id(namesrv: Server) -> None:
    with ExitStack() as stack:
        first, second = Broker(stack, namesrv, "set", 1), Broker(stack, namesrv, "set", 2)
        master = Broker(stack, namesrv, "set", 0)
        came = MinBrokerIdHeader(
            min_broker_id=0, broker_name="set", min_broker_addr=master.peer.address, ha_broker_addr="ha-of-0:1"
        )
        for each in (first, second):
            servers.until(lambda: each.told == [came])  # noqa: B023
        master.wire.close()
        gone = MinBrokerIdHeader(
            min_broker_id=1, broker_name="set", min_broker_addr=first.peer.address,
            offline_broker_addr=master.peer.address,
        )  # fmt: skip
        for each in (first, second):
            servers.until(lambda: each.told == [came, gone])  # noqa: B023
        second.wire.close()
        servers.until(lambda: second.peer.address.encode() not in first.wire.ask(R.GET_BROKER_CLUSTER_INFO).body)
        again = Broker(stack, namesrv, "set", 0)
        servers.until(lambda: len(first.told) == 3)
        assert first.told[2].min_broker_addr == again.peer.address
        assert master.told == again.told == []
        assert second.told == [came, gone], "who has not the smallest id goes unnoticed"


def test_brokers_without_an_acting_master_are_told_nothing(namesrv: Server) -> None:
    with ExitStack() as stack:
        slave = Broker(stack, namesrv, "plain", 1, acts=False)
        Broker(stack, namesrv, "plain", 0, acts=False)
        other = Broker(stack, namesrv, "acting", 1)
        Broker(stack, namesrv, "acting", 0)
        servers.until(lambda: len(other.told) == 1)
        assert slave.told == []
