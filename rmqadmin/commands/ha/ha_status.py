"""``haStatus``: shows how far slaves are behind their masters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName
from rmqadmin.core import targets
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import TIME, Result, Row, doc
from rmqproto.bodies.master import HaConnection, HaStatus
from rmqproto.times import mqadmin_time


class ReplicationRow(Row, frozen=True):
    broker_addr: Annotated[str, doc("address of the broker that was asked", key=True)]
    role: Annotated[str, doc("master or slave")]
    max_offset: Annotated[int, doc("commit log offset at which its log ends", minor=True)]
    peer_addr: Annotated[str | None, doc("of a master: the slave; of a slave: its master", key=True)]
    in_sync: Annotated[bool | None, doc("of a slave of a master: whether it keeps up")]
    behind_bytes: Annotated[int | None, doc("of a slave of a master: what it has not acknowledged", vital=True)]
    ack_offset: Annotated[int | None, doc("of a slave of a master: the commit log offset that it has acknowledged")]
    transfer_offset: Annotated[int | None, doc("of a slave of a master: where the next bytes begin", wide=True)]
    speed_bytes: Annotated[int | None, doc("bytes transferred a second")]
    last_read_ms: Annotated[int | None, TIME, doc("of a slave: when it last heard of its master")]
    last_write_ms: Annotated[int | None, TIME, doc("of a slave: when it last told its master how far it is", wide=True)]
    master_flush_offset: Annotated[int | None, doc("of a slave: what it takes for flushed by its master", wide=True)]


class AskedReplica(msgspec.Struct, frozen=True):
    addr: str
    status: HaStatus


class Replication(Result, frozen=True):
    """How far slaves are, one row a slave; one for a master without any."""

    row_type: ClassVar[type[Row]] = ReplicationRow
    found: list[AskedReplica]

    def rows(self) -> Sequence[ReplicationRow]:
        return [row for one in self.found for row in _rows(one.addr, one.status)]

    def mqadmin_text(self) -> str:
        return "".join(_text(one.addr, one.status) for one in self.found)


def _rows(addr: str, status: HaStatus) -> list[ReplicationRow]:
    if status.master:
        slaves: list[HaConnection | None] = [*status.ha_connection_info]
        return [_master_row(addr, status.master_commit_log_max_offset, slave) for slave in slaves or [None]]
    client = status.ha_client_runtime_info
    return [
        ReplicationRow(
            broker_addr=addr,
            role="slave",
            max_offset=client.max_offset,
            peer_addr=client.master_addr,
            in_sync=None,
            behind_bytes=None,
            ack_offset=None,
            transfer_offset=None,
            speed_bytes=client.transferred_byte_in_second,
            last_read_ms=client.last_read_timestamp or None,
            last_write_ms=client.last_write_timestamp or None,
            master_flush_offset=client.master_flush_offset,
        )
    ]


def _master_row(addr: str, max_offset: int, slave: HaConnection | None) -> ReplicationRow:
    return ReplicationRow(
        broker_addr=addr,
        role="master",
        max_offset=max_offset,
        peer_addr=slave.addr if slave else None,
        in_sync=slave.in_sync if slave else None,
        behind_bytes=slave.diff if slave else None,
        ack_offset=slave.slave_ack_offset if slave else None,
        transfer_offset=slave.transfer_from_where if slave else None,
        speed_bytes=slave.transferred_byte_in_second if slave else None,
        last_read_ms=None,
        last_write_ms=None,
        master_flush_offset=None,
    )


def _text(addr: str, status: HaStatus) -> str:
    if not status.master:
        client = status.ha_client_runtime_info
        return (
            f"\n#MasterAddr\t{java_text(client.master_addr)}\n#CommitLogMaxOffset\t{client.max_offset}\n"
            f"#TransferSpeed(KB/s)\t{client.transferred_byte_in_second / 1024:.2f}\n"
            f"#LastReadTime\t{mqadmin_time(client.last_read_timestamp, milliseconds=True)}\n"
            f"#LastWriteTime\t{mqadmin_time(client.last_write_timestamp, milliseconds=True)}\n"
            f"#MasterFlushOffset\t{client.master_flush_offset}\n"
        )
    slaves = status.ha_connection_info
    text = (
        f"\n#MasterAddr\t{addr}\n#MasterCommitLogMaxOffset\t{status.master_commit_log_max_offset}\n"
        f"#SlaveNum\t{len(slaves)}\n#InSyncSlaveNum\t{status.in_sync_slave_nums}\n"
    )
    line = "{:32}  {:16} {:>16} {:>16} {:>16} {:>16}\n"
    text += line.format(
        "#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status", "#TransferFromWhere"
    )
    for slave in slaves:
        speed = f"{slave.transferred_byte_in_second / 1024:.2f}"
        state = "OK" if slave.in_sync else "Fall Behind"
        text += line.format(
            slave.addr, str(slave.slave_ack_offset), slave.diff, speed, state, slave.transfer_from_where
        )
    return text


def ha_status(call: Call, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None) -> Replication:
    """A master shows every connected slave; a slave shows its own state.

    Examples:
      rmqadmin haStatus -c DefaultCluster
      rmqadmin haStatus -b 127.0.0.1:10911 --watch
    """
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    answers = call.answers.of(call.admin.ha_status, addrs)
    return Replication([AskedReplica(addr, status) for addr, status in answers.items()])
