"""A broker's connections to the controllers (``BrokerOuterAPI``, ``ReplicasManager``, 5.5.0): it sends heartbeats to
all of them, and asks the leader its questions, one method a request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

import trio

from rmqproto.bodies.replication import ElectedMaster, SyncStateSet
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError, RefusedError
from rmqproto.headers.base import Header, NoFields, from_ext
from rmqproto.headers.controller import (
    AlterSyncStateSetHeader,
    ApplyBrokerIdHeader,
    ControllerMetaAnswer,
    ElectMasterAnswer,
    ElectMasterHeader,
    NextBrokerIdAnswer,
    NextBrokerIdHeader,
    RegisterToControllerAnswer,
    RegisterToControllerHeader,
    ReplicaInfoAnswer,
    ReplicaInfoHeader,
)
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqserver.broker.controlled.set_state import LEASE_MAX_MS
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


class WantedHandover(NamedTuple):
    """The controller wants the master's lease back, to elect another broker."""

    handover_id: int
    successor_id: int


class Leadership(NamedTuple):
    """What a controller says about a set. There is no master if the address is None."""

    master_epoch: int
    master_id: int | None
    master_addr: str | None
    members: frozenset[int]
    set_epoch: int
    handover: WantedHandover | None = None


class LeaderQuestions:
    """Questions about one set. Unless a method says otherwise, it raises OSError if no controller leads, RefusedError
    if the leader refuses, and ProtocolError for a malformed answer."""

    def __init__(self, controllers: ControllerGroup, cluster: str, broker_name: str):
        self._controllers = controllers
        self._cluster = cluster
        self._broker_name = broker_name

    async def next_id(self) -> int:
        header = NextBrokerIdHeader(cluster_name=self._cluster, broker_name=self._broker_name)
        answer = await self._ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, header)
        next_id = from_ext(answer.ext, NextBrokerIdAnswer).next_broker_id
        if next_id is None or next_id < 1:
            raise ProtocolError(f"the controller offers id {next_id}")
        return next_id

    async def apply_for_id(self, broker_id: int, code: str) -> None:
        header = ApplyBrokerIdHeader(
            cluster_name=self._cluster,
            broker_name=self._broker_name,
            applied_broker_id=broker_id,
            register_check_code=code,
        )
        await self._ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, header)

    async def register(self, broker_id: int, addr: str) -> Leadership:
        header = RegisterToControllerHeader(
            cluster_name=self._cluster,
            broker_name=self._broker_name,
            broker_id=broker_id,
            broker_address=addr,
            invoke_time=wall_ms(),
        )
        answer = await self._ask(RequestCode.CONTROLLER_REGISTER_BROKER, header)
        found = from_ext(answer.ext, RegisterToControllerAnswer)
        return _leadership(answer, found.master_epoch, found.master_broker_id, found.master_address)

    async def elect(self, broker_id: int, handover_id: int | None = None) -> Leadership:
        """Makes the controller elect a master if there is none, or if this broker, the master, has given its lease back
        for that handover."""
        header = ElectMasterHeader(
            cluster_name=self._cluster, broker_name=self._broker_name, broker_id=broker_id, invoke_time=wall_ms(),
            handover_id=handover_id,
        )  # fmt: skip
        answer = await self._controllers.ask_leader(RequestCode.CONTROLLER_ELECT_MASTER, header)
        if answer.code != ResponseCode.CONTROLLER_MASTER_STILL_EXIST:
            _check(answer)
        found = from_ext(answer.ext, ElectMasterAnswer)
        body = fastjson.loads_untrusted(answer.body, ElectedMaster) if answer.body else ElectedMaster()
        members = frozenset(body.sync_state_set)
        return Leadership(
            found.master_epoch or 0, found.master_broker_id, found.master_address, members,
            found.sync_state_set_epoch or 0,
        )  # fmt: skip

    async def leadership(self) -> Leadership | None:
        """None if the controller does not know the set."""
        header = ReplicaInfoHeader(broker_name=self._broker_name)
        answer = await self._controllers.ask_leader(RequestCode.CONTROLLER_GET_REPLICA_INFO, header)
        if answer.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
            return None
        _check(answer)
        found = from_ext(answer.ext, ReplicaInfoAnswer)
        standing = _leadership(answer, found.master_epoch, found.master_broker_id, found.master_address)
        return standing._replace(handover=wanted_handover(found))

    async def alter_set(self, master_id: int, master_epoch: int, wanted: SyncStateSet) -> SyncStateSet:
        """Returns the resulting set. ``wanted`` carries the epoch of the set it replaces."""
        header = AlterSyncStateSetHeader(
            broker_name=self._broker_name,
            master_broker_id=master_id,
            master_epoch=master_epoch,
            invoke_time=wall_ms(),
        )
        code = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET
        answer = await self._ask(code, header, fastjson.dumps(wanted))
        return fastjson.loads_untrusted(answer.body, SyncStateSet)

    async def _ask(self, code: int, header: Header, body: bytes = b"") -> Command:
        answer = await self._controllers.ask_leader(code, header, body)
        _check(answer)
        return answer


def says_master(answers: list[ReplicaInfoAnswer], epoch: int, own_id: int) -> bool | None:
    """Whether these answers to a heartbeat say that this broker is the master; None if they do not say. Our controller
    names the master in them, Apache's does not."""
    said = [(each.master_epoch, each.master_broker_id) for each in answers if each.master_epoch is not None]
    if any(newer > epoch for newer, _ in said):
        return False
    return True if (epoch, own_id) in said else None


def wanted_handover(found: ReplicaInfoAnswer) -> WantedHandover | None:
    if found.handover_id is None or found.successor_id is None:
        return None
    return WantedHandover(found.handover_id, found.successor_id)


def _check(answer: Command) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise RefusedError(answer.code, answer.remark or "")


def _leadership(answer: Command, epoch: int | None, master_id: int | None, addr: str | None) -> Leadership:
    body = fastjson.loads_untrusted(answer.body, SyncStateSet) if answer.body else SyncStateSet()
    return Leadership(epoch or 0, master_id, addr or None, frozenset(body.sync_state_set), body.sync_state_set_epoch)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000
