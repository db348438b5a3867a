"""Asks the brokers on which the queues of static topics were before: their older messages and offsets are still there
(``RpcClientImpl``, 5.5.0). Apache's broker waits in a thread; here the answer comes back to the loop.

A request is asked about a physical queue (``lo`` is false), and its answer is given to the client in logical offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import trio

from rmqproto.bodies.routes import TopicRoute
from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import Header
from rmqproto.headers.consuming import (
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from rmqproto.queue_mapping import MappingError
from rmqproto.wire.command import Command
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, refusal, send_answer
from rmqserver.remoting.outward import connect, signed
from rmqserver.remoting.service import Service

if TYPE_CHECKING:
    from rmqproto.bodies.static_topics import LogicQueueMappingItem
    from rmqserver.broker.nameservers import Nameservers
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.loop import Loop

WAITING_MAX = 1000
"""Limit on requests that wait for the connection to one broker; more are refused."""

ANSWERED = frozenset((ResponseCode.SUCCESS,))

Render = Callable[[Command], bytes | None]
"""Makes the client's answer of the other broker's; None if it has asked again."""

H = TypeVar("H", QueueHeader, SearchOffsetHeader, QueryConsumerOffsetHeader, UpdateConsumerOffsetHeader)


def physical(header: H, item: LogicQueueMappingItem) -> H:
    """The header for the queue of a mapping item, as one broker asks another."""
    return msgspec.structs.replace(header, queue_id=item.queue_id, logical="false")


class _Asked(NamedTuple):
    request: Request[Any]
    connection: Connection
    item: LogicQueueMappingItem
    header: Header
    render: Render
    codes: Collection[int]


class FormerBrokers(Service):
    """``run`` is a task of the broker; while it does not run, every request is refused."""

    def __init__(self, config: BrokerConfig, loop: Loop | None = None, nameservers: Nameservers | None = None):
        """Routes come from ``nameservers``, and so do TLS and signatures."""
        super().__init__("former-brokers", {})
        self._config = config
        self._loop = loop
        self._nameservers = nameservers
        self._links: dict[str, Connection] = {}
        """Open connections by the name of the broker."""
        self._waiting: dict[str, list[_Asked]] = {}
        """Requests that wait for a connection, by the name of the broker."""
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as self._nursery:
                await trio.sleep_forever()
        finally:
            self._nursery = None
            for link in list(self._links.values()):
                link.close("the broker ends")

    def connection_closed(self, connection: Connection) -> None:
        for name in [name for name, link in self._links.items() if link is connection]:
            del self._links[name]

    def ask(
        self,
        request: Request[Any],
        connection: Connection,
        item: LogicQueueMappingItem,
        header: Header,
        render: Render,
        codes: Collection[int] = ANSWERED,
    ) -> None:
        """Asks the broker of ``item`` with the request's code and this header, then answers the request: with what
        ``render`` makes of an answer with one of these codes, else with the other broker's refusal."""
        asked = _Asked(request, connection, item, header, render, codes)
        link = self._links.get(item.bname)
        if link is not None:
            self._pass_on(asked, link)
        elif self._nursery is None or self._nameservers is None:
            _answer(asked, None)
        elif item.bname not in self._waiting:
            self._waiting[item.bname] = [asked]
            self._nursery.start_soon(self._open, header.topic, item.bname)  # type: ignore[attr-defined]
        elif len(self._waiting[item.bname]) < WAITING_MAX:
            self._waiting[item.bname].append(asked)
        else:
            _answer(asked, None)

    async def _open(self, topic: str, name: str) -> None:
        """Connects to the broker and asks it what waits for that."""
        link = None
        try:
            link = await self._connect(topic, name)
        except OSError:
            pass
        finally:
            for asked in self._waiting.pop(name):
                self._pass_on(asked, link) if link is not None else _answer(asked, None)
        assert self._loop is not None
        self._loop.wake()

    async def _connect(self, topic: str, name: str) -> Connection:
        """Raises OSError if the broker is not known or not reached."""
        assert self._loop is not None
        assert self._nameservers is not None
        known, routes = trio.Event(), list[TopicRoute | None]()

        def on_route(route: TopicRoute | None) -> None:
            routes.append(route)
            known.set()

        self._nameservers.ask_route(topic, on_route)
        await known.wait()
        brokers = routes[0].broker_datas if routes[0] is not None else []
        addr = next((broker.selected_addr() for broker in brokers if broker.broker_name == name), None)
        if addr is None:
            raise OSError(f"no nameserver knows broker {name}")
        link = self._links[name] = await connect(self._loop, self, addr, self._nameservers.make_pump())
        return link

    def _pass_on(self, asked: _Asked, link: Connection) -> None:
        credentials = self._nameservers.credentials if self._nameservers is not None else None
        ext = signed(asked.header, b"", credentials)
        timeout_s = self._config.forward_timeout_ms / 1000
        link.ask(asked.request.code, ext, b"", lambda answer: _answer(asked, answer), timeout_s)


def _answer(asked: _Asked, answer: Command | None) -> None:
    """Answers the client; ``answer`` is None if the other broker gave none."""
    request, item = asked.request, asked.item
    frame: bytes | None
    if answer is None:
        text = (
            f"the offsets from {item.logic_offset} on are in queue {item.queue_id} of broker {item.bname}, where this "
            "queue was before; it does not answer, or no nameserver knows it"
        )
        frame = refusal(request, ResponseCode.SYSTEM_ERROR, text)
    elif answer.code not in asked.codes:
        frame = refusal(request, answer.code, answer.remark)
    else:
        try:
            frame = asked.render(answer)
        except Refused as refused:
            frame = refusal(request, refused.code, refused.remark, refused.header)
        except (ProtocolError, MappingError) as error:
            frame = refusal(request, ResponseCode.SYSTEM_ERROR, f"broker {item.bname}: {error}")
    if frame is not None:
        send_answer(request, asked.connection, frame)
