"""Bodies about replicas: which master wrote which part of the log, and which replicas are in sync. Offsets are commit
log offsets."""

from __future__ import annotations

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
