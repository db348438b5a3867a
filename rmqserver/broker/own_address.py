"""The broker's own address, in records, in answers and in remarks, and what the broker tells its nameservers of
itself and its topics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import QueueData, RegisterBrokerBody, TopicConfig, TopicConfigs, TopicRoute
from rmqproto.codes import PERM_READ_WRITE
from rmqproto.headers.nameserver import BrokerIdentityHeader, RegisterBrokerHeader
from rmqproto.headers.tables import TopicHeader
from rmqproto.message.record import body_crc, host_text
from rmqproto.wire import fastjson
from rmqserver.config.broker_config import BrokerConfig

if TYPE_CHECKING:
    from rmqserver.operation import Peer


class OwnAddress:
    """``advertised_host`` is the record host field that every peer is told; None: the address on which each peer
    reached us. It becomes known when the listeners are there, just before the store is opened."""

    __slots__ = ("_config", "advertised_host")

    def __init__(self, config: BrokerConfig):
        self._config = config
        self.advertised_host: bytes | None = None

    def record_host(self, peer: Peer) -> bytes:
        """The store host of a message that came from this peer."""
        return self.advertised_host or peer.local_host

    def address(self, peer: Peer) -> str:
        """``host:port``, for answers."""
        return peer.local_addr if self.advertised_host is None else host_text(self.advertised_host)

    def ip(self, local_addr: str) -> str:
        """For remarks to a client that reached us at that ``host:port``."""
        return self._config.broker_ip1 or local_addr.rpartition(":")[0]

    def ip_in(self, store_host: bytes) -> str:
        """For remarks on a message that came without a connection, or whose connection is no longer known."""
        return self._config.broker_ip1 or host_text(store_host).rpartition(":")[0]


ZONE_VARIABLE = "ROCKETMQ_ZONE"
"""The environment's name for the zone of this machine. Apache's brokers and clients read it, too."""


class Announcement:
    """What the broker says of itself, by its configuration as it is at each call. ``addr`` is its own address, as the
    nameserver that is told reaches it."""

    def __init__(self, config: BrokerConfig):
        self._config = config

    def identity(self, addr: str) -> BrokerIdentityHeader:
        config = self._config
        return BrokerIdentityHeader(
            broker_name=config.broker_name,
            broker_addr=addr,
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
        )

    def all_topics(
        self, addr: str, version: DataVersion, topics: Mapping[str, TopicConfig]
    ) -> tuple[RegisterBrokerHeader, bytes]:
        """Header and body of 103, with all topics."""
        config = self._config
        host = addr.rpartition(":")[0]
        wrapper = TopicConfigs(
            data_version=version,
            mapping_data_version=DataVersion(),
            topic_config_table={name: self._permitted(topic) for name, topic in topics.items()},
            topic_queue_mapping_detail_map={},
            topic_queue_mapping_info_map={},
        )
        body = fastjson.dumps(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
        header = RegisterBrokerHeader(
            broker_name=config.broker_name,
            broker_addr=addr,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=config.ha_addr(host),
            broker_id=config.broker_id,
            enable_acting_master=False,
            zone_name=os.environ.get(ZONE_VARIABLE, "").strip() or None,
            body_crc32=body_crc(body),
        )
        return header, body

    def one_topic(self, topic: TopicConfig) -> tuple[TopicHeader, bytes]:
        """Header and body of 217, with one topic."""
        permitted = self._permitted(topic)
        queue_data = QueueData(
            broker_name=self._config.broker_name,
            perm=permitted.perm,
            read_queue_nums=topic.read_queue_nums,
            topic_sys_flag=topic.topic_sys_flag,
            write_queue_nums=topic.write_queue_nums,
        )
        return TopicHeader(topic=topic.topic_name), fastjson.dumps(TopicRoute(queue_datas=[queue_data]))

    def _permitted(self, topic: TopicConfig) -> TopicConfig:
        """The topic with its permission bounded by the broker's own."""
        perm = self._config.broker_permission
        if perm & PERM_READ_WRITE == PERM_READ_WRITE:
            return topic
        permitted: TopicConfig = msgspec.structs.replace(topic, perm=topic.perm & perm)
        return permitted
