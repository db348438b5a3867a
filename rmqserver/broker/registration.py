"""Keeps the nameservers informed of this broker: each by a connection of its own, at start, after every change of a
topic, and every half minute (``BrokerController.registerBrokerAll``, 5.5.0).

A nameserver forgets a broker whose connection ends, so a connection that breaks is opened again, and one nameserver
that is down holds up neither the others nor the broker.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from typing import Protocol

import trio

from rmqproto import fastjson
from rmqproto.bodies import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigs
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.command import Command
from rmqproto.crc import body_crc
from rmqproto.headers import BrokerIdentityHeader, Header, RegisterBrokerHeader
from rmqserver.config import BrokerConfig
from rmqserver.connection import Connection
from rmqserver.dispatch import Service
from rmqserver.loop import Loop

log = logging.getLogger(__name__)

PERIOD_MIN_MS, PERIOD_MAX_MS = 10_000, 60_000
"""Apache keeps ``registerNameServerPeriod`` in these bounds."""

CONNECT_TIMEOUT_S = 3.0
RECONNECT_AFTER_S = 1.0
FIRST_ROUND_MAX_S = 1.0
"""How long the start of the broker waits for nameservers that do not answer."""

UNREGISTER_MAX_S = 1.0
HA_PORT_DISTANCE = 1
PERM_READ_WRITE = 6


class Topics(Protocol):
    """What is read of the table of topics."""

    data_version: DataVersion

    def all(self) -> Mapping[str, TopicConfig]: ...


class Registration:
    """``run`` is a task of the broker's nursery; ``changed`` may be called as often as topics change."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        loop: Loop,
        namesrv_addrs: list[str],
        advertise: Callable[[str], str],
    ):
        """``advertise`` makes the address to be registered from that by which we reach the nameserver."""
        self._config = config
        self._topics = topics
        self._links = [_Link(self, loop, addr) for addr in namesrv_addrs]
        self._advertise = advertise
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self.change_count = 0

    async def run(self) -> None:
        """Never returns."""
        async with trio.open_nursery() as nursery:
            for link in self._links:
                nursery.start_soon(link.run)

    async def first_round(self) -> None:
        """Returns when every nameserver was tried, or FIRST_ROUND_MAX_S are over."""
        with trio.move_on_after(FIRST_ROUND_MAX_S):
            for link in self._links:
                await link.tried.wait()

    def changed(self) -> None:
        """All nameservers are told soon; changes of one moment are told together."""
        self.change_count += 1
        for link in self._links:
            link.changed.set()

    def when_told(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` when every nameserver that answers knows of the changes so far: who created a topic may
        ask for its route as soon as the answer is there."""
        self._waiting.append((self.change_count, callback))
        self.link_told()

    def link_told(self) -> None:
        told = min((link.told_count for link in self._links if not link.is_down), default=self.change_count)
        due = [callback for count, callback in self._waiting if count <= told]
        self._waiting = [(count, callback) for count, callback in self._waiting if count > told]
        for callback in due:
            callback()

    async def unregister(self) -> None:
        """Tells every nameserver that can be reached now that the broker goes. Takes UNREGISTER_MAX_S at most."""
        with trio.move_on_after(UNREGISTER_MAX_S):
            async with trio.open_nursery() as nursery:
                for link in self._links:
                    nursery.start_soon(link.unregister)

    def address(self, local_host: str) -> str:
        return self._advertise(local_host)

    @property
    def period_s(self) -> float:
        return min(max(self._config.register_name_server_period_ms, PERIOD_MIN_MS), PERIOD_MAX_MS) / 1000

    @property
    def timeout_s(self) -> float:
        return self._config.register_broker_timeout_ms / 1000

    def identity(self, addr: str) -> BrokerIdentityHeader:
        config = self._config
        return BrokerIdentityHeader(
            broker_name=config.broker_name,
            broker_addr=addr,
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
        )

    def registration(self, addr: str) -> tuple[RegisterBrokerHeader, bytes]:
        """Header and body of 103, with all topics."""
        config = self._config
        host, _, port = addr.rpartition(":")
        wrapper = TopicConfigs(
            data_version=self._topics.data_version,
            mapping_data_version=DataVersion(),
            topic_config_table=self._permitted_topics(),
            topic_queue_mapping_detail_map={},
            topic_queue_mapping_info_map={},
        )
        body = fastjson.dumps(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
        header = RegisterBrokerHeader(
            broker_name=config.broker_name,
            broker_addr=addr,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=f"{host}:{int(port) + HA_PORT_DISTANCE}",
            broker_id=config.broker_id,
            enable_acting_master=False,
            body_crc32=body_crc(body),
        )
        return header, body

    def _permitted_topics(self) -> dict[str, TopicConfig]:
        """The broker's own permission bounds that of its topics."""
        topics, perm = dict(self._topics.all()), self._config.broker_permission
        if perm & PERM_READ_WRITE == PERM_READ_WRITE:
            return topics
        for name, topic in topics.items():
            topics[name] = TopicConfig(**{field: getattr(topic, field) for field in topic.__struct_fields__})
            topics[name].perm &= perm
        return topics


class _Link(Service):
    """One nameserver. It puts no requests to us that need an answer, so there are no handlers."""

    def __init__(self, owner: Registration, loop: Loop, namesrv_addr: str):
        super().__init__("registration", {})
        self.changed = trio.Event()
        self.tried = trio.Event()
        self._owner = owner
        self._loop = loop
        self._namesrv_addr = namesrv_addr
        self.told_count = -1
        self.is_down = False
        self._connection: Connection | None = None

    def connection_closed(self, connection: Connection) -> None:
        self._connection = None
        self.changed.set()

    async def run(self) -> None:
        """Registers again and again. A nameserver that comes back is told within RECONNECT_AFTER_S."""
        while True:
            self.changed = trio.Event()
            change_count = self._owner.change_count
            if await self._register():
                self.told_count = change_count
            self.tried.set()
            self._owner.link_told()
            if self._connection is not None:
                with trio.move_on_after(self._owner.period_s):
                    await self.changed.wait()
            if self._connection is None:
                await trio.sleep(RECONNECT_AFTER_S)

    async def _register(self) -> bool:
        try:
            connection = self._connection or await self._connect()
        except OSError as error:
            self._note(str(error) or type(error).__name__)
            return False
        header, body = self._owner.registration(self._broker_addr(connection))
        answer = await _ask(connection, RequestCode.REGISTER_BROKER, header, body, self._owner.timeout_s)
        if answer is None:
            self._note("no answer, or the connection broke")
            connection.close("registration was not answered")
            return False
        self._note("" if answer.code == ResponseCode.SUCCESS else f"{answer.code} {answer.remark}")
        return True

    async def unregister(self) -> None:
        if self._connection is not None:
            header = self._owner.identity(self._broker_addr(self._connection))
            await _ask(self._connection, RequestCode.UNREGISTER_BROKER, header, b"", UNREGISTER_MAX_S)

    async def _connect(self) -> Connection:
        host, _, port = self._namesrv_addr.rpartition(":")
        try:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                stream = await trio.open_tcp_stream(host.strip("[]"), int(port))
        except trio.TooSlowError:
            raise TimeoutError(f"no connection in {CONNECT_TIMEOUT_S:g} s") from None
        sock = socket.socket(fileno=stream.socket.detach())
        try:
            self._connection = self._loop.adopt(sock, self)
        except OSError:
            sock.close()
            raise
        return self._connection

    def _broker_addr(self, connection: Connection) -> str:
        return self._owner.address(connection.local_addr.rpartition(":")[0])

    def _note(self, problem: str) -> None:
        """Logs when a nameserver goes and when it is back, not every time that it is still so."""
        if problem and not self.is_down:
            log.warning("event=register-failed namesrv=%s reason=%r", self._namesrv_addr, problem)
        elif not problem and (self.is_down or not self.tried.is_set()):
            log.info("event=registered namesrv=%s", self._namesrv_addr)
        self.is_down = bool(problem)


async def _ask(connection: Connection, code: int, header: Header, body: bytes, timeout_s: float) -> Command | None:
    """The answer; None when it is late or the connection ends."""
    done = trio.Event()
    answers: list[Command | None] = []

    def on_answer(answer: Command | None) -> None:
        answers.append(answer)
        done.set()

    connection.request(code, header, body, on_answer, timeout_s)
    await done.wait()
    return answers[0]
