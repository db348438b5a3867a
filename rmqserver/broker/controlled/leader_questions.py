"""What a broker asks the leading controller, one method a request (``BrokerOuterAPI``, 5.5.0). Unless a method says
otherwise, it raises OSError if none leads, RefusedError if it refuses, and ProtocolError for a malformed answer."""

from __future__ import annotations

import time
from typing import NamedTuple

from rmqproto.bodies.replication import ElectedMaster, SyncStateSet
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError, RefusedError
from rmqproto.headers.base import Header, from_ext
from rmqproto.headers.controller import (
    AlterSyncStateSetHeader,
    ApplyBrokerIdHeader,
    ElectMasterAnswer,
    ElectMasterHeader,
    NextBrokerIdAnswer,
    NextBrokerIdHeader,
    RegisterToControllerAnswer,
    RegisterToControllerHeader,
    ReplicaInfoAnswer,
    ReplicaInfoHeader,
)
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqserver.broker.controlled.controllers import ControllerGroup


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
    """Questions about one set."""

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
