"""Requests of a master to change its in-sync set (1001), and questions about sets (1004, 1006), answered as by
``ReplicasInfoManager`` of 5.5.0."""

from __future__ import annotations

from collections.abc import Iterable

from rmqproto.bodies.replication import ReplicaIdentity, ReplicaSet, ReplicaSets, SyncStateSet
from rmqproto.codes import ResponseCode
from rmqproto.headers.controller import AlterSyncStateSetAnswer, AlterSyncStateSetHeader, ReplicaInfoAnswer
from rmqproto.wire import fastjson
from rmqserver.controller.controller_state import BrokerSet, SyncStateSetAltered, apply
from rmqserver.controller.decision import ControllerDecision, Situation, set_body

_REJECTED = "Rejecting alter syncStateSet request because "
_UNKNOWN = "Broker metadata is not existed"


def alter_sync_state_set(now: Situation, header: AlterSyncStateSetHeader, wanted: SyncStateSet) -> ControllerDecision:
    """1001, from the master of the present epoch, which knows the present set."""
    found = now.sets.get(header.broker_name)
    if found is None:
        return _rejected(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, _UNKNOWN)
    new = tuple(sorted(set(wanted.sync_state_set)))
    if new == found.sync_state_set:
        return _rejected(
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet",
        )
    refusal = _refusal(now, found, header, wanted.sync_state_set_epoch, new)
    if refusal is not None:
        code, reason = refusal
        return _rejected(code, _REJECTED + reason)
    event = SyncStateSetAltered(found.broker_name, new)
    after = apply(now.sets, event)[found.broker_name]
    answer = AlterSyncStateSetAnswer(new_sync_state_set_epoch=after.sync_state_set_epoch)
    return ControllerDecision(header=answer, body=set_body(after), events=(event,))


def _refusal(
    now: Situation, found: BrokerSet, header: AlterSyncStateSetHeader, set_epoch: int, new: tuple[int, ...]
) -> tuple[int, str] | None:
    """Checks in Apache's order, with numbers in braces as in Apache's texts. A replica that joins must be alive. Unlike
    at Apache's controller, one that stays need not be: a slave that only the controller cannot reach has every
    acknowledged message, and the proposal may be the one that drops a lost slave."""
    master = found.master_broker_id
    if header.master_broker_id != master:
        current = "" if master is None else master
        return (
            ResponseCode.CONTROLLER_INVALID_MASTER,
            f"the current leader is:{{{current}}}, not {{{header.master_broker_id}}}",
        )
    if header.master_epoch != found.master_epoch:
        return (
            ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
            f"the current master epoch is:{{{found.master_epoch}}}, not {{{header.master_epoch}}}",
        )
    if set_epoch != found.sync_state_set_epoch:
        return (
            ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
            f"the current syncStateSet epoch is:{{{found.sync_state_set_epoch}}}, not {{{set_epoch}}}",
        )
    for broker_id in new:
        if broker_id not in found.replicas:
            return ResponseCode.CONTROLLER_INVALID_REPLICAS, f"the replicas {{{broker_id}}} don't exist"
        if broker_id not in found.sync_state_set and not now.is_alive(found, broker_id):
            return ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"the replicas {{{broker_id}}} don't alive"
    if master not in new:
        return (
            ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
            f"the newSyncStateSet don't contains origin leader {{{master}}}",
        )
    return None


def _rejected(code: int, remark: str) -> ControllerDecision:
    return ControllerDecision(code, remark, AlterSyncStateSetAnswer())


def replica_info(now: Situation, broker_name: str) -> ControllerDecision:
    """1004: the master of a broker name, even if it is not alive."""
    found = now.sets.get(broker_name)
    if found is None:
        return ControllerDecision(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, _UNKNOWN)
    answer = ReplicaInfoAnswer(
        master_broker_id=found.master_broker_id, master_address=found.master_address, master_epoch=found.master_epoch
    )
    return ControllerDecision(header=answer, body=set_body(found))


def sync_state_data(now: Situation, broker_names: Iterable[str]) -> ControllerDecision:
    """1006. Unknown names are left out. An empty list asks for every set, since brokers of a set without a master are
    registered nowhere else; Apache's controller refuses it."""
    wanted = dict.fromkeys(broker_names) or now.sets
    table = {name: _replica_set(now, now.sets[name]) for name in wanted if name in now.sets}
    return ControllerDecision(body=fastjson.dumps(ReplicaSets(replicas_info_table=table)))


def _replica_set(now: Situation, found: BrokerSet) -> ReplicaSet:
    identities = [
        ReplicaIdentity(
            alive=now.is_alive(found, broker_id),
            broker_address=replica.broker_address,
            broker_id=broker_id,
            broker_name=found.broker_name,
        )
        for broker_id, replica in sorted(found.replicas.items())
    ]
    return ReplicaSet(
        in_sync_replicas=[each for each in identities if each.broker_id in found.sync_state_set],
        master_address=found.master_address,
        master_broker_id=found.master_broker_id,
        master_epoch=found.master_epoch,
        not_in_sync_replicas=[each for each in identities if each.broker_id not in found.sync_state_set],
        sync_state_set_epoch=found.sync_state_set_epoch,
    )
