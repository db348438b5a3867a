"""Headers of requests to controllers, about replicas, and to broker containers."""

from __future__ import annotations

from rmqproto.headers.base import Header
from rmqproto.java_numbers import Int32, Int64


class ControllerMetaAnswer(Header, kw_only=True):
    """Answer of 1005 CONTROLLER_GET_METADATA_INFO. ``peers``: ``id:host:port``, each ended by a semicolon."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str = ""


class ElectMasterHeader(Header, kw_only=True):
    """1002 CONTROLLER_ELECT_MASTER. ``designate_elect``: this broker id and no other."""

    cluster_name: str = ""
    broker_name: str
    broker_id: Int64
    designate_elect: bool = False
    invoke_time: Int64 = 0


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


class AddBrokerHeader(Header, kw_only=True):
    """902 ADD_BROKER. ``config_path`` is a path on the container's machine."""

    config_path: str


class RemoveBrokerHeader(Header, kw_only=True):
    """903 REMOVE_BROKER."""

    broker_cluster_name: str
    broker_name: str
    broker_id: Int64
