"""Registration with real nameservers on one loop. Some of them do not answer, or do not exist."""

import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.nameserver import RegisterBrokerHeader, RouteHeader
from rmqproto.headers.tables import TopicHeader
from rmqserver.broker import registration as registration_module
from rmqserver.broker.registration import Registration
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.namesrv.kv import KvConfig
from rmqserver.namesrv.nameserver import Nameserver
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Service


class Topics:
    """A table of topics that counts its versions."""

    def __init__(self) -> None:
        self.data_version = DataVersion(timestamp=1)
        self._topics = {name: TopicConfig(topic_name=name) for name in ("T", "U")}

    def all(self) -> Mapping[str, TopicConfig]:
        return self._topics

    def put(self, name: str) -> None:
        self._topics = {**self._topics, name: TopicConfig(topic_name=name)}
        self.data_version = DataVersion(counter=self.data_version.counter + 1, timestamp=1)


class Watched(Nameserver):
    """A nameserver that keeps the headers of broker registrations, and the names of topics registered singly. An old
    one knows no single registration."""

    def __init__(self, *, is_old: bool = False) -> None:
        super().__init__(NamesrvConfig(), KvConfig())
        self.registered: list[RegisterBrokerHeader] = []
        self.singles: list[str] = []
        self._is_old = is_old

    def register_topic(self, request: Request[TopicHeader], connection: Connection) -> bytes:
        if self._is_old:
            raise Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 217 not supported")
        self.singles.append(request.header.topic)
        return super().register_topic(request, connection)

    def register_broker(self, request: Request[RegisterBrokerHeader], connection: Connection) -> bytes:
        self.registered.append(request.header)
        return super().register_broker(request, connection)


class Silent(Service):
    """A nameserver that takes registrations and never answers."""

    def __init__(self) -> None:
        super().__init__("silent", {code: self.wait for code in RequestCode})

    def wait(self, request: Request[Any], connection: Connection) -> None:
        """Would answer later, but never does."""


class Broker:
    """A registration with its loop. ``down`` is the number of nameservers that do not exist."""

    def __init__(self, *nameservers: Service, down: int = 0, **settings: str):
        self.topics = Topics()
        config = BrokerConfig()
        config.load(settings)
        self.loop = Loop()
        self.addrs = [f"127.0.0.1:{self.loop.listen('127.0.0.1', 0, nameserver)}" for nameserver in nameservers]
        for _ in range(down):
            with socket.create_server(("127.0.0.1", 0)) as unused:
                self.addrs.append(f"127.0.0.1:{unused.getsockname()[1]}")
        self.registration = Registration(config, self.loop, self.addrs, lambda host: f"{host}:10911")


@asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[Registration]:
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.loop.run)
            nursery.start_soon(broker.registration.run, broker.topics)
            with trio.fail_after(30):
                await broker.registration.first_round()
                yield broker.registration
            nursery.cancel_scope.cancel()
    finally:
        broker.loop.close()


async def told(registration: Registration) -> None:
    event = trio.Event()
    registration.when_told(event.set)
    await event.wait()


async def test_what_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_ZONE", "z1")
    nameserver = Watched()
    broker = Broker(nameserver, brokerName="b", brokerClusterName="c")
    async with running(broker):
        (said,) = nameserver.registered
        assert (said.cluster_name, said.broker_name, said.broker_id) == ("c", "b", 0)
        assert (said.broker_addr, said.ha_server_addr) == ("127.0.0.1:10911", "127.0.0.1:10912")
        assert (said.compressed, said.enable_acting_master, said.zone_name) == (False, False, "z1")
        assert said.body_crc32 != 0
        assert nameserver.routes.topics() == ["T", "U"]


async def test_a_route_that_cannot_be_read_is_none_and_the_link_stays() -> None:
    """The caller used to get no answer, and the broker registered with the nameserver anew."""

    class Garbled(Watched):
        def route(self, request: Request[RouteHeader], connection: Connection) -> bytes:
            return success(request, body=b"{")

    nameserver = Garbled()
    broker = Broker(nameserver)
    async with running(broker) as registration:
        send, receive = trio.open_memory_channel[object](1)
        registration.ask_route("T", send.send_nowait)
        assert await receive.receive() is None
        broker.topics.put("V")
        registration.changed(["V"])
        await told(registration)
        assert nameserver.singles == ["V"]


async def test_who_asks_for_a_route_does_not_wait_for_a_nameserver_that_hangs() -> None:
    class Hung(Watched):
        def route(self, request: Request[RouteHeader], connection: Connection) -> None:  # type: ignore[override]
            return None

    broker = Broker(Hung(), registerBrokerTimeoutMills="600000")
    async with running(broker) as registration:
        send, receive = trio.open_memory_channel[object](1)
        registration.ask_route("T", send.send_nowait)
        with trio.fail_after(60):
            assert await receive.receive() is None


async def test_a_nameserver_that_has_no_address_ends_nothing() -> None:
    nameserver = Watched()
    broker = Broker(nameserver)
    addrs = [*broker.addrs, "nowhere", "host:port", "127.0.0.1:70000", "a..b:9876"]
    broker.registration = Registration(BrokerConfig(), broker.loop, addrs, lambda host: f"{host}:10911")
    async with running(broker):
        assert nameserver.routes.topics() == ["T", "U"]


async def test_changes_of_one_moment_are_told_together_and_when_told_waits_for_them() -> None:
    nameserver = Watched()
    broker = Broker(nameserver)
    async with running(broker) as registration:
        for number in range(100):
            broker.topics.put(f"N{number}")
            registration.changed([f"N{number}"])
        await told(registration)
        assert nameserver.routes.route("N99") is not None
        assert len(nameserver.registered) <= 3


async def test_topics_made_one_by_one_are_told_one_by_one() -> None:
    """Each topic used to be sent with all others: 1,000 more beside 10,000 took minutes."""
    nameserver = Watched()
    broker = Broker(nameserver, brokerPermission="4")
    async with running(broker) as registration:
        for number in range(100):
            broker.topics.put(f"N{number}")
            registration.changed([f"N{number}"])
            await told(registration)
            route = nameserver.routes.route(f"N{number}")
            (queue_data,) = route.queue_datas
            assert (queue_data.broker_name, queue_data.perm) == ("broker-a", 4)
            assert (queue_data.read_queue_nums, queue_data.write_queue_nums) == (16, 16)
        assert nameserver.singles == [f"N{number}" for number in range(100)]
        assert len(nameserver.registered) == 1


async def test_a_nameserver_that_takes_no_single_topic_is_told_all() -> None:
    nameserver = Watched(is_old=True)
    broker = Broker(nameserver)
    async with running(broker) as registration:
        for count, name in enumerate("NM", 2):
            broker.topics.put(name)
            registration.changed([name])
            await told(registration)
            assert nameserver.routes.route(name) is not None
            assert len(nameserver.registered) == count


async def test_a_change_of_any_topic_is_told_with_all_topics() -> None:
    nameserver = Watched()
    broker = Broker(nameserver)
    async with running(broker) as registration:
        registration.changed(None)
        await told(registration)
        assert len(nameserver.registered) == 2
        assert nameserver.singles == []


async def test_a_broker_whose_topics_change_all_the_time_still_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a registration shows that the broker lives; a nameserver forgets it after two minutes."""
    monkeypatch.setattr(registration_module, "PERIOD_MIN_MS", 1)
    nameserver = Watched()
    broker = Broker(nameserver, registerNameServerPeriod="1")
    async with running(broker) as registration:
        while len(nameserver.registered) < 3:
            registration.changed(["U"])
            await told(registration)


async def test_a_nameserver_that_is_down_or_silent_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The start waits a moment for the silent one. Answers to requests that create topics never wait for the one that
    is down."""
    nameserver = Watched()
    broker = Broker(nameserver, down=1)
    async with running(broker) as registration:
        broker.topics.put("N")
        registration.changed(["N"])
        await told(registration)
        assert nameserver.routes.route("N") is not None
    assert f"event=register-failed namesrv={broker.addrs[1]}" in caplog.text
    monkeypatch.setattr(registration_module, "FIRST_ROUND_MAX_S", 0.01)
    monkeypatch.setattr(registration_module, "UNREGISTER_MAX_S", 0.01)
    async with running(Broker(Silent())) as registration:
        await registration.unregister()


async def test_without_nameservers_nobody_waits() -> None:
    broker = Broker()
    async with running(broker) as registration:
        registration.changed(None)
        await told(registration)
        await registration.unregister()


async def test_unregistering_and_a_connection_that_breaks() -> None:
    nameserver = Watched()
    broker = Broker(nameserver)
    async with running(broker) as registration:
        assert nameserver.routes.topics() == ["T", "U"]
        await registration.unregister()
        assert nameserver.routes.topics() == []
        for connection in broker.loop.connections:
            connection.close("a test")
        await until(lambda: nameserver.routes.topics() == ["T", "U"])


def test_the_brokers_permission_bounds_that_of_its_topics() -> None:
    broker = Broker(brokerPermission="4")
    topics = broker.topics
    _, body = broker.registration.announcement.all_topics("127.0.0.1:10911", topics.data_version, topics.all())
    assert body.count(b'"perm":4') == 2
    assert {topic.perm for topic in broker.topics.all().values()} == {6}
    broker.loop.close()


@pytest.mark.parametrize(("period_ms", "period_s"), [("1", 10), ("30000", 30), ("999999", 60)])
def test_the_period_keeps_apaches_bounds(period_ms: str, period_s: float) -> None:
    broker = Broker(registerNameServerPeriod=period_ms)
    assert broker.registration.period_s == period_s
    broker.loop.close()


async def until(check: Callable[[], bool]) -> None:
    while not check():
        await trio.lowlevel.checkpoint()
