"""A slave of a set forwards to its master the requests that only a master takes. After a handover, and after a killed
master has come back as a slave, clients go on asking this broker: Java and Go clients look for the master only every
half a minute, and no answer of a broker makes them look sooner.

The master's answer is the client's answer. This broker acknowledges nothing itself. It refuses a request whose outcome
it does not know with code 14, as a broker that has lost its disk does, and the client may send it again. It answers a
pull with "retry at once", since clients rest for three seconds after a refused pull. A request is forwarded only once:
a flag marks it, in case the receiver is no longer the master. The request keeps its client's signature, so the master
checks it against its own users, after this broker's gates have checked it. If this broker signed it instead, everyone
whom this broker admits would be admitted at the master, too.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import trio

from rmqproto.codes import FORWARDED_FLAG, ResponseCode
from rmqproto.headers.consuming import PullHeader
from rmqproto.wire.command import Command, HeaderCodec, encode_frame
from rmqserver.doors.remoting.role_answers import REJECTED_TEXT, retry_at_master
from rmqserver.doors.way_to_master import WayToMaster
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, refusal, send_answer
from rmqserver.remoting.connection import OnAnswer
from rmqserver.remoting.service import Service
from rmqserver.request_rules import OnSlave, on_slave

if TYPE_CHECKING:
    from rmqserver.broker.controlled.set_state import SetState
    from rmqserver.broker.replicas.slave import Slave
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.gate import GoOn, TakeOver
    from rmqserver.remoting.loop import Loop
    from rmqserver.remoting.outward import Outward

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 60.0
"""A master may hold a pull for thirty seconds."""

WAITING_MAX = 1000
WAITING_MAX_BYTES = 16 << 20
"""Limits on one client's requests that wait for a connection to the master; more are refused as by a busy broker."""

_OF_THE_MASTER = on_slave(OnSlave.REFUSED, OnSlave.ENDS_NOTHING, OnSlave.SERVED_WITHOUT_MASTER)
_READS = on_slave(OnSlave.READ)

RELIABLE_AFTER_S = 0.5
"""A connection to the master that ends sooner will likely end again. Then pulls are refused, too, or clients would
repeat them without a pause."""

UNKNOWN_TEXT = "the master that this slave has passed the request on to did not answer: it may be done or not"


class _Forwarded(NamedTuple):
    request: Request[Any]
    ext: Mapping[str, str]
    go_on: GoOn
    """Makes this broker answer as a slave."""
    on_answer: OnAnswer
    """Takes the master's answer, or None if there is none."""


class _Way:
    """The connection to the master for one client's connection: each client has its own, to keep its requests in
    order."""

    __slots__ = ("addr", "is_left", "opened_s", "upstream", "waiting", "waiting_bytes")

    def __init__(self) -> None:
        self.addr = ""
        self.upstream: Connection | None = None
        self.opened_s = 0.0
        self.is_left = False
        """This broker ends the connection, not the master."""
        self.waiting: deque[_Forwarded] = deque()
        """Requests that wait for ``upstream``."""
        self.waiting_bytes = 0

    @property
    def is_good(self) -> bool:
        """Whether a new connection in place of this one is likely to last."""
        return self.is_left or time.monotonic() - self.opened_s > RELIABLE_AFTER_S

    def leave(self, reason: str) -> None:
        """Closes the connection and ends all its requests without an answer of the master."""
        self.is_left = True
        if self.upstream is not None:
            self.upstream.close(reason)
        for each in self.waiting:
            each.on_answer(None)
        self.waiting.clear()


class Forwarding(Service):
    """The gate of a slave, and the service of its connections to the master. ``run`` is a task of the door."""

    wants_ext = True

    def __init__(self, config: BrokerConfig, loop: Loop, nameservers: Outward | None, state: SetState, slave: Slave):
        super().__init__("forwarding", {})
        self._config = config
        self._loop = loop
        self._master = WayToMaster(loop, slave, state, nameservers)
        self._state = state
        self._slave = slave
        self._ways: dict[Connection, _Way] = {}
        self._clients: dict[Connection, Connection] = {}
        """Clients' connections, by those to the master."""
        self._nursery: trio.Nursery | None = None
        self._told_addr: str | None = None

    async def run(self) -> None:
        """Runs until cancelled; then answers the clients' pending requests, if they are still connected."""
        try:
            async with trio.open_nursery() as self._nursery:
                for client, way in self._ways.items():  # clients that came as soon as the loop listened
                    self._nursery.start_soon(self._open, client, way)
                await trio.sleep_forever()
        finally:
            self._nursery = None
            for connection in list(self._ways):
                self.client_closed(connection)

    def client_closed(self, connection: Connection) -> None:
        way = self._ways.pop(connection, None)
        if way is not None:
            way.leave("its client is gone, or this broker")

    def connection_closed(self, connection: Connection) -> None:
        """A connection to the master has closed: its pending requests are answered next, and a new request opens
        another connection."""
        client = self._clients.pop(connection, None)
        if client is not None:
            self._ways.pop(client, None)

    # --- the gate ----------------------------------------------------------------------------------------------------

    def admits_at_sight(self, request: Request[Any], header: bytes, connection: Connection) -> bool:
        return not self._is_for_master(request)

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> TakeOver | None:
        if not self._is_for_master(request):
            return None
        request.body = bytes(request.body)  # the loop reads the next bytes into the same buffer
        return lambda go_on: self._forward(request, ext, go_on, connection)

    def _is_for_master(self, request: Request[Any]) -> bool:
        code = request.code
        if code not in _OF_THE_MASTER and (code not in _READS or self._slave.may_be_read):
            return False
        return (
            self._config.forward_to_master_enable
            and self._state.master_addr is not None
            and not request.flag & FORWARDED_FLAG
        )

    def _forward(self, request: Request[Any], ext: Mapping[str, str], go_on: GoOn, connection: Connection) -> None:
        way = self._ways.get(connection)
        if way is not None and way.upstream is not None and way.addr != self._state.master_addr:
            way.leave("there is another master")
            way = None
        if way is None:
            way = self._ways[connection] = _Way()
            if self._nursery is not None:
                self._nursery.start_soon(self._open, connection, way)
        forwarded = _Forwarded(request, ext, go_on, _answering(request, connection, way))
        if way.upstream is not None:
            self._pass_on(forwarded, way.upstream)
        elif len(way.waiting) >= WAITING_MAX or way.waiting_bytes > WAITING_MAX_BYTES:
            forwarded.go_on(Refused(ResponseCode.SYSTEM_BUSY, REJECTED_TEXT))
        else:
            way.waiting.append(forwarded)
            way.waiting_bytes += len(request.body)

    # --- to the master -----------------------------------------------------------------------------------------------

    async def _open(self, connection: Connection, way: _Way) -> None:
        """If no master can be reached in time, the client gets a slave's answer."""
        found = await self._master.connect(self)
        way.addr, upstream = found or ("", None)
        if upstream is not None and self._told_addr != way.addr:
            log.info("event=forwarding-begins master=%s", way.addr)
            self._told_addr = way.addr
        if self._ways.get(connection) is not way:
            if upstream is not None:
                upstream.close("its client is gone")
            return
        if upstream is None:
            del self._ways[connection]
            for each in way.waiting:
                each.go_on(None)
        else:
            way.upstream, way.opened_s, self._clients[upstream] = upstream, time.monotonic(), connection
            for each in way.waiting:
                self._pass_on(each, upstream)
        way.waiting.clear()
        self._loop.wake()

    @staticmethod
    def _pass_on(forwarded: _Forwarded, upstream: Connection) -> None:
        request = forwarded.request
        command = Command(
            code=request.code,
            flag=request.flag | FORWARDED_FLAG,
            language=request.language if isinstance(request.language, str) else "OTHER",
            version=request.version,  # the signature depends on it
            ext=dict(forwarded.ext),
            body=request.body,
        )
        upstream.ask_as(command, forwarded.on_answer, ANSWER_TIMEOUT_S)


def _answering(request: Request[Any], connection: Connection, way: _Way) -> OnAnswer:
    def answered(answer: Command | None) -> None:
        if answer is None and way.is_good and isinstance(request.header, PullHeader):
            refused = retry_at_master(request.header, None)
            frame = refusal(request, refused.code, refused.remark, refused.header)
        elif answer is None:
            frame = refusal(request, ResponseCode.SERVICE_NOT_AVAILABLE, UNKNOWN_TEXT)
        else:
            frame = encode_frame(
                msgspec.structs.replace(answer, opaque=request.opaque, codec=HeaderCodec(request.codec))
            )
        send_answer(request, connection, frame)

    return answered
