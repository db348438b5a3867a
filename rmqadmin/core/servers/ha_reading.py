"""Asks about broker sets: controllers, masters and slaves, all at the same time where the order does not matter."""

from collections.abc import Sequence
from functools import partial

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.servers.ha_sets import (
    AskedController,
    AskedControllers,
    HaFacts,
    HaMember,
    HaSet,
    KnownBroker,
)
from rmqproto.bodies.replication import ReplicaIdentity, ReplicaSet
from rmqproto.errors import RocketMQError
from rmqproto.ha import MASTER_ID


def read_ha(
    admin: AdminClient, brokers: Sequence[KnownBroker], controller_addrs: Sequence[str] = (), *, has_all: bool = False
) -> HaFacts:
    """Asks controllers for the master and the in-sync set, and every broker where its log ends. Slaves are asked before
    masters, so that no slave wrongly seems to be ahead. ``controller_addrs``: also asked, if no broker names them.
    ``has_all``: includes sets without registered brokers, as far as controllers know them."""
    groups: dict[tuple[str, ...], set[str]] = {}
    for broker in brokers:
        if broker.controller_addrs:
            groups.setdefault(broker.controller_addrs, set()).add(broker.broker_name)
    if controller_addrs and not any(set(controller_addrs) & set(addrs) for addrs in groups):
        groups[tuple(controller_addrs)] = set()
    controllers = targets.ask_each(lambda item: _ask_controllers(admin, *item, has_all=has_all), sorted(groups.items()))
    of_name: dict[tuple[str, str], list[KnownBroker]] = {}
    for broker in brokers:
        of_name.setdefault((broker.cluster, broker.broker_name), []).append(broker)
    registered_names = {name for _, name in of_name}
    planned = [
        *(_set_of(name, registered, controllers) for name, registered in sorted(of_name.items())),
        *(
            _unregistered(name, group)
            for group in controllers
            for name in sorted((group.known or {}).keys() - registered_names)
        ),
    ]
    asked: dict[str, HaMember] = {}
    for is_master in (False, True):
        wanted = [(one, each) for one in planned for each in one.members if (each is one.master) is is_master]
        answers = targets.ask_each(lambda item: _ask_member(admin, *item), wanted)
        asked |= {answer.broker_addr: answer for answer in answers}
    found = [
        msgspec.structs.replace(one, members=[asked[member.broker_addr] for member in one.members]) for one in planned
    ]
    return HaFacts(sets=targets.ask_each(lambda one: _with_ages(admin, one), found), controllers=controllers)


def _ask_controllers(admin: AdminClient, addrs: tuple[str, ...], names: set[str], *, has_all: bool) -> AskedControllers:
    def ask(addr: str) -> AskedController:
        try:
            return AskedController(addr=addr, meta=admin.controller_metadata(addr))
        except RocketMQError as error:
            return AskedController(addr=addr, error=str(error))

    found = AskedControllers(controllers=targets.ask_each(ask, addrs), broker_names=sorted(names))
    errors = [one.error for one in found.controllers if one.error is not None]
    for leader in found.leader_addrs:
        try:
            known = admin.replica_sets(leader, found.broker_names).replicas_info_table if names else {}
            every = targets.or_none(partial(admin.replica_sets, leader, [])) if has_all else None  # not Apache's
            more = {} if every is None else every.replicas_info_table
            return msgspec.structs.replace(found, known={**more, **known})
        except RocketMQError as error:  # another controller may name the present leader
            errors.append(str(error))
    return msgspec.structs.replace(found, error="; ".join(errors) or "the controllers have no leader")


def _set_of(name: tuple[str, str], registered: Sequence[KnownBroker], controllers: Sequence[AskedControllers]) -> HaSet:
    """The set, before any of its brokers is asked."""
    of_set = [one for one in controllers if name[1] in one.broker_names]
    known = next((one.known[name[1]] for one in of_set if one.known is not None and name[1] in one.known), None)
    masters = [one for one in registered if one.broker_id == MASTER_ID and not one.is_gone]
    configs = [one.config for one in [*masters, *registered] if one.config]
    return HaSet(
        cluster=name[0],
        broker_name=name[1],
        members=_members(registered, known),
        has_controllers=bool(of_set),
        controller_addrs=of_set[0].addrs if of_set else "",
        known=known,
        registered_master=masters[0].broker_addr if len({one.broker_addr for one in masters}) == 1 else None,
        config=configs[0] if configs else {},
    )


def _unregistered(name: str, group: AskedControllers) -> HaSet:
    """A set that no name server knows, so that its cluster is unknown to us."""
    assert group.known is not None
    known = group.known[name]
    return HaSet(
        cluster="", broker_name=name, members=_members((), known), has_controllers=True, controller_addrs=group.addrs,
        known=known,
    )  # fmt: skip


def _members(registered: Sequence[KnownBroker], known: ReplicaSet | None) -> list[HaMember]:
    """The members that the controller knows, and those that only a name server knows."""
    found: dict[str, HaMember] = {}

    def add(replicas: Sequence[ReplicaIdentity], *, in_sync: bool) -> None:
        for one in replicas:
            found[one.broker_address] = HaMember(
                broker_id=one.broker_id, broker_addr=one.broker_address, is_alive=one.alive, in_sync=in_sync
            )

    if known is not None:
        add(known.in_sync_replicas, in_sync=True)
        add(known.not_in_sync_replicas, in_sync=False)
    for broker in registered:
        if broker.broker_addr not in found:
            found[broker.broker_addr] = HaMember(broker_id=broker.broker_id, broker_addr=broker.broker_addr)
    return sorted(found.values(), key=lambda member: (member.broker_id, member.broker_addr))


def _ask_member(admin: AdminClient, of_set: HaSet, member: HaMember) -> HaMember:
    try:
        status = admin.ha_status(member.broker_addr)
    except RocketMQError as error:
        return msgspec.structs.replace(member, error=str(error))
    found = msgspec.structs.replace(member, status=status)
    if not of_set.has_controllers:
        return found
    epochs = targets.or_none(lambda: admin.epoch_cache(member.broker_addr).epoch_list)
    if epochs is None:
        return found
    found = msgspec.structs.replace(found, last_epoch=epochs[-1].epoch if epochs else None)
    if found.says_master:
        info = targets.or_none(lambda: admin.broker_runtime_info(member.broker_addr)) or {}
        text = info.get("masterLeaseLeftMs", "")
        found = msgspec.structs.replace(found, lease_left_ms=int(text) if text.isdecimal() else None)
    return found


def _with_ages(admin: AdminClient, of_set: HaSet) -> HaSet:
    """The set with the time of the first message that each slave lacks. The time is unknown if the master does not
    serve the missing messages to anybody yet."""
    master = of_set.master
    if master is None or not any((of_set.behind_bytes(slave) or 0) > 0 for slave in of_set.slaves):
        return of_set
    members = []
    for member in of_set.members:
        if member in of_set.slaves and member.log_end is not None and (of_set.behind_bytes(member) or 0) > 0:
            first_ms = _first_missing_ms(admin, master.broker_addr, member.broker_addr, member.log_end)
            member = msgspec.structs.replace(member, first_missing_ms=first_ms)
        members.append(member)
    return msgspec.structs.replace(of_set, members=members)


def _first_missing_ms(admin: AdminClient, master_addr: str, slave_addr: str, log_end_offset: int) -> int | None:
    """When the master stored the first message that the slave lacks, or has only in part: transfers end anywhere. Where
    the last message begins is known to the slave alone, as the log offset up to which it has dispatched."""
    stored = targets.or_none(lambda: admin.view_message(master_addr, log_end_offset))
    if stored is not None:
        return stored.store_timestamp_ms
    try:
        told = admin.broker_runtime_info(slave_addr)
        dispatched_offset = int(told["commitLogMaxOffset"]) - int(told["dispatchBehindBytes"])
        return admin.view_message(master_addr, dispatched_offset).store_timestamp_ms
    except (RocketMQError, KeyError, ValueError):
        return None
