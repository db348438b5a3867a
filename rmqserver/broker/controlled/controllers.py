"""A broker's connections to the controllers: it asks the leader its questions, and sends heartbeats to all of them
(``BrokerOuterAPI``, ``ReplicasManager``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import Header, NoFields, from_ext
from rmqproto.headers.controller import ControllerMetaAnswer, ReplicaInfoAnswer
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.wire.command import Command
from rmqserver.broker.controlled.lease import LEASE_MAX_MS
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.outward import Outward, ask, connect, signed
from rmqserver.remoting.service import Service

log = logging.getLogger(__name__)

ASK_TIMEOUT_S = 3.0

SILENCE_MAX_S = LEASE_MAX_MS / 1000
"""A connection without answers is closed only when no lease from its earlier answers can be left. A controller takes
the close for this broker's death and elects another master at once, even if it was only slow and reads the close
later."""


class NoController(OSError):
    """No controller answers, or none leads."""


class ControllerGroup(Service):
    def __init__(self, loop: Loop, outward: Outward, addrs: Callable[[], tuple[str, ...]]):
        """What ``addrs`` returns may change over time."""
        super().__init__("controllers", {})
        self._loop = loop
        self._outward = outward
        self._addrs = addrs
        self._leader: str | None = None
        self.local_host = "127.0.0.1"
        """The local address of the newest connection to a controller, without its port."""
        self.on_closed: Callable[[], None] = lambda: None
        """Called when a connection has ended: a controller may take this broker for dead."""
        self.on_displaced: Callable[[str], None] = lambda remark: None
        """Called when a heartbeat was refused because another broker has registered with this broker's id."""
        self._connections: dict[str, Connection] = {}
        self._answered_s: dict[str, float] = {}
        """When each controller last answered, or its connection began; trio's clock."""
        self._opening: dict[str, trio.Lock] = {}
        self._told: set[str] = set()
        """Controllers that have yet to answer a heartbeat."""

    def connection_closed(self, connection: Connection) -> None:
        self.on_closed()

    async def find_leader(self) -> None:
        """Takes the leader that the first controller to know one names; changes nothing if none does."""
        for addr in self._addrs():
            try:
                answer = await self._ask(addr, RequestCode.CONTROLLER_GET_METADATA_INFO, NoFields(), b"")
            except OSError:
                continue
            found = from_ext(answer.ext, ControllerMetaAnswer).controller_leader_address
            if answer.code == ResponseCode.SUCCESS and found:
                if found != self._leader:
                    log.info("event=controller-found addr=%s", found)
                self._leader = found
                return

    async def ask_leader(self, code: int, header: Header, body: bytes = b"") -> Command:
        """Returns the leader's answer, whatever its code. Raises NoController; the next call then looks for another
        leader."""
        if self._leader is None:
            await self.find_leader()
        if self._leader is None:
            raise NoController("no controller leads")
        try:
            answer = await self._ask(self._leader, code, header, body)
        except OSError as error:
            self._leader = None
            raise NoController(str(error)) from error
        if answer.code == ResponseCode.CONTROLLER_NOT_LEADER:
            self._leader = None
            raise NoController("the controller that was asked does not lead any more")
        return answer

    async def beat(self, header: BrokerHeartbeatHeader, on_answers: Callable[[list[ReplicaInfoAnswer]], None]) -> None:
        """Sends a heartbeat to each controller that has answered the one before; returns when each has answered or has
        timed out. ``on_answers`` is called once, as soon as more than half of them have answered, or a leader that
        names the master in its answer, as ours does: its answer is enough."""
        addrs, answers = self._addrs(), list[ReplicaInfoAnswer]()
        is_told = False

        async def tell(addr: str) -> None:
            self._told.add(addr)
            try:
                answer = await self._ask(addr, RequestCode.BROKER_HEARTBEAT, header, b"")
                found = from_ext(answer.ext, ReplicaInfoAnswer)
            except (OSError, ProtocolError) as error:
                log.debug("event=heartbeat-lost controller=%s reason=%r", addr, str(error))
                return
            finally:
                self._told.discard(addr)
            if answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                self.on_displaced(answer.remark or "")
            nonlocal is_told
            if answer.code == ResponseCode.SUCCESS:
                answers.append(found)
                if not is_told and (found.master_epoch is not None or len(answers) > len(addrs) // 2):
                    is_told = True
                    on_answers(answers)

        async with trio.open_nursery() as nursery:
            for addr in addrs:
                if addr not in self._told:
                    nursery.start_soon(tell, addr)

    async def _ask(self, addr: str, code: int, header: Header, body: bytes) -> Command:
        async with self._opening.setdefault(addr, trio.Lock()):
            connection = self._connections.get(addr)
            if connection is None or connection.closed:
                connection = await connect(self._loop, self, addr, self._outward.make_pump())
                self._connections[addr] = connection
                self._answered_s[addr] = trio.current_time()
                self.local_host = connection.local_addr.rpartition(":")[0]
        ext = signed(header, body, self._outward.credentials)
        answer = await ask(connection, code, ext, body, ASK_TIMEOUT_S)
        if answer is None:
            if trio.current_time() - self._answered_s[addr] > SILENCE_MAX_S:
                connection.close("the controller does not answer")
            raise ConnectionError(f"no answer from {addr}")
        self._answered_s[addr] = trio.current_time()
        return answer
