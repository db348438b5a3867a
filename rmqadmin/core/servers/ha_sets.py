"""Brokers of one name as a set: who is the master, who has its log, and how far. It is put together (in
``ha_reading.py``) from what name servers, controllers and the brokers themselves say. Whoever does not answer is part
of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rmqclient.addresses import parse_addresses
from rmqproto.bodies.master import HaStatus
from rmqproto.bodies.replication import ReplicaSet
from rmqproto.errors import UsageError
from rmqproto.headers.controller import ControllerMetaAnswer

MASTER_ID = 0


class KnownBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker process as a name server tells of it, or did before it was gone, and its settings, as far as they are
    known."""

    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
    config: Mapping[str, str] = {}
    is_gone: bool = False

    @property
    def controller_addrs(self) -> tuple[str, ...]:
        """Those that its settings name; none outside controller mode."""
        if self.config.get("enableControllerMode", "").lower() != "true":
            return ()
        try:
            return tuple(parse_addresses(self.config.get("controllerAddr", "")))
        except UsageError:
            return ()


class AskedController(msgspec.Struct, frozen=True, kw_only=True):
    """``meta`` is None where ``error`` says why."""

    addr: str
    meta: ControllerMetaAnswer | None = None
    error: str | None = None


class AskedControllers(msgspec.Struct, frozen=True, kw_only=True):
    """Those that some brokers name together. ``known``: what the leader says of their sets, by broker name; None where
    ``error`` says why not."""

    controllers: list[AskedController]
    broker_names: list[str]
    known: Mapping[str, ReplicaSet] | None = None
    error: str | None = None

    @property
    def addrs(self) -> str:
        return ";".join(one.addr for one in self.controllers)

    @property
    def known_names(self) -> list[str]:
        return list(self.known or ())

    @property
    def answering(self) -> list[AskedController]:
        return [one for one in self.controllers if one.meta is not None]

    @property
    def leader_addrs(self) -> list[str]:
        """Whom those that answer name; several if they disagree."""
        named = {one.meta.controller_leader_address for one in self.answering if one.meta is not None}
        return sorted(addr for addr in named if addr)


class HaMember(msgspec.Struct, frozen=True, kw_only=True):
    """One broker. ``broker_id`` is the controller's, where there is one, and otherwise the name server's. ``is_alive``:
    whether the controller hears of it. ``status`` is None where ``error`` says why. ``first_missing_ms``: when the
    first message was stored that its master has and it has not; None if that is not known. ``lease_left_ms``: of a
    master of ours under controllers; 0 if its lease has ended."""

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
        """Commit log offset at which its log ends."""
        if self.status is None:
            return None
        of_slave = self.status.ha_client_runtime_info.max_offset
        return self.status.master_commit_log_max_offset if self.status.master else of_slave


class HaSet(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers of one name. ``known``: what its controller says; None without one, and if it says nothing.
    ``config`` is the master's, or another's if that is not known. ``registered_master``: the address that name servers
    tell as the master's; None if they tell two."""

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
        """Whom the controller names; without one, whom name servers name."""
        addr = self.registered_master if self.known is None else self.known.master_address
        return next((member for member in self.members if member.broker_addr == addr), None)

    @property
    def claiming(self) -> list[HaMember]:
        """Those that take themselves for the master."""
        return [member for member in self.members if member.says_master]

    @property
    def in_sync_count(self) -> int | None:
        """The master among them. None if nobody says it."""
        if self.known is not None:
            return len(self.known.in_sync_replicas)
        master = self.master
        if self.has_controllers or master is None or master.status is None or not master.status.master:
            return None
        return 1 + master.status.in_sync_slave_nums

    @property
    def in_sync_needed(self) -> int:
        """So many must be in sync for messages to be taken, and answered with 0."""
        if self.has_controllers:
            return self.number("minInSyncReplicas", 1)
        return self.number("inSyncReplicas", 1) if self.config.get("brokerRole") == "SYNC_MASTER" else 1

    def number(self, key: str, default: int) -> int:
        text = self.config.get(key, "")
        return int(text) if text.isdecimal() else default

    def name_of(self, member: HaMember) -> str:
        """``broker-a/1``, by the id that it has in this set."""
        return f"{self.broker_name}/{member.broker_id}"

    @property
    def slaves(self) -> list[HaMember]:
        """All but the master, and but those that take themselves for one."""
        master = self.master
        return [member for member in self.members if member is not master and not member.says_master]

    def behind_bytes(self, member: HaMember) -> int | None:
        """How much shorter its log is than its master's; below zero if it is longer. The slave was asked first, so what
        came between the two questions counts as behind."""
        master = self.master
        if master is None or not master.says_master or member.log_end is None or master.log_end is None:
            return None
        return master.log_end - member.log_end

    def behind_ms(self, member: HaMember, now_ms: int) -> int | None:
        """How old the first message is that it lacks; 0 if it lacks none. None if that is not known."""
        behind_bytes = self.behind_bytes(member)
        if behind_bytes is None or member.first_missing_ms is None:
            return 0 if behind_bytes is not None and behind_bytes <= 0 else None
        return max(now_ms - member.first_missing_ms, 0)


class HaFacts(msgspec.Struct, frozen=True, kw_only=True):
    sets: list[HaSet]
    controllers: list[AskedControllers]
