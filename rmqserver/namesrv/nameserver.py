"""The requests that a nameserver serves (``DefaultRequestProcessor``, ``ClientRequestProcessor``, 5.5.0), each a few
lines over the tables of ``routes`` and ``kv``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

import trio

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import (
    BrokerData,
    BrokerMemberGroup,
    BrokerMemberGroupAnswer,
    DisplacedBroker,
    KvTable,
    TopicList,
    TopicRoute,
)
from rmqproto.codes import FIRST_STANDARD_JSON_ROUTE_VERSION, PERM_READ_WRITE, PERM_WRITE, RequestCode, ResponseCode
from rmqproto.headers.base import NoFields
from rmqproto.headers.nameserver import (
    AddWritePermAnswer,
    BrokerHeartbeatHeader,
    BrokerIdentityHeader,
    BrokerNameHeader,
    ClusterHeader,
    DataVersionAnswer,
    DeleteTopicHeader,
    KvHeader,
    KvValueAnswer,
    MemberGroupHeader,
    MinBrokerIdHeader,
    NamespaceHeader,
    PutKvHeader,
    RegisterBrokerAnswer,
    RegisterBrokerHeader,
    RouteHeader,
    WipeWritePermAnswer,
)
from rmqproto.headers.tables import TopicHeader
from rmqproto.hosts import join
from rmqproto.message.record import body_crc
from rmqproto.message.sys_flag import UNIT, UNIT_SUBSCRIBED
from rmqproto.names import ORDER_TOPIC_NAMESPACE
from rmqproto.wire import fastjson
from rmqserver.config.keyed_settings import take_settings_untrusted
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.namesrv import register_body
from rmqserver.namesrv.kv import KvConfig
from rmqserver.namesrv.routes import BrokerKey, MinIdChange, RegisteredBroker, RouteTable, within_zone
from rmqserver.operation import SEE_FAQ, UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.notices import Notices
from rmqserver.remoting.service import Handler, Service

log = logging.getLogger(__name__)


class Nameserver(Service):
    """Request handlers over the two tables. ``run`` expires brokers."""

    def __init__(
        self,
        config: NamesrvConfig,
        kv: KvConfig,
        clock_s: Callable[[], float] = time.monotonic,
        notices: Notices | None = None,
    ):
        """``notices`` sends notices to brokers; None: none are sent."""
        self.config = config
        self.kv = kv
        self.routes = RouteTable(config, clock_s)
        self._notices = notices
        if notices is not None:
            self.routes.on_min_id_changed = self._tell_min_id
        self._clock_s = clock_s
        self._started_s = clock_s()
        self._own_ports: dict[str, int] = {}
        """By the address that a broker of this machine registers."""
        super().__init__("namesrv", self._handlers())
        self.idle_max_s = config.server_channel_max_idle_time_s
        self.limits = config

    def connection_closed(self, connection: Connection) -> None:
        self.routes.connection_closed(connection)

    async def run(self) -> None:
        """Forgets brokers that have fallen silent. Never returns."""
        async with trio.open_nursery() as nursery:
            if self._notices is not None:
                nursery.start_soon(self._notices.run)
            while True:
                await trio.sleep(self.config.scan_not_active_broker_interval_ms / 1000)
                self.routes.expire()

    def _handlers(self) -> dict[int, Handler]:
        code = RequestCode
        return {
            code.GET_ROUTEINFO_BY_TOPIC: self.route,
            code.GET_BROKER_CLUSTER_INFO: self.cluster_info,
            code.REGISTER_BROKER: self.register_broker,
            code.UNREGISTER_BROKER: self.unregister_broker,
            code.QUERY_DATA_VERSION: self.query_data_version,
            code.BROKER_HEARTBEAT: self.broker_heartbeat,
            code.GET_BROKER_MEMBER_GROUP: self.member_group,
            code.REGISTER_TOPIC_IN_NAMESRV: self.register_topic,
            code.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            code.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_perm,
            code.ADD_WRITE_PERM_OF_BROKER: self.add_write_perm,
            code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.all_topics,
            code.GET_TOPICS_BY_CLUSTER: self.topics_by_cluster,
            code.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            code.GET_UNIT_TOPIC_LIST: self.unit_topics,
            code.GET_HAS_UNIT_SUB_TOPIC_LIST: self.unit_sub_topics,
            code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self.unit_sub_ununit_topics,
            code.PUT_KV_CONFIG: self.put_kv,
            code.GET_KV_CONFIG: self.get_kv,
            code.DELETE_KV_CONFIG: self.delete_kv,
            code.GET_KVLIST_BY_NAMESPACE: self.kv_list,
            code.UPDATE_NAMESRV_CONFIG: self.update_config,
            code.GET_NAMESRV_CONFIG: self.get_config,
        }

    def _tell_min_id(self, change: MinIdChange) -> None:
        """Notifies brokers of the smallest id. They also ask for it themselves, every second."""
        if self._notices is None or not self.config.notify_min_broker_id_changed:
            return
        header = MinBrokerIdHeader(
            min_broker_id=change.min_id,
            broker_name=change.name,
            min_broker_addr=change.members[change.min_id],
            offline_broker_addr=change.gone_addr,
            ha_broker_addr=change.ha_addr,
        )
        for addr in change.told_addrs:
            self._notices.post(addr, RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header)

    def tell_each_peers_own(self, addr: str, port: int) -> None:
        """Adds a broker of this process or of a child: it registers ``addr``, and listens on every address of the
        machine. Each client that asks for it is told the address on which it has reached the nameserver."""
        self._own_ports[addr] = port

    def _as_reached(self, brokers: Iterable[BrokerData], connection: Connection) -> None:
        """A broker asks for clients of its own, so it is told what is registered."""
        if self._own_ports and not self.routes.is_registrant(connection):
            host = connection.local_addr.rpartition(":")[0]
            for broker in brokers:
                broker.broker_addrs = {
                    broker_id: join(host, self._own_ports[addr]) if addr in self._own_ports else addr
                    for broker_id, addr in broker.broker_addrs.items()
                }

    # --- routes ------------------------------------------------------------------------------------------------------

    def route(self, request: Request[RouteHeader], connection: Connection) -> bytes:
        uptime_s = self._clock_s() - self._started_s
        if self.config.need_wait_for_service and uptime_s < self.config.wait_seconds_for_service:
            raise Refused(ResponseCode.SYSTEM_ERROR, "name server not ready")
        header = request.header
        topic = header.topic
        route = self.routes.route(topic)
        if route is None:
            text = f"No topic route info in name server for the topic: {topic}{SEE_FAQ}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, text)
        self._as_reached(route.broker_datas, connection)
        if self.config.order_message_enable:
            route.order_topic_conf = self.kv.get(ORDER_TOPIC_NAMESPACE, topic)
        zone_name = header.zone_name or ""
        if (header.zone_mode or "").lower() == "true" and zone_name.strip():
            route = within_zone(route, zone_name)
        standard = request.version >= FIRST_STANDARD_JSON_ROUTE_VERSION or header.accept_standard_json_only
        return success(request, body=fastjson.dumps(route, standard=bool(standard)))

    def cluster_info(self, request: Request[NoFields], connection: Connection) -> bytes:
        info = self.routes.cluster_info()
        displaced = self.routes.displaced()
        self._as_reached([*info.broker_addr_table.values(), *displaced], connection)
        info.displaced_brokers = [
            DisplacedBroker(
                broker_addr=addr, broker_id=broker_id, broker_name=one.broker_name, cluster=one.cluster or ""
            )
            for one in displaced
            for broker_id, addr in one.broker_addrs.items()
        ] or None
        return success(request, body=fastjson.dumps(info))

    def member_group(self, request: Request[MemberGroupHeader], connection: Connection) -> bytes:
        cluster, name = request.header.cluster_name, request.header.broker_name
        addrs = self.routes.member_addrs(cluster, name)
        group = BrokerMemberGroup(broker_addrs=addrs, broker_name=name, cluster=cluster)
        body = fastjson.dumps(BrokerMemberGroupAnswer(broker_member_group=group))
        return success(request, body=body, remark=UNSET_REMARK)

    # --- brokers -----------------------------------------------------------------------------------------------------

    def register_broker(self, request: Request[RegisterBrokerHeader], connection: Connection) -> bytes:
        header = request.header
        if header.body_crc32 and header.body_crc32 != body_crc(request.body):
            raise Refused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        body = register_body.decode_untrusted(request.body, header.compressed, request.version)
        registration = RegisteredBroker(
            cluster=header.cluster_name,
            name=header.broker_name,
            addr=header.broker_addr,
            broker_id=header.broker_id,
            ha_addr=header.ha_server_addr,
            topics=body.topic_config_serialize_wrapper,
            filter_servers=body.filter_server_list,
            timeout_ms=header.heartbeat_timeout_millis,
            enable_acting_master=header.enable_acting_master,
            zone_name=header.zone_name,
        )
        master = self.routes.register(registration, connection)
        if master is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "register broker failed")
        answer = RegisterBrokerAnswer(ha_server_addr=master.ha_addr, master_addr=master.addr)
        order_topics = self.kv.all(ORDER_TOPIC_NAMESPACE) if self.config.return_order_topic_config_to_broker else None
        return success(request, answer, b"" if order_topics is None else fastjson.dumps(KvTable(table=order_topics)))

    def unregister_broker(self, request: Request[BrokerIdentityHeader], connection: Connection) -> bytes:
        header = request.header
        self.routes.unregister(_broker_key(header), header.broker_id)
        return success(request)

    def query_data_version(self, request: Request[BrokerIdentityHeader], connection: Connection) -> bytes:
        key = _broker_key(request.header)
        theirs = fastjson.loads_untrusted(request.body, DataVersion)
        self.routes.touch(key)
        ours = self.routes.data_version(key)
        answer = DataVersionAnswer(changed=self.routes.is_changed(key, theirs))
        return success(request, answer, b"" if ours is None else fastjson.dumps(ours))

    def broker_heartbeat(self, request: Request[BrokerHeartbeatHeader], connection: Connection) -> bytes:
        self.routes.touch(_broker_key(request.header))
        return success(request)

    def wipe_write_perm(self, request: Request[BrokerNameHeader], connection: Connection) -> bytes:
        count = self.routes.change_perm(request.header.broker_name, lambda perm: perm & ~PERM_WRITE)
        log.info("event=write-perm-wiped broker=%s topics=%d", request.header.broker_name, count)
        return success(request, WipeWritePermAnswer(wipe_topic_count=count))

    def add_write_perm(self, request: Request[BrokerNameHeader], connection: Connection) -> bytes:
        count = self.routes.change_perm(request.header.broker_name, lambda perm: PERM_READ_WRITE)
        log.info("event=write-perm-added broker=%s topics=%d", request.header.broker_name, count)
        return success(request, AddWritePermAnswer(add_topic_count=count))

    # --- topics ------------------------------------------------------------------------------------------------------

    def register_topic(self, request: Request[TopicHeader], connection: Connection) -> bytes:
        route = fastjson.loads_untrusted(request.body, TopicRoute)
        self.routes.add_topic(request.header.topic, route.queue_datas)
        return success(request)

    def delete_topic(self, request: Request[DeleteTopicHeader], connection: Connection) -> bytes:
        cluster = request.header.cluster_name or None
        self.routes.delete_topic(request.header.topic, cluster)
        log.info("event=topic-deleted topic=%s cluster=%s", request.header.topic, cluster or "*")
        return success(request)

    def all_topics(self, request: Request[NoFields], connection: Connection) -> bytes:
        if not self.config.enable_all_topic_list:
            raise Refused(ResponseCode.SYSTEM_ERROR, "disable")
        return _topic_list(request, self.routes.topics())

    def topics_by_cluster(self, request: Request[ClusterHeader], connection: Connection) -> bytes:
        self._check_lists_enabled()
        return _topic_list(request, self.routes.topics_of_cluster(request.header.cluster))

    def system_topics(self, request: Request[NoFields], connection: Connection) -> bytes:
        topics, broker_addr = self.routes.system_topics()
        return _topic_list(request, topics, broker_addr)

    def unit_topics(self, request: Request[NoFields], connection: Connection) -> bytes:
        return self._unit_list(request, lambda flag: bool(flag & UNIT))

    def unit_sub_topics(self, request: Request[NoFields], connection: Connection) -> bytes:
        return self._unit_list(request, lambda flag: bool(flag & UNIT_SUBSCRIBED))

    def unit_sub_ununit_topics(self, request: Request[NoFields], connection: Connection) -> bytes:
        return self._unit_list(request, lambda flag: flag & (UNIT | UNIT_SUBSCRIBED) == UNIT_SUBSCRIBED)

    def _unit_list(self, request: Request[NoFields], accepts: Callable[[int], bool]) -> bytes:
        self._check_lists_enabled()
        return _topic_list(request, self.routes.topics_by_sys_flag(accepts))

    def _check_lists_enabled(self) -> None:
        if not self.config.enable_topic_list:
            raise Refused(ResponseCode.SYSTEM_ERROR, "disable")

    # --- key-value table and settings --------------------------------------------------------------------------------

    def put_kv(self, request: Request[PutKvHeader], connection: Connection) -> bytes:
        header = request.header
        if header.namespace is None or header.key is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
        self.kv.put(header.namespace, header.key, header.value or "")
        return success(request)

    def get_kv(self, request: Request[KvHeader], connection: Connection) -> bytes:
        namespace, key = request.header.namespace, request.header.key
        value = self.kv.get(namespace, key)
        if value is None:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
        return success(request, KvValueAnswer(value=value))

    def delete_kv(self, request: Request[KvHeader], connection: Connection) -> bytes:
        self.kv.delete(request.header.namespace, request.header.key)
        return success(request)

    def kv_list(self, request: Request[NamespaceHeader], connection: Connection) -> bytes:
        table = self.kv.all(request.header.namespace)
        if table is None:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {request.header.namespace}")
        return success(request, body=fastjson.dumps(KvTable(table=table)))

    def update_config(self, request: Request[NoFields], connection: Connection) -> bytes:
        changed = take_settings_untrusted(self.config, request.body)
        if changed:
            log.info("event=settings-changed service=namesrv keys=%s", ",".join(sorted(changed)))
        return success(request)

    def get_config(self, request: Request[NoFields], connection: Connection) -> bytes:
        return success(request, body=self.config.render().encode())


def _broker_key(header: BrokerIdentityHeader | BrokerHeartbeatHeader) -> BrokerKey:
    return BrokerKey(header.cluster_name, header.broker_name, header.broker_addr)


def _topic_list(request: Request[Any], topics: list[str], broker_addr: str | None = None) -> bytes:
    return success(request, body=fastjson.dumps(TopicList(broker_addr=broker_addr, topic_list=topics)))
