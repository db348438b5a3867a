"""Bodies about a broker's log: which master wrote which part of it, its replicas and slaves, cold reads and RocksDB.
Offsets are commit log offsets."""

from __future__ import annotations

from typing import Any

import msgspec

from rmqproto.bodies.base import Body
from rmqproto.bodies.routes import BrokerMemberGroup
from rmqproto.java.java_numbers import Int32, Int64


class EpochEntry(Body, kw_only=True):
    """The part of the log that was written under one master."""

    end_offset: Int64 = 0
    epoch: Int32 = 0
    start_offset: Int64 = 0


class EpochCache(Body, kw_only=True):
    """Answer of 1007. The last entry ends at ``max_offset``."""

    broker_id: Int64 = 0
    broker_name: str = ""
    cluster_name: str = ""
    epoch_list: list[EpochEntry] = []
    max_offset: Int64 = 0


class ReplicaIdentity(Body, kw_only=True):
    alive: bool = False
    broker_address: str = ""
    broker_id: Int64 = 0
    broker_name: str = ""


class ReplicaSet(Body, kw_only=True):
    """The replicas of one broker name. There may be no master."""

    in_sync_replicas: list[ReplicaIdentity] = []
    master_address: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 = 0
    not_in_sync_replicas: list[ReplicaIdentity] = []
    sync_state_set_epoch: Int32 = 0


class ReplicaSets(Body, kw_only=True):
    """``BrokerReplicasInfo``: answer of 1006, by broker name."""

    replicas_info_table: dict[str, ReplicaSet] = {}


class SyncStateSet(Body, kw_only=True):
    """The ids of the replicas in sync, including the master. The epoch counts the changes of the set."""

    sync_state_set: list[Int64] = []
    sync_state_set_epoch: Int32 = 0


class ElectedMaster(Body, kw_only=True):
    """Body of the answer of 1002."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Int64] = []


# --- a master and its slaves -----------------------------------------------------------------------------------------


class HaConnection(Body, kw_only=True):
    """One slave. Offsets are log offsets; ``diff`` is how far the slave is behind, in bytes."""

    addr: str
    diff: Int64 = 0
    in_sync: bool = False
    slave_ack_offset: Int64 = 0
    transfer_from_where: Int64 = 0
    transferred_byte_in_second: Int64 = 0


class HaClient(Body, kw_only=True):
    """The slave's side; all 0 from a master. Times in ms."""

    last_read_timestamp: Int64 = 0
    last_write_timestamp: Int64 = 0
    master_addr: str | None = None
    master_flush_offset: Int64 = 0
    max_offset: Int64 = 0
    transferred_byte_in_second: Int64 = 0


class HaStatus(Body, kw_only=True):
    """``HARuntimeInfo``: answer of 907."""

    ha_client_runtime_info: HaClient = msgspec.field(default_factory=HaClient)
    ha_connection_info: list[HaConnection] = []
    in_sync_slave_nums: Int32 = 0
    master: bool = True
    master_commit_log_max_offset: Int64 = 0


class ColdDataFlow(Body, kw_only=True):
    """Answer of 2003: how much cold data groups have read (``runtime_table``) and may read, in bytes."""

    runtime_table: dict[str, Any] = {}
    config_table: dict[str, Int64] = {}
    cg_cold_read_threshold: Int64
    global_cold_read_threshold: Int64
    global_acc: Int64 = 0


class RocksDbProgress(Body, kw_only=True):
    """``CheckRocksdbCqWriteResult``: answer of 354. ``check_status``: 0 is fine, 1 is not, 2 is under way, 3 an
    error."""

    check_result: str | None = None
    check_status: Int32


class SlaveLog(Body, kw_only=True):
    """The description of its log that our slave stores for its next start."""

    is_slave: bool = False
    is_other_log: bool = False
    """Whether its log differs from its master's."""


class SlaveLogFile(Body, kw_only=True):
    """``config/slaveLog.json``, a file of rmqserver only."""

    slave_log: SlaveLog = msgspec.field(default_factory=SlaveLog)
