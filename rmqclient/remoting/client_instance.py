"""The common part of producers and consumers: a client id, connections, routes, and heartbeats by which brokers know
them."""

from __future__ import annotations

import logging
import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Mapping

import anyio
from anyio.abc import TaskGroup

from rmqclient.addresses import parse_namesrvs
from rmqclient.message import Message
from rmqclient.remoting.channel import resolved
from rmqclient.remoting.channels import BrokerRequestHandler, Channels
from rmqclient.remoting.routes import Routes
from rmqclient.sending import STORED_CODES, SendRequests
from rmqproto.bodies.groups import Heartbeat
from rmqproto.codes import RequestCode
from rmqproto.errors import NotFoundError, RocketMQError
from rmqproto.headers.consuming import UnregisterClientHeader
from rmqproto.hosts import split_address
from rmqproto.wire import fastjson
from rmqproto.wire.credentials import Credentials

log = logging.getLogger(__name__)


class _ErrorsHandler(logging.Handler):
    """For applications that do not configure logging: they see errors, which are exceptions of their own functions, and
    no warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is not None and not logging.getLogger().handlers:
            logging.lastResort.handle(record)


# It stands here because every client that logs has an instance. Commands of rmqadmin have none, and load no logging.
logging.getLogger("rmqclient").addHandler(_ErrorsHandler(logging.ERROR))

HEARTBEAT_INTERVAL_S = 30.0
"""Brokers forget a client after 120 s."""


class ClientInstance:
    """``start`` runs it in a nursery, until that is cancelled."""

    def __init__(
        self,
        namesrv_addrs: str,
        credentials: Credentials | None,
        heartbeat: Callable[[str], Heartbeat] | None = None,
        *,
        instance_name: str | None = None,
        handlers: Mapping[int, BrokerRequestHandler] | None = None,
        on_route_change: Callable[[], None] = lambda: None,
        tls: ssl.SSLContext | None = None,
    ):
        """``heartbeat`` makes the body of a heartbeat, given the client id; without it no heartbeats are sent.
        ``instance_name`` follows the address in the client id; None makes a unique one. UsageError for bad
        addresses."""
        self._namesrv_addrs = parse_namesrvs(namesrv_addrs)
        self._heartbeat = heartbeat
        self._instance_name = instance_name
        self.client_id = ""
        self.channels = Channels(credentials, handlers, self._greeting, tls)
        self.routes = Routes(self._namesrv_addrs, self.channels, on_route_change)

    async def start(self, nursery: TaskGroup) -> None:
        """Sets the client id and starts the background tasks. No server is called yet."""
        address = await _own_address(self._namesrv_addrs[0])
        self.client_id = f"{address}@{self._instance_name or f'{os.getpid()}#{time.time_ns()}'}"
        await nursery.start(self.channels.run)
        nursery.start_soon(self.routes.refresh_forever)
        if self._heartbeat is not None:
            nursery.start_soon(self._heartbeat_forever)

    async def heartbeat_to(self, addresses: set[str]) -> None:
        """Sends one heartbeat to each address. A broker that is not connected gets it first on its new connection."""
        async with anyio.create_task_group() as nursery:
            for address in addresses:
                nursery.start_soon(self._heartbeat_one, address)

    async def _heartbeat_one(self, address: str) -> None:
        try:
            body = self._greeting(address)
            if body is not None and address in self.channels.addresses:
                await self.channels.request(address, RequestCode.HEART_BEAT, body=body)
            else:
                await self.channels.connected(address, anyio.current_time() + HEARTBEAT_INTERVAL_S)
        except RocketMQError as error:
            log.warning("heartbeat failed address=%s error=%s", address, error)
            self.routes.refresh_soon()

    async def _heartbeat_forever(self) -> None:
        """Sends heartbeats to every connected broker. Others have nothing to forget."""
        while True:
            await anyio.sleep(HEARTBEAT_INTERVAL_S)
            await self.heartbeat_to(self.routes.broker_addresses() & set(self.channels.addresses))

    def _greeting(self, address: str) -> bytes | None:
        """The heartbeat to one address; None if it is not a broker's."""
        if self._heartbeat is None or address not in self.routes.broker_addresses():
            return None
        return fastjson.dumps(self._heartbeat(self.client_id))

    async def send_on_its_own(self, group: str, message: Message, *, create: bool) -> None:
        """Sends a message of the client itself to any writable queue. ``create`` as of ``Routes.queues``.
        RocketMQError; NotFoundError if there is no such queue."""
        writable = (await self.routes.queues(message.topic, create=create)).writable
        if not writable:
            raise NotFoundError(f"topic {message.topic} has no queue that can be written")
        queue = random.choice(writable)
        ext, body, _ = SendRequests(queue, group).of(message)
        address = self.routes.master_of(queue)
        await self.channels.request(address, RequestCode.SEND_MESSAGE_V2, ext, body, accept=STORED_CODES)

    async def unregister(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        """Tells every broker that knows this client that it is gone, so that others take over at once. A broker that
        cannot be told notices the closed connection."""
        header = UnregisterClientHeader(
            client_id=self.client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        for address in self.routes.broker_addresses() & set(self.channels.addresses):
            try:
                await self.channels.request(address, RequestCode.UNREGISTER_CLIENT, header)
            except RocketMQError as error:
                log.warning("unregister failed address=%s error=%s", address, error)


async def _own_address(namesrv_addr: str) -> str:
    """Our address on the route to a name server; no packet is sent. The loopback address if there is no route."""
    host, port = split_address(namesrv_addr)
    try:
        family, kind, protocol, _, target = (await resolved(host, port, socket.SOCK_DGRAM))[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"
