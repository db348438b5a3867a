"""Brokers: every replica of every cluster and what it reports, as `clusterList` shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.health.broker_checks import DiskLimits, disk_limits
from rmqadmin.core.results import ResultColumn, columns
from rmqadmin.core.servers.broker_state import (
    BrokerRow,
    Replica,
    StatusRow,
    ask_replica,
    broker_row,
    status_rows,
)
from rmqadmin.core.servers.server_configs import MEANINGS
from rmqadmin.tui.memory.cluster import ClusterMemory, SeenBroker
from rmqadmin.tui.sources.found import Found, read_cluster


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

    return dict(zip(here, targets.ask_each(ask, list(here.values())), strict=True))


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
