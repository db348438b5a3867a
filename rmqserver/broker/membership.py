"""HEART_BEAT (34), UNREGISTER_CLIENT (35), GET_CONSUMER_LIST_BY_GROUP (38), CHECK_CLIENT_CONFIG (46): who takes part;
and NOTIFY_CONSUMER_IDS_CHANGED (40) to those who must share the queues anew (``ClientManageProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqproto import fastjson
from rmqproto.bodies import CheckClientRequest, ConsumerData, ConsumerIds, Heartbeat
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers import ConsumerGroupHeader, HeartbeatAnswer, UnregisterClientHeader
from rmqproto.names import retry_topic
from rmqproto.subscription import TAG
from rmqserver.answer import DEFERRED, Deferred, Refused, Request, send_answer, success
from rmqserver.broker.topics import UNIT_SUBSCRIBED_FLAG

if TYPE_CHECKING:
    from rmqserver.broker.clients import Clients, ConsumerGroup
    from rmqserver.broker.groups import GroupTable
    from rmqserver.broker.topics import TopicTable
    from rmqserver.config import BrokerConfig
    from rmqserver.connection import Connection
    from rmqserver.dispatch import Handler


class Membership:
    def __init__(self, config: BrokerConfig, topics: TopicTable, groups: GroupTable, clients: Clients):
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._fingerprints: dict[str, int] = {}
        """The newest heartbeat's fingerprint by group, for clients that leave out what has not changed."""
        clients.on_members_changed = self._tell_members

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._list_members,
            RequestCode.CHECK_CLIENT_CONFIG: self._check_client,
        }

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def _heartbeat(self, request: Request[Any], connection: Connection) -> Deferred:
        heartbeat = fastjson.loads_untrusted(request.body, Heartbeat)
        client_id, language, version = heartbeat.client_id, request.language, request.version
        wants_subscriptions = not heartbeat.heartbeat_fingerprint  # who has none always sends everything
        changed = []
        for data in heartbeat.consumer_data_set:
            if not self._prepare_group(data):
                continue
            if heartbeat.heartbeat_fingerprint:
                wants_subscriptions |= self._is_news(data.group_name, heartbeat)
            if self._clients.register_consumer(
                data, client_id, connection, language, version,
                with_subscriptions=not heartbeat.without_sub, size_bytes=len(request.body),
            ):  # fmt: skip
                changed.append(self._clients.consumers[data.group_name])
        for producer in heartbeat.producer_data_set:
            self._clients.register_producer(producer.group_name, client_id, connection, language, version)
        # The answer goes first: a client that hears of its own coming before it takes it for another's.
        send_answer(request, connection, success(request, HeartbeatAnswer(is_sub_change=wants_subscriptions)))
        for group in changed:
            self._clients.tell_members(group)
        return DEFERRED

    def _prepare_group(self, data: ConsumerData) -> bool:
        """The group and its retry topic, made where they are missing. False where the group may not be."""
        group = self._groups.find(data.group_name)
        if group is None:
            return False
        flag = UNIT_SUBSCRIBED_FLAG if data.unit_mode else 0
        self._topics.create_system(retry_topic(data.group_name), group.retry_queue_nums, topic_sys_flag=flag)
        return True

    def _is_news(self, group: str, heartbeat: Heartbeat) -> bool:
        """Whether the client must send its subscriptions: the group is not known to have these."""
        known = self._fingerprints.get(group)
        if heartbeat.without_sub:
            return known != heartbeat.heartbeat_fingerprint or group not in self._clients.consumers
        self._fingerprints[group] = heartbeat.heartbeat_fingerprint
        return known is not None and known != heartbeat.heartbeat_fingerprint

    def _tell_members(self, group: ConsumerGroup) -> None:
        if not group.members:
            self._fingerprints.pop(group.group, None)
            return
        config = self._groups.get(group.group)
        is_wanted = config is None or config.notify_consumer_ids_changed_enable
        if not is_wanted or group.is_broadcasting or not self._config.notify_consumer_ids_changed_enable:
            return
        header = ConsumerGroupHeader(consumer_group=group.group)
        for client in group.members.values():
            client.connection.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _unregister(self, request: Request[UnregisterClientHeader], connection: Connection) -> bytes:
        """Whoever is behind this connection, as there; the client id is asked for, and not looked at."""
        header = request.header
        if header.producer_group:
            self._clients.unregister_producer(header.producer_group, connection)
        if header.consumer_group:
            self._clients.unregister_consumer(header.consumer_group, connection)
        return success(request)

    def _list_members(self, request: Request[ConsumerGroupHeader], connection: Connection) -> bytes:
        group = self._clients.consumers.get(request.header.consumer_group)
        if group is None or not group.members:
            text = f"no consumer for this group, {request.header.consumer_group}"
            raise Refused(ResponseCode.SYSTEM_ERROR, text)
        ids = [client.client_id for client in group.members.values()]
        return success(request, body=fastjson.dumps(ConsumerIds(consumer_id_list=ids)))

    def _check_client(self, request: Request[Any], connection: Connection) -> bytes:
        if request.body:
            check = fastjson.loads_untrusted(request.body, CheckClientRequest)
            kind = check.subscription_data.expression_type
            if kind not in (None, "", TAG):
                text = f"The broker does not support consumer to filter message by {kind}"
                raise Refused(ResponseCode.SYSTEM_ERROR, text)
        return success(request)
