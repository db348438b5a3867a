"""A controller's durable state, and the events that change it (the replicated state of ``ReplicasInfoManager`` and its
events, 5.5.0). Pure: a state and an event give the next state, so a log of events determines the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rmqproto.java.java_numbers import Int32, Int64


class KnownReplica(msgspec.Struct, frozen=True, rename="camel"):
    """A replica that has an id. It applied for the id with ``register_check_code``."""

    broker_address: str
    register_check_code: str


class BrokerSet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The replicas of one broker name, by id. ``sync_state_set`` is sorted, and contains the master if there is one.
    Without a master it stays: it has the replicas that may become master. Both epochs only rise."""

    cluster_name: str
    broker_name: str
    next_broker_id: Int64 = 1
    replicas: dict[Int64, KnownReplica] = {}
    master_broker_id: Int64 | None = None
    master_epoch: Int32 = 0
    """0 if there never was a master."""
    sync_state_set: tuple[Int64, ...] = ()
    sync_state_set_epoch: Int32 = 0

    @property
    def master_address(self) -> str | None:
        return None if self.master_broker_id is None else self.replicas[self.master_broker_id].broker_address


BrokerSets = Mapping[str, BrokerSet]
"""The state: sets by broker name."""


class BrokerIdApplied(msgspec.Struct, frozen=True, rename="camel", tag="APPLY_BROKER_ID", tag_field="type"):
    """A replica gets its id. The first replica of a name creates the set."""

    cluster_name: str
    broker_name: str
    broker_address: str
    new_broker_id: Int64
    register_check_code: str


class BrokerAddressUpdated(msgspec.Struct, frozen=True, rename="camel", tag="UPDATE_BROKER_ADDRESS", tag_field="type"):
    broker_name: str
    broker_id: Int64
    broker_address: str


class SyncStateSetAltered(msgspec.Struct, frozen=True, rename="camel", tag="ALTER_SYNC_STATE_SET", tag_field="type"):
    broker_name: str
    new_sync_state_set: tuple[Int64, ...]


class MasterElected(msgspec.Struct, frozen=True, rename="camel", tag="ELECT_MASTER", tag_field="type"):
    """A new term begins: of this replica, which is alone in the in-sync set at first, or with None, without a master.
    Its epoch is the next one, but at least ``least_epoch``."""

    broker_name: str
    new_master_broker_id: Int64 | None
    least_epoch: Int32 = 0


class BrokerDataCleaned(msgspec.Struct, frozen=True, rename="camel", tag="CLEAN_BROKER_DATA", tag_field="type"):
    """These replicas are forgotten; with None, the whole set is. If the master is forgotten, a term without a master
    begins."""

    broker_name: str
    broker_ids: tuple[Int64, ...] | None


class StateSnapshot(msgspec.Struct, frozen=True, rename="camel", tag="SNAPSHOT", tag_field="type"):
    """The whole state so far; a log begins with it."""

    broker_sets: tuple[BrokerSet, ...]


ControllerEvent = (
    BrokerIdApplied | BrokerAddressUpdated | SyncStateSetAltered | MasterElected | BrokerDataCleaned | StateSnapshot
)


def apply_all(sets: BrokerSets, events: Iterable[ControllerEvent]) -> BrokerSets:
    for event in events:
        sets = apply(sets, event)
    return sets


def apply(sets: BrokerSets, event: ControllerEvent) -> BrokerSets:
    """Raises KeyError for an unknown set or replica: no decision makes such an event."""
    if isinstance(event, StateSnapshot):
        return {each.broker_name: each for each in event.broker_sets}
    name = event.broker_name
    if isinstance(event, BrokerIdApplied):
        found = sets.get(name) or BrokerSet(cluster_name=event.cluster_name, broker_name=name)
        replica = KnownReplica(event.broker_address, event.register_check_code)
        next_id = max(found.next_broker_id, event.new_broker_id + 1)
        replicas = {**found.replicas, event.new_broker_id: replica}
        return {**sets, name: msgspec.structs.replace(found, next_broker_id=next_id, replicas=replicas)}
    if isinstance(event, BrokerDataCleaned) and event.broker_ids is None:
        return {other: each for other, each in sets.items() if other != name}
    return {**sets, name: _changed(sets[name], event)}


def _changed(
    found: BrokerSet, event: BrokerAddressUpdated | SyncStateSetAltered | MasterElected | BrokerDataCleaned
) -> BrokerSet:
    match event:
        case BrokerAddressUpdated():
            replica: KnownReplica = msgspec.structs.replace(
                found.replicas[event.broker_id], broker_address=event.broker_address
            )
            return msgspec.structs.replace(found, replicas={**found.replicas, event.broker_id: replica})
        case SyncStateSetAltered():
            return _with_set(found, event.new_sync_state_set)
        case MasterElected(new_master_broker_id=None):
            return msgspec.structs.replace(found, master_broker_id=None, master_epoch=found.master_epoch + 1)
        case MasterElected(new_master_broker_id=new):
            assert new is not None
            epoch = max(found.master_epoch + 1, event.least_epoch)
            elected = msgspec.structs.replace(found, master_broker_id=new, master_epoch=epoch)
            return _with_set(elected, (new,))
        case BrokerDataCleaned():
            gone = set(event.broker_ids or ())
            replicas = {broker_id: each for broker_id, each in found.replicas.items() if broker_id not in gone}
            left = msgspec.structs.replace(found, replicas=replicas)
            if found.master_broker_id in gone:
                left = msgspec.structs.replace(left, master_broker_id=None, master_epoch=found.master_epoch + 1)
            in_sync = tuple(broker_id for broker_id in found.sync_state_set if broker_id not in gone)
            return left if in_sync == found.sync_state_set else _with_set(left, in_sync)


def _with_set(found: BrokerSet, in_sync: Iterable[int]) -> BrokerSet:
    return msgspec.structs.replace(
        found, sync_state_set=tuple(sorted(set(in_sync))), sync_state_set_epoch=found.sync_state_set_epoch + 1
    )
