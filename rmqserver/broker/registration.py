"""Keeps the nameservers informed of this broker, over one connection to each: of all topics at start and every half
minute (``BrokerController.registerBrokerAll``, 5.5.0), and of changed topics after every change.

A nameserver forgets a broker whose connection ends, so a broken connection is reopened. A nameserver that is down
delays neither the others nor the broker.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection

import trio

from rmqproto.bodies.routes import TopicConfig, TopicRoute
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import Header, from_ext
from rmqproto.headers.nameserver import (
    RegisterBrokerAnswer,
    RouteHeader,
)
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials
from rmqserver.broker.own_address import Announcement
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.outward import ask, connect, signed
from rmqserver.remoting.pump import Pump, plain_pump
from rmqserver.remoting.service import Service

log = logging.getLogger(__name__)

PERIOD_MIN_MS, PERIOD_MAX_MS = 10_000, 60_000
"""Apache keeps ``registerNameServerPeriod`` within these bounds."""

RECONNECT_AFTER_S = 1.0
FIRST_ROUND_MAX_S = 3.0
"""How long the broker's start waits for nameservers that do not answer. A nameserver that is up may need more than a
second on a busy machine, and anyone who has seen the ready line expects the broker to be known."""

TOLD_MAX_S = 1.0
"""The same for a broker that is reopened in another role while the process runs: it serves nobody until then."""

UNREGISTER_MAX_S = 1.0

ROUTE_MAX_S = 1.5
"""How long a client's question waits for a nameserver that hangs: clients wait three seconds."""

SINGLE_TOPICS_MAX = 64
"""The most topics that are registered one by one. If more change at once, all topics are registered."""


MASTER_SEARCH_PERIOD_S = 2.0
"""How often a slave registers until a nameserver has told it its master."""

OnMaster = Callable[[str, str], None]


class Registration:
    """Registers the broker. ``run`` is a task of its nursery; ``changed`` may be called as often as topics change."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: Loop,
        namesrv_addrs: list[str],
        advertise: Callable[[str], str],
        make_pump: Callable[[], Pump] = plain_pump,
        credentials: Credentials | None = None,
    ):
        """``advertise`` turns the local address that reaches a nameserver into the address to be registered;
        ``make_pump`` makes the pump of each connection; ``credentials`` sign our requests."""
        self._config = config
        self.announcement = Announcement(config)
        self._links = [_Link(self, loop, addr, make_pump) for addr in namesrv_addrs]
        self._advertise = advertise
        self.credentials = credentials
        self.make_pump = make_pump
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._on_master: OnMaster | None = None
        self._has_master = False
        self.change_count = 0

    async def run(self, topics: TopicTable) -> None:
        """Never returns."""
        async with trio.open_nursery() as nursery:
            for link in self._links:
                nursery.start_soon(link.run, topics)

    def when_master_is_known(self, on_master: OnMaster) -> None:
        """For a slave: calls ``on_master`` with its master's address, and the address to which slaves connect, every
        time a nameserver tells them."""
        self._on_master = on_master

    def told_master(self, answer: Command) -> None:
        """Takes a nameserver's answer to a registration."""
        if self._on_master is None:
            return
        found = from_ext(answer.ext, RegisterBrokerAnswer)
        if found.master_addr and found.ha_server_addr:
            self._has_master = True
            self._on_master(found.master_addr, found.ha_server_addr)

    async def first_round(self) -> None:
        """Returns when every nameserver has been tried, or after FIRST_ROUND_MAX_S."""
        with trio.move_on_after(FIRST_ROUND_MAX_S):
            for link in self._links:
                await link.tried.wait()

    def changed(self, put_names: Collection[str] | None) -> None:
        """Tells all nameservers of these topics soon, or of all topics if None; changes of one moment are told
        together. A deleted topic disappears with the next regular registration, as in Apache's broker."""
        self.change_count += 1
        for link in self._links:
            link.topics_changed(put_names)

    def when_told(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` when every nameserver that answers knows the changes so far: a client that created a topic
        may ask for its route as soon as it has the answer."""
        self._waiting.append((self.change_count, callback))
        self.link_told()

    async def told(self) -> None:
        """Returns when every nameserver that answers knows the changes so far, or after TOLD_MAX_S."""
        event = trio.Event()
        self.when_told(event.set)
        with trio.move_on_after(TOLD_MAX_S):
            await event.wait()

    def link_told(self) -> None:
        told = min((link.told_count for link in self._links if not link.is_down), default=self.change_count)
        due = [callback for count, callback in self._waiting if count <= told]
        self._waiting = [(count, callback) for count, callback in self._waiting if count > told]
        for callback in due:
            callback()

    def ask_route(self, topic: str, on_route: Callable[[TopicRoute | None], None]) -> None:
        """Asks one connected nameserver for the topic's route and calls ``on_route`` once: with None if it does not
        know the topic or does not answer, or if none is connected."""
        link = next((link for link in self._links if link.is_connected), None)
        if link is None:
            on_route(None)
        else:
            link.ask_route(topic, on_route)

    async def unregister(self) -> None:
        """Tells every connected nameserver that the broker goes. Takes UNREGISTER_MAX_S at most."""
        with trio.move_on_after(UNREGISTER_MAX_S):
            async with trio.open_nursery() as nursery:
                for link in self._links:
                    nursery.start_soon(link.unregister)

    def address(self, local_host: str) -> str:
        return self._advertise(local_host)

    @property
    def period_s(self) -> float:
        if self._on_master is not None and not self._has_master:
            return MASTER_SEARCH_PERIOD_S
        return min(max(self._config.register_name_server_period_ms, PERIOD_MIN_MS), PERIOD_MAX_MS) / 1000

    @property
    def timeout_s(self) -> float:
        return self._config.register_broker_timeout_ms / 1000


class _Link(Service):
    """The link to one nameserver. A nameserver sends us no requests that need an answer, so there are no handlers."""

    def __init__(self, owner: Registration, loop: Loop, namesrv_addr: str, make_pump: Callable[[], Pump]):
        super().__init__("registration", {})
        self.tried = trio.Event()
        self._changed = trio.Event()
        self._changed_names: dict[str, None] | None = None
        """Topics that this nameserver has not been told yet. None: all of them, and the broker itself."""
        self._registered_at = 0.0
        """When it was last told all topics, in trio's time. A single topic does not show it that the broker lives."""
        self._takes_singles = True
        """False if the nameserver does not know 217 (before 5.0)."""
        self._owner = owner
        self._loop = loop
        self._namesrv_addr = namesrv_addr
        self._make_pump = make_pump
        self.told_count = -1
        self.is_down = False
        self._connection: Connection | None = None

    def connection_closed(self, connection: Connection) -> None:
        self._connection = None
        self.topics_changed(None)

    def topics_changed(self, put_names: Collection[str] | None) -> None:
        """As the owner's ``changed``."""
        if put_names is None:
            self._changed_names = None
        elif self._changed_names is not None:
            self._changed_names.update(dict.fromkeys(put_names))
            if len(self._changed_names) > SINGLE_TOPICS_MAX:
                self._changed_names = None
        self._changed.set()

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and not self._connection.closed

    def ask_route(self, topic: str, on_route: Callable[[TopicRoute | None], None]) -> None:
        """As the owner's; the link is connected."""
        assert self._connection is not None

        def on_answer(answer: Command | None) -> None:
            route = None
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                with contextlib.suppress(ProtocolError):
                    route = fastjson.loads_untrusted(answer.body, TopicRoute)
            on_route(route)

        header = RouteHeader(topic=topic)
        ext = signed(header, b"", self._owner.credentials)
        timeout_s = min(self._owner.timeout_s, ROUTE_MAX_S)
        self._connection.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext, b"", on_answer, timeout_s)

    async def run(self, topics: TopicTable) -> None:
        """Registers again and again. A nameserver that comes back is told within RECONNECT_AFTER_S."""
        while True:
            self._changed = trio.Event()
            change_count = self._owner.change_count
            changed_names, self._changed_names = self._changed_names, {}
            if await self._tell(topics, changed_names):
                self.told_count = change_count
            else:
                self._changed_names = None
            self.tried.set()
            self._owner.link_told()
            if self._connection is not None:
                with trio.move_on_at(self._registered_at + self._owner.period_s):
                    await self._changed.wait()
                if trio.current_time() >= self._registered_at + self._owner.period_s:
                    self._changed_names = None
            if self._connection is None:
                await trio.sleep(RECONNECT_AFTER_S)

    async def _tell(self, topics: TopicTable, changed_names: Collection[str] | None) -> bool:
        """Tells the nameserver of these topics, or of all if None. Returns False if it does not know them then."""
        if changed_names is None or self._connection is None or not self._takes_singles:
            return await self._register(topics)
        configs = [config for name in changed_names if (config := topics.all().get(name)) is not None]
        return await self._register_singles(self._connection, configs) or await self._register(topics)

    async def _register_singles(self, connection: Connection, configs: list[TopicConfig]) -> bool:
        """Registers each topic with 217, as Apache's broker does with ``enableSingleTopicRegister``. Without that
        setting, Apache's broker sends a registration with one topic only, for which a nameserver with
        ``deleteTopicWithBrokerRegistration`` would delete all other topics."""
        answers: list[Command | None] = []

        async def tell(config: TopicConfig) -> None:
            header, body = self._owner.announcement.one_topic(config)
            code = RequestCode.REGISTER_TOPIC_IN_NAMESRV
            answers.append(await self._ask(connection, code, header, body, self._owner.timeout_s))

        async with trio.open_nursery() as nursery:
            for config in configs:
                nursery.start_soon(tell, config)
        codes = {answer.code for answer in answers if answer is not None}
        self._takes_singles = ResponseCode.REQUEST_CODE_NOT_SUPPORTED not in codes
        return None not in answers and codes <= {ResponseCode.SUCCESS}

    async def _register(self, topics: TopicTable) -> bool:
        try:
            if self._connection is None:
                self._connection = await connect(self._loop, self, self._namesrv_addr, self._make_pump())
            connection = self._connection
        except OSError as error:
            self._note(str(error) or type(error).__name__)
            return False
        header, body = self._owner.announcement.all_topics(
            self._broker_addr(connection), topics.data_version, topics.all()
        )
        self._registered_at = trio.current_time()
        answer = await self._ask(connection, RequestCode.REGISTER_BROKER, header, body, self._owner.timeout_s)
        if answer is None:
            self._note("no answer, or the connection broke")
            connection.close("registration was not answered")
            return False
        self._note("" if answer.code == ResponseCode.SUCCESS else f"{answer.code} {answer.remark}")
        if answer.code == ResponseCode.SUCCESS:
            self._owner.told_master(answer)
        return True

    async def unregister(self) -> None:
        if self._connection is not None:
            header = self._owner.announcement.identity(self._broker_addr(self._connection))
            await self._ask(self._connection, RequestCode.UNREGISTER_BROKER, header, b"", UNREGISTER_MAX_S)

    def _broker_addr(self, connection: Connection) -> str:
        return self._owner.address(connection.local_addr.rpartition(":")[0])

    def _note(self, problem: str) -> None:
        """Logs when a nameserver goes and when it is back, but not each time it is still so."""
        if problem and not self.is_down:
            log.warning("event=register-failed namesrv=%s reason=%r", self._namesrv_addr, problem)
        elif not problem and (self.is_down or not self.tried.is_set()):
            log.info("event=registered namesrv=%s", self._namesrv_addr)
        self.is_down = bool(problem)

    async def _ask(
        self, connection: Connection, code: int, header: Header, body: bytes, timeout_s: float
    ) -> Command | None:
        ext = signed(header, body, self._owner.credentials)
        return await ask(connection, code, ext, body, timeout_s)
