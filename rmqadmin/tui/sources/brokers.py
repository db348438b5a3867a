"""Brokers: every replica of every cluster with what it says about itself, as `clusterList` shows them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.servers.broker_state import (
    BrokerRow,
    Replica,
    StatusRow,
    ask_replica,
    broker_row,
    replicas_of,
    status_rows,
)
from rmqadmin.tui.sources.found import Found
from rmqclient.admin import AdminClient


class BrokerState(msgspec.Struct, frozen=True):
    """A row of `clusterList`, and the messages of today."""

    row: BrokerRow
    in_today: int | None
    out_today: int | None


class Setting(msgspec.Struct, frozen=True):
    """One thing that a broker says: of its ``config`` or its ``status``."""

    kind: str
    row: StatusRow


def read_brokers(admin: AdminClient) -> Found[Replica]:
    """Which brokers there are, as the name server says; none is asked."""
    return Found({f"{one.broker_name}/{one.broker_id}": one for one in replicas_of(admin.cluster_info(), None)})


def read_states(admin: AdminClient, replicas: Mapping[str, Replica]) -> dict[str, BrokerState]:
    asked = targets.ask_each(lambda replica: ask_replica(admin, replica), list(replicas.values()))
    return {
        key: BrokerState(broker_row(replica), replica.today("Put"), replica.today("Get"))
        for key, replica in zip(replicas, asked, strict=True)
    }


def read_settings(admin: AdminClient, broker_addr: str) -> Found[Setting]:
    """Everything that one broker says about its state (as `brokerStatus`) and its configuration."""
    found = {}
    for kind, values in (
        ("status", admin.broker_runtime_info(broker_addr)),
        ("config", admin.broker_config(broker_addr)),
    ):
        for row in status_rows(broker_addr, values):
            found[f"{kind}/{row.name}"] = Setting(kind, row)
    return Found(found)
