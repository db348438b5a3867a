"""Masters and slaves: how far behind, who wrote what, who is in sync."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ControllerAddr, EveryBrokerName, Masters, OneBrokerName
from rmqadmin.core import targets
from rmqadmin.core.mqadmin_text import java_bool, java_text
from rmqadmin.core.results import TIME, ResultOf, Row, doc
from rmqadmin.core.servers.meant_brokers import leader_addr, named_brokers
from rmqproto.bodies.replication import EpochCache, HaStatus, ReplicaIdentity, ReplicaSet
from rmqproto.errors import NotFoundError
from rmqproto.times import mqadmin_time


class ReplicationRow(Row, frozen=True):
    broker_addr: Annotated[str, doc("address of the broker that was asked", key=True)]
    role: Annotated[str, doc("master or slave")]
    max_offset: Annotated[int, doc("commit log offset at which its log ends", minor=True)]
    peer_addr: Annotated[str | None, doc("of a master: the slave; of a slave: its master", key=True)] = None
    in_sync: Annotated[bool | None, doc("of a slave of a master: whether it keeps up")] = None
    behind_bytes: Annotated[int | None, doc("of a slave of a master: what it has not acknowledged", vital=True)] = None
    ack_offset: Annotated[int | None, doc("of a slave of a master: the commit log offset that it has acknowledged")] = (
        None
    )
    transfer_offset: Annotated[int | None, doc("of a slave of a master: where the next bytes begin", wide=True)] = None
    speed_bytes: Annotated[int | None, doc("bytes transferred a second")] = None
    last_read_ms: Annotated[int | None, TIME, doc("of a slave: when it last heard of its master")] = None
    last_write_ms: Annotated[
        int | None, TIME, doc("of a slave: when it last told its master how far it is", wide=True)
    ] = None
    master_flush_offset: Annotated[
        int | None, doc("of a slave: what it takes for flushed by its master", wide=True)
    ] = None


class Replication(ResultOf[ReplicationRow], frozen=True):
    """How far slaves are, one row a slave; one for a master without any."""

    found: dict[str, HaStatus]

    def rows(self) -> Sequence[ReplicationRow]:
        return [row for addr, status in self.found.items() for row in _rows(addr, status)]

    def mqadmin_text(self) -> str:
        return "".join(map(_text, self.found, self.found.values()))


def _rows(addr: str, status: HaStatus) -> list[ReplicationRow]:
    if not status.master:
        client = status.ha_client_runtime_info
        return [
            ReplicationRow(
                broker_addr=addr,
                role="slave",
                max_offset=client.max_offset,
                peer_addr=client.master_addr,
                speed_bytes=client.transferred_byte_in_second,
                last_read_ms=client.last_read_timestamp or None,
                last_write_ms=client.last_write_timestamp or None,
                master_flush_offset=client.master_flush_offset,
            )
        ]
    alone = ReplicationRow(broker_addr=addr, role="master", max_offset=status.master_commit_log_max_offset)
    return [
        msgspec.structs.replace(
            alone,
            peer_addr=slave.addr,
            in_sync=slave.in_sync,
            behind_bytes=slave.diff,
            ack_offset=slave.slave_ack_offset,
            transfer_offset=slave.transfer_from_where,
            speed_bytes=slave.transferred_byte_in_second,
        )
        for slave in status.ha_connection_info
    ] or [alone]


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
    heads = ("#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status", "#TransferFromWhere")
    text += line.format(*heads)
    for slave in slaves:
        speed, state = f"{slave.transferred_byte_in_second / 1024:.2f}", "OK" if slave.in_sync else "Fall Behind"
        ack = str(slave.slave_ack_offset)
        text += line.format(slave.addr, ack, slave.diff, speed, state, slave.transfer_from_where)
    return text


def ha_status(call: Call, where: Masters) -> Replication:
    """A master shows every connected slave; a slave shows its own state.

    rmqadmin haStatus -c DefaultCluster
    rmqadmin haStatus -b 127.0.0.1:10911 --watch
    """
    return Replication(call.answers.of(call.admin.ha_status, where.addrs(call.admin)))


class EpochRow(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name", wide=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_id: Annotated[int, doc("0 is the master", key=True)]
    broker_addr: Annotated[str, doc("its address")]
    epoch: Annotated[int | None, doc("number of the master's term; none of an empty log", key=True)]
    start_offset: Annotated[int | None, doc("commit log offset at which the term begins")]
    end_offset: Annotated[int | None, doc("where it ends; of the last one, where the log ends")]


def _terms(cache: EpochCache) -> list[tuple[int, int, int]]:
    """Epoch, start and end of each term."""
    found = [(entry.epoch, entry.start_offset, entry.end_offset) for entry in cache.epoch_list]
    return [*found[:-1], (*found[-1][:2], cache.max_offset)] if found else []


class Epochs(ResultOf[EpochRow], frozen=True):
    """The terms of masters in each replica's log."""

    found: dict[str, EpochCache]

    def rows(self) -> Sequence[EpochRow]:
        return [
            EpochRow(
                cluster=cache.cluster_name,
                broker_name=cache.broker_name,
                broker_id=cache.broker_id,
                broker_addr=addr,
                epoch=epoch,
                start_offset=start,
                end_offset=end,
            )
            for addr, cache in self.found.items()
            for epoch, start, end in _terms(cache) or ((None, None, None),)
        ]

    def mqadmin_text(self) -> str:
        text = ""
        for addr, cache in self.found.items():
            text += f"\n#clusterName\t{cache.cluster_name}\n#brokerName\t{cache.broker_name}"
            text += f"\n#brokerAddr\t{addr}\n#brokerId\t{cache.broker_id}"
            for epoch, start, end in _terms(cache):
                text += f"\n#Epoch: EpochEntry{{epoch={epoch}, startOffset={start}, endOffset={end}}}"
            text += "\n"
        return text


def get_broker_epoch(call: Call, broker_name: OneBrokerName = None, cluster_name: EveryBrokerName = None) -> Epochs:
    """Asks every replica, master and slaves. Brokers without a controller refuse.

    rmqadmin getBrokerEpoch -b broker-a
    rmqadmin getBrokerEpoch -c DefaultCluster --output wide
    """
    addrs = targets.replicas_of_all(named_brokers(call.admin, broker_name, cluster_name))
    return Epochs(call.answers.of(call.admin.epoch_cache, addrs))


class ReplicaRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_id: Annotated[int, doc("the id that the controller gave it", key=True)]
    broker_addr: Annotated[str, doc("its address")]
    is_master: Annotated[bool, doc("whether it is the master now", vital=True)]
    in_sync: Annotated[bool, doc("whether it may become the master without losing messages", vital=True)]
    alive: Annotated[bool, doc("whether the controller hears of it")]
    master_epoch: Annotated[int, doc("how often the broker got a master")]
    sync_state_set_epoch: Annotated[int, doc("how often the set of in-sync replicas changed")]


class SyncStates(ResultOf[ReplicaRow], frozen=True):
    """Replicas, as the controller sees them."""

    found: dict[str, ReplicaSet]

    def rows(self) -> Sequence[ReplicaRow]:
        return [
            ReplicaRow(
                broker_name=name,
                broker_id=replica.broker_id,
                broker_addr=replica.broker_address,
                is_master=replica.broker_id == one.master_broker_id,
                in_sync=replica in one.in_sync_replicas,
                alive=replica.alive,
                master_epoch=one.master_epoch,
                sync_state_set_epoch=one.sync_state_set_epoch,
            )
            for name, one in sorted(self.found.items())
            for replica in [*one.in_sync_replicas, *one.not_in_sync_replicas]
        ]

    def mqadmin_text(self) -> str:
        text = ""
        for name in sorted(self.found):
            one = self.found[name]
            text += (
                f"\n#brokerName\t{name}\n#MasterBrokerId\t{java_text(one.master_broker_id)}\n"
                f"#MasterAddr\t{java_text(one.master_address)}\n#MasterEpoch\t{one.master_epoch}\n"
                f"#SyncStateSetEpoch\t{one.sync_state_set_epoch}\n#SyncStateSetNums\t{len(one.in_sync_replicas)}\n"
            )
            text += "".join(f"\nInSyncReplica:\t{_replica_text(replica)}\n" for replica in one.in_sync_replicas)
            text += "".join(f"\nNotInSyncReplica:\t{_replica_text(replica)}\n" for replica in one.not_in_sync_replicas)
        return text


def _replica_text(replica: ReplicaIdentity) -> str:
    """``ReplicaIdentity.toString``."""
    return (
        f"ReplicaIdentity{{brokerName='{replica.broker_name}', brokerId={replica.broker_id}, "
        f"brokerAddress='{replica.broker_address}', alive={java_bool(replica.alive)}}}"
    )


def get_sync_state_set(
    call: Call,
    controller_address: ControllerAddr,
    broker_name: OneBrokerName = None,
    cluster_name: EveryBrokerName = None,
) -> SyncStates:
    """Asks the leading controller. It does not know brokers that run without a controller.

    rmqadmin getSyncStateSet -a 127.0.0.1:9878 -b broker-a
    rmqadmin getSyncStateSet -a 127.0.0.1:9878 -c DefaultCluster --watch
    """
    targets.check_one_of(broker_name, cluster_name)
    if cluster_name is None:
        names = [broker_name or ""]
    else:
        names = [broker.broker_name for broker in targets.cluster(call.admin, cluster_name)]
    leader = leader_addr(call.admin, controller_address)
    found = call.admin.replica_sets(leader, names).replicas_info_table
    if not found and not call.as_mqadmin:
        raise NotFoundError(
            f"the controller {leader} knows no broker {', '.join(names)}",
            hint="Brokers register with it if enableControllerMode=true.",
        )
    return SyncStates(found)
