"""Headers of requests to controllers, about replicas, and to broker containers."""

from __future__ import annotations

from rmqproto.headers.base import Header
from rmqproto.java.java_numbers import Int32, Int64


class AlterSyncStateSetHeader(Header, kw_only=True):
    """1001 CONTROLLER_ALTER_SYNC_STATE_SET, whose body is the wanted ``SyncStateSet`` with the epoch of the current
    one."""

    broker_name: str
    master_broker_id: Int64
    master_epoch: Int32
    invoke_time: Int64 = 0


class AlterSyncStateSetAnswer(Header, kw_only=True):
    """The epoch is 0 in a refusal. The body is the new ``SyncStateSet``."""

    new_sync_state_set_epoch: Int32 = 0


class RegisterToControllerHeader(Header, kw_only=True):
    """1003 CONTROLLER_REGISTER_BROKER: a replica that has its id announces its address."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    broker_address: str
    invoke_time: Int64 = 0


class RegisterToControllerAnswer(Header, kw_only=True):
    """The last four are present if the set has a live master. The body is the ``SyncStateSet``."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ReplicaInfoHeader(Header, kw_only=True):
    """1004 CONTROLLER_GET_REPLICA_INFO."""

    broker_name: str


class ReplicaInfoAnswer(Header, kw_only=True):
    """Without a master only its epoch is present. The body is the ``SyncStateSet``. The last two are ours: the master
    of that epoch is to give its lease back, so that the other broker can be elected."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    handover_id: Int64 | None = None
    successor_id: Int64 | None = None


class RoleChangeHeader(Header, kw_only=True):
    """1008 NOTIFY_BROKER_ROLE_CHANGED, from the controller to a broker, oneway: the new master. The body is the
    ``SyncStateSet``."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class NextBrokerIdHeader(Header, kw_only=True):
    """1012 CONTROLLER_GET_NEXT_BROKER_ID."""

    cluster_name: str
    broker_name: str


class NextBrokerIdAnswer(Header, kw_only=True):
    """The id is not reserved: it has to be applied for."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class ApplyBrokerIdHeader(Header, kw_only=True):
    """1013 CONTROLLER_APPLY_BROKER_ID. ``register_check_code`` is ``<broker address>;<ms>``: the controller uses it to
    recognise a replica whose answer was lost."""

    cluster_name: str
    broker_name: str
    applied_broker_id: Int64
    register_check_code: str


class BrokerSetAnswer(Header, kw_only=True):
    """Answer of 1013, and of a refused 1003: the broker set of the request."""

    cluster_name: str | None = None
    broker_name: str | None = None


class ControllerMetaAnswer(Header, kw_only=True):
    """Answer of 1005 CONTROLLER_GET_METADATA_INFO. ``peers``: ``id:host:port``, each ended by a semicolon."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str = ""


class ElectMasterHeader(Header, kw_only=True):
    """1002 CONTROLLER_ELECT_MASTER. With ``designate_elect`` only this broker id may be elected. With ``handover_id``,
    which is ours, the master has given its lease back for that handover."""

    cluster_name: str = ""
    broker_name: str
    broker_id: Int64
    designate_elect: bool = False
    invoke_time: Int64 = 0
    handover_id: Int64 | None = None


class ElectMasterAnswer(Header, kw_only=True):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class CleanBrokerDataHeader(Header, kw_only=True):
    """1011 CLEAN_BROKER_DATA. ``broker_controller_ids_to_clean``: ids, separated by semicolons; None for all."""

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 = 0


class MasterFlushOffsetHeader(Header, kw_only=True):
    """908 RESET_MASTER_FLUSH_OFFSET."""

    master_flush_offset: Int64


class HaInfoHeader(Header, kw_only=True):
    """906 EXCHANGE_BROKER_HA_INFO (``ExchangeHAInfoRequestHeader``), and its answer: the master's address, and the one
    to which its slaves connect. A request without ``master_ha_address`` asks for it. ``master_flush_offset`` is a log
    offset.

    Only brokers of ours know the last three: a slave that copies tables names itself, and the stamp of what it has
    copied; the answer, with a newer stamp, comes when there is something to copy. With ``tables_same`` that is only
    progress, as committed offsets."""

    master_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_ha_address: str | None = None
    slave_broker_id: Int64 | None = None
    tables_stamp: Int64 | None = None
    tables_same: bool | None = None


class AddBrokerHeader(Header, kw_only=True):
    """902 ADD_BROKER. ``config_path`` is a path on the container's machine."""

    config_path: str


class RemoveBrokerHeader(Header, kw_only=True):
    """903 REMOVE_BROKER."""

    broker_cluster_name: str
    broker_name: str
    broker_id: Int64
