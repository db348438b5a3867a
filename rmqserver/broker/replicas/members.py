"""Which brokers of this broker's name the nameservers know, for slaves that may act for their master
(``BrokerController.syncBrokerMemberGroup``, ``sendHeartbeat``, 5.5.0): every second this broker sends each nameserver a
heartbeat, and asks it which brokers live."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import trio

from rmqproto.bodies.routes import BrokerMemberGroupAnswer, TopicRoute
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.nameserver import BrokerHeartbeatHeader, BrokerIdentityHeader, MemberGroupHeader, RouteHeader
from rmqproto.names import member_group_topic
from rmqproto.wire.fastjson import dumps, loads_untrusted

if TYPE_CHECKING:
    from rmqproto.bodies.base import DataVersion
    from rmqproto.headers.base import Header
    from rmqproto.wire.command import Command
    from rmqserver.config.broker_config import BrokerConfig

log = logging.getLogger(__name__)

Addrs = Mapping[int, str]
"""Addresses by broker id."""


class AskedNameservers(Protocol):
    """Asks nameservers (``Registration``)."""

    async def ask_each(self, code: int, header: Header, body: bytes = b"", *, connects: bool = False) -> list[Command]:
        """The answers of the connected nameservers; with ``connects``, of all that can be reached."""
        ...

    def own_addr(self) -> str | None:
        """The address under which a nameserver knows this broker; None while none is connected."""
        ...


class KnownMembers:
    """``run`` is a task of the broker."""

    def __init__(self, config: BrokerConfig, nameservers: AskedNameservers, version: Callable[[], DataVersion]):
        """``version`` returns the present version of the topics."""
        self._config = config
        self._nameservers = nameservers
        self._version = version
        self._asked_to_look = trio.Event()
        self.on_found: Callable[[Sequence[Addrs]], None] = lambda found: None
        """Called with the answers of the nameservers, whenever at least one has answered."""

    def look_again(self) -> None:
        """Asks at once, instead of within a second. The notice that prompted this is not trusted itself."""
        self._asked_to_look.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        beat_at_s = 0.0
        while True:
            if (now_s := trio.current_time()) >= beat_at_s:
                beat_at_s = now_s + self._config.broker_heartbeat_interval_ms / 1000
                await self._beat()
            self._asked_to_look = trio.Event()
            if found := await self.ask():
                self.on_found(found)
            with trio.move_on_after(self._config.sync_broker_member_group_period_ms / 1000):
                await self._asked_to_look.wait()

    async def ask(self, *, connects: bool = False) -> list[Addrs]:
        """The members as each nameserver that answers knows them; ``connects`` as for ``ask_each``."""
        name = self._config.broker_name
        if self._config.compatible_with_old_name_srv:
            code, header = RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteHeader(topic=member_group_topic(name))
            answers = await self._nameservers.ask_each(code, header, connects=connects)
        else:
            group = MemberGroupHeader(cluster_name=self._config.broker_cluster_name, broker_name=name)
            answers = await self._nameservers.ask_each(RequestCode.GET_BROKER_MEMBER_GROUP, group, connects=connects)
        found = []
        for answer in answers:
            try:
                addrs = self._addrs_of(answer)
            except ProtocolError as error:
                log.warning("event=members-not-read reason=%r", str(error))
                continue
            if addrs is not None:
                found.append(addrs)
        return found

    def _addrs_of(self, answer: Command) -> Addrs | None:
        """Returns None if the nameserver does not say. Raises ProtocolError."""
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return {}
        if answer.code != ResponseCode.SUCCESS:
            return None
        if not self._config.compatible_with_old_name_srv:
            return loads_untrusted(answer.body, BrokerMemberGroupAnswer).broker_member_group.broker_addrs
        brokers = loads_untrusted(answer.body, TopicRoute).broker_datas
        return next((each.broker_addrs for each in brokers if each.broker_name == self._config.broker_name), {})

    async def _beat(self) -> None:
        config, addr = self._config, self._nameservers.own_addr()
        if addr is None:
            return
        name, cluster = config.broker_name, config.broker_cluster_name
        if config.compatible_with_old_name_srv:
            identity = BrokerIdentityHeader(
                broker_name=name, broker_addr=addr, cluster_name=cluster, broker_id=config.broker_id
            )
            await self._nameservers.ask_each(RequestCode.QUERY_DATA_VERSION, identity, dumps(self._version()))
        else:
            header = BrokerHeartbeatHeader(cluster_name=cluster, broker_addr=addr, broker_name=name)
            await self._nameservers.ask_each(RequestCode.BROKER_HEARTBEAT, header)
