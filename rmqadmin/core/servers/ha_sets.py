"""The brokers of one name as a set: the master, the replicas that have its log, and how far each is, built from the
answers of name servers, controllers and the brokers themselves. Servers that do not answer are part of it. All are
asked at the same time where the order does not matter."""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.servers.broker_answers import ask_each
from rmqclient.addresses import parse_addresses
from rmqproto.bodies.replication import HaStatus, ReplicaIdentity, ReplicaSet
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.ha import MASTER_ID
from rmqproto.headers.controller import ControllerMetaAnswer


class KnownBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker process that a name server lists, or listed, and its settings as far as they are known."""

    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
    config: Mapping[str, str] = {}
    is_gone: bool = False

    @property
    def controller_addrs(self) -> tuple[str, ...]:
        """The controllers in its settings; none outside controller mode."""
        if self.config.get("enableControllerMode", "").lower() != "true":
            return ()
        try:
            return tuple(parse_addresses(self.config.get("controllerAddr", "")))
        except UsageError:
            return ()


class AskedController(msgspec.Struct, frozen=True, kw_only=True):
    """One controller. ``meta`` is None if ``error`` says why."""

    addr: str
    meta: ControllerMetaAnswer | None = None
    error: str | None = None


class AskedControllers(msgspec.Struct, frozen=True, kw_only=True):
    """The controllers that some brokers name together. ``known``: what the leader says about their sets, by broker
    name; None if ``error`` says why."""

    controllers: list[AskedController]
    broker_names: list[str]
    known: Mapping[str, ReplicaSet] | None = None
    error: str | None = None

    @property
    def addrs(self) -> str:
        return ";".join(one.addr for one in self.controllers)

    @property
    def answering(self) -> list[AskedController]:
        return [one for one in self.controllers if one.meta is not None]

    @property
    def leader_addrs(self) -> list[str]:
        """The leaders that the answering controllers name; several if they disagree."""
        named = {one.meta.controller_leader_address for one in self.answering if one.meta is not None}
        return sorted(addr for addr in named if addr)


class HaMember(msgspec.Struct, frozen=True, kw_only=True):
    """One broker. ``broker_id`` is the controller's if there is one, otherwise the name server's. ``is_alive``: whether
    the controller hears from it. ``status`` is None if ``error`` says why. ``first_missing_ms``: when the first message
    was stored that its master has and it lacks; None if unknown. ``lease_left_ms``: only for a master of rmqserver
    under controllers; 0 if its lease has ended."""

    broker_id: int
    broker_addr: str
    is_alive: bool | None = None
    in_sync: bool | None = None
    status: HaStatus | None = None
    last_epoch: int | None = None
    first_missing_ms: int | None = None
    lease_left_ms: int | None = None
    error: str | None = None

    @property
    def says_master(self) -> bool:
        return self.status is not None and self.status.master

    @property
    def log_end(self) -> int | None:
        """The log offset at which its log ends."""
        if self.status is None:
            return None
        of_slave = self.status.ha_client_runtime_info.max_offset
        return self.status.master_commit_log_max_offset if self.status.master else of_slave


class HaSet(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers of one name. ``known``: what its controller says; None if there is no controller or it says nothing.
    ``config`` is the master's, or another broker's if the master's is unknown. ``registered_master``: the master's
    address according to name servers; None if they name two."""

    cluster: str
    broker_name: str
    members: list[HaMember]
    has_controllers: bool
    controller_addrs: str = ""
    known: ReplicaSet | None = None
    registered_master: str | None = None
    config: Mapping[str, str] = {}

    @property
    def master(self) -> HaMember | None:
        """The master according to the controller; without one, according to name servers."""
        addr = self.registered_master if self.known is None else self.known.master_address
        return next((member for member in self.members if member.broker_addr == addr), None)

    @property
    def claiming(self) -> list[HaMember]:
        """The brokers that act as master."""
        return [member for member in self.members if member.says_master]

    @property
    def in_sync_count(self) -> int | None:
        """How many replicas are in sync, including the master. None if unknown."""
        if self.known is not None:
            return len(self.known.in_sync_replicas)
        master = self.master
        if self.has_controllers or master is None or master.status is None or not master.status.master:
            return None
        return 1 + master.status.in_sync_slave_nums

    @property
    def in_sync_needed(self) -> int:
        """How many replicas must be in sync for the broker to accept messages and answer 0."""
        if self.has_controllers:
            return self.number("minInSyncReplicas", 1)
        return self.number("inSyncReplicas", 1) if self.config.get("brokerRole") == "SYNC_MASTER" else 1

    def number(self, key: str, default: int) -> int:
        text = self.config.get(key, "")
        return int(text) if text.isdecimal() else default

    def name_of(self, member: HaMember) -> str:
        """``broker-a/1``, by the broker's id in this set."""
        return f"{self.broker_name}/{member.broker_id}"

    @property
    def slaves(self) -> list[HaMember]:
        """All members except the master and those that act as master."""
        master = self.master
        return [member for member in self.members if member is not master and not member.says_master]

    def behind_bytes(self, member: HaMember) -> int | None:
        """How much shorter the member's log is than its master's; below zero if it is longer. The slave was asked
        first, so messages that arrived between the two questions count as missing."""
        master = self.master
        if master is None or not master.says_master or member.log_end is None or master.log_end is None:
            return None
        return master.log_end - member.log_end

    def behind_ms(self, member: HaMember, now_ms: int) -> int | None:
        """The age of the first message that the member lacks; 0 if it lacks none. None if unknown."""
        behind_bytes = self.behind_bytes(member)
        if behind_bytes is None or member.first_missing_ms is None:
            return 0 if behind_bytes is not None and behind_bytes <= 0 else None
        return max(now_ms - member.first_missing_ms, 0)


class HaFacts(msgspec.Struct, frozen=True, kw_only=True):
    sets: list[HaSet]
    controllers: list[AskedControllers]


def in_sync_text(sets: Sequence[HaSet]) -> str:
    """What to say if nothing is wrong with the sets. A broker of which no slave is known is in sync with nobody."""
    alone = sum(len(one.members) == 1 for one in sets)
    if not alone:
        return "all are in sync"
    return "no slave is known" if alone == len(sets) else f"no slave is known of {alone}; the others are in sync"


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
    controllers = ask_each(lambda item: _ask_controllers(admin, *item, has_all=has_all), sorted(groups.items()))
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
        answers = ask_each(lambda item: _ask_member(admin, *item), wanted)
        asked |= {answer.broker_addr: answer for answer in answers}
    found = [
        msgspec.structs.replace(one, members=[asked[member.broker_addr] for member in one.members]) for one in planned
    ]
    return HaFacts(sets=ask_each(lambda one: _with_ages(admin, one), found), controllers=controllers)


def _ask_controllers(admin: AdminClient, addrs: tuple[str, ...], names: set[str], *, has_all: bool) -> AskedControllers:
    def ask(addr: str) -> AskedController:
        try:
            return AskedController(addr=addr, meta=admin.controller_metadata(addr))
        except RocketMQError as error:
            return AskedController(addr=addr, error=str(error))

    found = AskedControllers(controllers=ask_each(ask, addrs), broker_names=sorted(names))
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
    """With the time of the first message that each slave lacks, unless the master serves it to nobody yet."""
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
