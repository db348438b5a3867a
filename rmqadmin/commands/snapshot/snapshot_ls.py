"""``snapshot ls``: lists the snapshots of a broker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, NamedCluster
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.own_requests import meant_brokers, own_answer


class SnapshotRow(Row, frozen=True):
    snapshot: Annotated[str, doc("its name", key=True)]
    broker_addr: Annotated[str, doc("address of the broker that keeps it")]


class Snapshots(Result, frozen=True):
    """The snapshots, by name."""

    row_type: ClassVar[type[Row]] = SnapshotRow
    found: list[SnapshotRow]

    def rows(self) -> Sequence[SnapshotRow]:
        return self.found


def snapshot_ls(call: Call, broker_addr: BrokerAddr = None, cluster_name: NamedCluster = None) -> Snapshots:
    """A snapshot lasts as long as the store. Without -b and -c, shows those of the only broker.

    Examples:
      rmqadmin snapshot ls
      rmqadmin snapshot ls -b 127.0.0.1:10911
    """
    admin = call.admin
    addrs = meant_brokers(admin, broker_addr, cluster_name)
    answers = call.answers.of(lambda addr: own_answer(partial(admin.snapshots, addr)), addrs)
    return Snapshots(
        [SnapshotRow(snapshot=name, broker_addr=addr) for addr, names in answers.items() for name in names]
    )
