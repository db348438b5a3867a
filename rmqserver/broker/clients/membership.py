"""HEART_BEAT (34), UNREGISTER_CLIENT (35), GET_CONSUMER_LIST_BY_GROUP (38), CHECK_CLIENT_CONFIG (46): which clients
take part (``ClientManageProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqproto.bodies.groups import CONSUME_ACTIVELY, CheckClientRequest, ConsumerData, ConsumerIds, Heartbeat
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.consuming import ConsumerGroupHeader, HeartbeatAnswer, UnregisterClientHeader
from rmqproto.message.sys_flag import UNIT_SUBSCRIBED
from rmqproto.names import retry_topic
from rmqproto.wire import fastjson
from rmqserver.broker.clients.clients import CONSUME_TYPES, enum_name
from rmqserver.broker.consuming.kinds import is_tags
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, send_answer, success

if TYPE_CHECKING:
    from rmqserver.broker.clients.clients import ConsumerGroup
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.operation import Peer
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


class Membership:
    def __init__(self, parts: BrokerParts):
        self._config = parts.config
        self._topics = parts.topics
        self._groups = parts.groups
        self._clients = parts.clients
        self._consumer_filters = parts.consumer_filters
        self._filters = parts.filters

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.HEART_BEAT: self._handle_heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._list_members,
            RequestCode.CHECK_CLIENT_CONFIG: self._check_client,
        }

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def _handle_heartbeat(self, request: Request[Any], connection: Connection) -> None:
        heartbeat = fastjson.loads_untrusted(request.body, Heartbeat)
        wants_subscriptions, changed = self.heartbeat(
            heartbeat, connection, request.language, request.version, len(request.body)
        )
        # The answer goes first: a client that heard of its own arrival earlier would take it for another client's.
        send_answer(request, connection, success(request, HeartbeatAnswer(is_sub_change=wants_subscriptions)))
        for group in changed:
            self._clients.tell_members(group)

    def heartbeat(
        self, heartbeat: Heartbeat, peer: Peer, language: str | int | None, version: int, size_bytes: int
    ) -> tuple[bool, list[ConsumerGroup]]:
        """Takes a heartbeat of that size. Returns whether the client must send its subscriptions next time, and the
        groups whose members must be told once the client has its answer. Raises TooManyClients or NameTooLong."""
        wants_subscriptions = not heartbeat.heartbeat_fingerprint  # a client without one always sends everything
        changed = []
        for data in heartbeat.consumer_data_set:
            consume_type = enum_name(data.consume_type, CONSUME_TYPES)
            if consume_type == CONSUME_ACTIVELY and self._config.reject_pull_consumer_enable:
                continue
            if not self._prepare_group(data):
                continue
            if heartbeat.heartbeat_fingerprint:
                wants_subscriptions |= self._is_news(data.group_name, heartbeat)
            is_changed = self._clients.register_consumer(
                data, heartbeat.client_id, peer, language, version,
                with_subscriptions=not heartbeat.without_sub, size_bytes=size_bytes,
            )  # fmt: skip
            group = self._clients.consumers[data.group_name]
            if heartbeat.heartbeat_fingerprint and not heartbeat.without_sub:
                group.fingerprint = heartbeat.heartbeat_fingerprint
            if not heartbeat.without_sub:
                self._consumer_filters.register(data.group_name, data.subscription_data_set)
            if is_changed:
                changed.append(group)
        for producer in heartbeat.producer_data_set:
            self._clients.register_producer(producer.group_name, heartbeat.client_id, peer, language, version)
        return wants_subscriptions, changed

    def _prepare_group(self, data: ConsumerData) -> bool:
        """Creates the group and its retry topic if they are missing. Returns False if the group is not allowed."""
        group = self._groups.find(data.group_name)
        if group is None:
            return False
        flag = UNIT_SUBSCRIBED if data.unit_mode else 0
        self._topics.create_system(retry_topic(data.group_name), group.retry_queue_nums, topic_sys_flag=flag)
        return True

    def _is_news(self, group: str, heartbeat: Heartbeat) -> bool:
        """Whether the client must send its subscriptions, because the group is not known to have these."""
        online = self._clients.consumers.get(group)
        known = online.fingerprint if online is not None else None
        if heartbeat.without_sub:
            return known != heartbeat.heartbeat_fingerprint
        return known is not None and known != heartbeat.heartbeat_fingerprint

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _unregister(self, request: Request[UnregisterClientHeader], connection: Connection) -> bytes:
        """Removes the client of this connection. The request's client id is ignored, as in Apache's broker."""
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
            subscription = check.subscription_data
            if not is_tags(subscription.expression_type):
                self._filters.check_expression(subscription.expression_type, subscription.sub_string)
        return success(request)
