"""Brokers: every replica of every cluster and what it reports, as `clusterList` shows them; and their sets, with
masters, slaves and controllers, as `doctor` sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.health.broker_checks import DiskLimits, disk_limits
from rmqadmin.core.health.finding import Finding, Grade, in_order
from rmqadmin.core.health.ha_checks import ha_findings
from rmqadmin.core.results import ResultColumn, columns
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.servers.broker_state import (
    BrokerRow,
    Replica,
    StatusRow,
    ask_replica,
    broker_row,
    status_rows,
)
from rmqadmin.core.servers.ha_sets import HaMember, HaSet, KnownBroker, read_ha
from rmqadmin.core.servers.server_configs import MEANINGS
from rmqadmin.tui.memory.cluster import ClusterMemory, SeenBroker
from rmqadmin.tui.sources.found import Found, read_cluster
from rmqproto.errors import RocketMQError


class BrokerState(msgspec.Struct, frozen=True):
    """A row of `clusterList`, the broker's own limits for its disk, and the messages of today."""

    row: BrokerRow
    disk_limits: DiskLimits
    in_today: int | None
    out_today: int | None


STATE_GROUPS = {
    "load": re.compile("^(put|get|msg)"),
    "store": re.compile("^(commitLog|consumeQueue|earliest|dispatch|pageCache|remain)|riteable"),
    "queues": re.compile("Queue(Size|Capacity|HeadWaitTimeMills)"),
    "timers": re.compile("^(timer|scheduleMessage)"),
    "broker": re.compile(""),
}
"""By Apache's names (28): the queues of its thread pools are those that requests wait in."""

_VALUE = next(column for column in columns(StatusRow) if column.name == "value")


class Setting(msgspec.Struct, frozen=True):
    """One value of a broker's ``config`` or ``status``."""

    kind: str
    row: StatusRow

    @property
    def group(self) -> str:
        """What a value of the state is about: one of ``STATE_GROUPS``."""
        return next(group for group, names in STATE_GROUPS.items() if names.search(self.row.name))

    @property
    def value(self) -> str | int | float:
        """The value; for a property, as it would be typed."""
        return self.row.value if self.kind == "status" else str(self.row.value)

    @property
    def described(self) -> ResultColumn:
        return self.row.column_of(_VALUE) if self.kind == "status" else _VALUE

    @property
    def meaning(self) -> str | None:
        """The meaning of a property; None if it is not known."""
        return MEANINGS.get(self.row.name) if self.kind == "config" else None


def read_brokers(admin: AdminClient, memory: ClusterMemory) -> Found[SeenBroker]:
    """Reads which brokers the nameserver lists, and adds those it listed before. Asks no broker."""
    return Found(read_cluster(admin, memory).seen)


def read_states(admin: AdminClient, memory: ClusterMemory, brokers: Mapping[str, SeenBroker]) -> dict[str, BrokerState]:
    """Reads what brokers that are not gone say about themselves."""
    here = {key: one.replica for key, one in brokers.items() if one.gone_since_ms is None}

    def ask(replica: Replica) -> BrokerState:
        asked = ask_replica(admin, replica)
        known = asked.error is None
        limits = disk_limits(memory.settings.of(admin, replica.broker_addr) if known else {})
        return BrokerState(broker_row(asked), limits, asked.today("Put"), asked.today("Get"))

    return dict(zip(here, ask_each(ask, list(here.values())), strict=True))


def read_settings(admin: AdminClient, broker_addr: str, kind: str) -> Found[Setting]:
    """Reads everything that one broker says about its state (``status``, as `brokerStatus`), group by group, or its
    configuration (``config``)."""
    is_state = kind == "status"
    values = (
        admin.broker_runtime_info(broker_addr) if is_state else admin.broker_config(broker_addr, with_own_defaults=True)
    )
    found = [Setting(kind, row) for row in status_rows(broker_addr, values)]
    if is_state:
        found.sort(key=lambda setting: list(STATE_GROUPS).index(setting.group))
    return Found({setting.row.name: setting for setting in found})


_CONFIG = "config of"
"""With a broker's address, the key of its remembered configuration, which names the controllers of a broker that does
not answer."""


class SetRow(msgspec.Struct, frozen=True):
    """One member of a set."""

    of_set: HaSet
    member: HaMember
    behind_bytes: int | None = None
    behind_ms: int | None = None

    @property
    def role(self) -> str:
        if self.member.says_master:
            return "master"
        return "slave" if self.member.status is not None else "unknown"

    @property
    def is_master(self) -> bool:
        """Whether it is the master according to the controller, or else to the nameservers."""
        return self.member is self.of_set.master

    @property
    def epoch(self) -> int | None:
        """The epoch of the set for its master; for others, the epoch at the end of the member's log."""
        known = self.of_set.known
        return known.master_epoch if self.is_master and known is not None else self.member.last_epoch

    @property
    def state(self) -> str:
        member = self.member
        if member.error is not None:
            return f"dead, {member.error}" if member.is_alive is False else member.error
        if self.is_master and not member.says_master:
            return "elected, does not serve as master yet"
        if member.says_master and not self.is_master:
            return "takes itself for the master"
        if member.in_sync is not None:
            return "in sync" if member.in_sync else "not in sync"
        return "serves" if member.says_master else "follows"


class ReadSets(msgspec.Struct, frozen=True):
    """``rows`` by set and address. ``findings``: what is wrong, the worst first."""

    sets: list[HaSet]
    rows: dict[str, SetRow]
    findings: list[Finding]


def read_sets(admin: AdminClient, memory: ClusterMemory, now_ms: int) -> ReadSets:
    """Reads the sets of all brokers, present or gone. A single broker without controllers is also a set."""
    seen = list(read_cluster(admin, memory).seen.values())
    found = read_ha(admin, ask_each(lambda broker: _registered(admin, memory, broker), seen))
    rows = {
        f"{one.broker_name}/{member.broker_addr}": SetRow(one, member)
        if member is one.master
        else SetRow(one, member, one.behind_bytes(member), one.behind_ms(member, now_ms))
        for one in found.sets
        for member in sorted(one.members, key=lambda member: member is not one.master)
    }
    bad = [each for each in ha_findings(found, now_ms) if each.grade in (Grade.ERROR, Grade.WARNING)]
    return ReadSets(found.sets, rows, in_order(bad))


def _registered(admin: AdminClient, memory: ClusterMemory, seen: SeenBroker) -> KnownBroker:
    replica, is_gone = seen.replica, seen.gone_since_ms is not None
    config = None
    if not is_gone:
        try:
            config = admin.broker_config(replica.broker_addr)
            memory.keep(f"{_CONFIG} {replica.broker_addr}", replica.broker_name, config)
        except RocketMQError:
            pass  # its row says what is wrong
    return KnownBroker(
        cluster=replica.cluster,
        broker_name=replica.broker_name,
        broker_id=replica.broker_id,
        broker_addr=replica.broker_addr,
        config=config or memory.last(f"{_CONFIG} {replica.broker_addr}", replica.broker_name) or {},
        is_gone=is_gone,
    )
