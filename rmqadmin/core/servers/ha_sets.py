"""The brokers of one name as a set: the master, the replicas that have its log, and how far each is. ``ha_reading.py``
builds it from the answers of name servers, controllers and the brokers themselves. Servers that do not answer are part
of it."""

from collections.abc import Mapping, Sequence

import msgspec

from rmqclient.addresses import parse_addresses
from rmqproto.bodies.replication import HaStatus, ReplicaSet
from rmqproto.errors import UsageError
from rmqproto.headers.controller import ControllerMetaAnswer


class KnownBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker process that a name server lists, or listed before it went away, and its settings as far as they are
    known."""

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
