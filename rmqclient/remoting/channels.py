"""All connections of one client: one per address, opened on first use and again after it broke."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping

import anyio
from anyio.abc import TaskGroup, TaskStatus

from rmqclient.remoting.channel import Channel, open_socket
from rmqclient.remoting.requests import (
    CONNECT_HINT,
    Fields,
    encode_answer,
    encode_not_supported,
    encode_request,
    refusal,
    request_label,
)
from rmqproto.codes import SUCCESS_ALONE, RequestCode, ResponseCode
from rmqproto.errors import NotConnectedError, RequestTimeoutError, RocketMQError
from rmqproto.wire.command import Command
from rmqproto.wire.credentials import Credentials

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 3.0
REQUEST_TIMEOUT_S = 3.0
"""Both as in Apache's clients."""

SWEEP_INTERVAL_S = 0.1
"""The most that a request may end after its deadline."""

BrokerRequestHandler = Callable[[Command], Awaitable[bytes]]
"""The body of our answer to a request of the broker. A RocketMQError becomes an answer with code 1."""

Greeting = Callable[[str], bytes | None]
"""The body of the heartbeat that is sent first on every new connection to ``address``; None for no heartbeat."""


class _Opening:
    """A connection that is being made, and the tasks that wait for it."""

    def __init__(self) -> None:
        self.is_done = anyio.Event()
        self.channel: Channel | None = None
        self.failure = "timed out"


class Channels:
    """Requests to any address. ``run`` must run in a task meanwhile; when it is cancelled it closes everything."""

    def __init__(
        self,
        credentials: Credentials | None = None,
        handlers: Mapping[int, BrokerRequestHandler] | None = None,
        greeting: Greeting = lambda address: None,
        tls: ssl.SSLContext | None = None,
    ):
        """``handlers`` are by request code; a request without one is answered with code 3. ``tls`` is used for every
        connection."""
        self.credentials = credentials
        self._tls = tls
        self._handlers = handlers or {}
        self._greeting = greeting
        self._open: dict[str, Channel] = {}
        self._running: set[Channel] = set()  # includes channels that are still greeting
        self._opening: dict[str, _Opening] = {}
        self._nursery: TaskGroup | None = None

    async def run(self, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                while True:
                    await anyio.sleep(SWEEP_INTERVAL_S)
                    now_s = anyio.current_time()
                    for channel in self._running:
                        channel.expire(now_s)
            finally:
                self._nursery = None  # a task that is cancelled at the same moment may still want a connection

    @property
    def is_running(self) -> bool:
        return self._nursery is not None

    @property
    def addresses(self) -> list[str]:
        """The addresses with an open channel."""
        return list(self._open)

    async def request(
        self,
        address: str,
        code: int,
        header: Fields | None = None,
        body: bytes = b"",
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        accept: Collection[int] = SUCCESS_ALONE,
    ) -> Command:
        """The answer to one request. ``timeout_s`` includes connecting.

        ConnectError, which is a NotConnectedError if nothing was sent; RequestTimeoutError, ProtocolError; RefusedError
        for an answer whose code is not in ``accept``.
        """
        deadline_s = anyio.current_time() + timeout_s
        channel = await self.connected(address, deadline_s)
        opaque = channel.next_opaque()
        frame = encode_request(code, opaque, header, body, credentials=self.credentials)
        try:
            answer = await channel.request(frame, opaque, deadline_s)
        except RequestTimeoutError:
            raise RequestTimeoutError(f"{address} did not answer {request_label(code)} in time") from None
        if answer.code not in accept:
            if answer.code == ResponseCode.GO_AWAY:  # the next request goes to the broker that replaces it
                channel.close("the broker asked us to go away")
            raise refusal(answer, address)
        return answer

    async def oneway(
        self,
        address: str,
        code: int,
        header: Fields | None = None,
        body: bytes = b"",
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Sends a request that has no answer. ConnectError and RequestTimeoutError."""
        deadline_s = anyio.current_time() + timeout_s
        channel = await self.connected(address, deadline_s)
        opaque = channel.next_opaque()
        frame = encode_request(code, opaque, header, body, credentials=self.credentials, oneway=True)
        await channel.oneway(frame, deadline_s)

    async def connected(self, address: str, deadline_s: float) -> Channel:
        """The open channel, or a new one. NotConnectedError. Not a checkpoint if it is open: the request is one."""
        channel = self._open.get(address)
        if channel is not None and channel.closed_because is None:
            return channel
        opening = self._opening.get(address)
        if opening is None:
            if self._nursery is None:
                raise NotConnectedError(f"cannot connect to {address}: the client is not running", address=address)
            opening = self._opening[address] = _Opening()
            self._nursery.start_soon(self._connect, address, opening, self._nursery)
        with anyio.CancelScope(deadline=deadline_s):
            await opening.is_done.wait()
        if opening.channel is None:
            text = f"cannot connect to {address}: {opening.failure}"
            raise NotConnectedError(text, address=address, hint=CONNECT_HINT)
        return opening.channel

    async def _connect(self, address: str, opening: _Opening, nursery: TaskGroup) -> None:
        """Connects in a task of its own, so that the cancellation of one waiting task does not end the attempt for the
        others."""
        connected = None
        try:
            with anyio.move_on_after(CONNECT_TIMEOUT_S):
                connected = await open_socket(address, self._tls)
            if connected is not None:
                channel = Channel(address, connected, self._handle_request)
                nursery.start_soon(self._run_channel, channel)
                await self._greet(channel)  # its time is its own: a heartbeat without an answer ends no connection
                self._open[address] = opening.channel = channel
        except OSError as error:
            opening.failure = error.strerror or str(error)
        finally:
            del self._opening[address]
            opening.is_done.set()

    async def _run_channel(self, channel: Channel) -> None:
        self._running.add(channel)
        try:
            await channel.run()
        finally:
            self._running.discard(channel)
        log.info("connection closed address=%s reason=%s", channel.address, channel.closed_because)
        if self._open.get(channel.address) is channel:
            del self._open[channel.address]

    async def _greet(self, channel: Channel) -> None:
        """Sends the first heartbeat. A broker knows its clients by channel, so after a reconnect it must learn our
        groups before it gets a pull. A failed heartbeat is logged; the next one tries again."""
        body = self._greeting(channel.address)
        if body is None:
            return
        opaque = channel.next_opaque()
        frame = encode_request(RequestCode.HEART_BEAT, opaque, body=body, credentials=self.credentials)
        try:
            answer = await channel.request(frame, opaque, anyio.current_time() + REQUEST_TIMEOUT_S)
            if answer.code != ResponseCode.SUCCESS:
                raise refusal(answer, channel.address)
        except RocketMQError as error:
            log.warning("heartbeat failed address=%s error=%s", channel.address, error)

    async def _handle_request(self, channel: Channel, request: Command) -> None:
        handler = self._handlers.get(request.code)
        if handler is None:
            frame = encode_not_supported(request)
        else:
            try:
                frame = encode_answer(request, ResponseCode.SUCCESS, await handler(request))
            except RocketMQError as error:
                frame = encode_answer(request, ResponseCode.SYSTEM_ERROR, remark=str(error))
            except Exception as error:  # the edge of the task: a broker's request must not end the client
                log.exception("request of the broker failed address=%s code=%d", channel.address, request.code)
                frame = encode_answer(request, ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
        if not request.is_oneway:
            channel.answer(frame)
