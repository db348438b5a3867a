"""Lite topics, for tools (``LiteManagerProcessor``, ``LiteConsumerLagCalculator``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.bodies.lite import (
    BrokerLiteInfo,
    LiteClientInfo,
    LiteGroupInfo,
    LiteLag,
    LiteTopicInfo,
    ParentTopicInfo,
)
from rmqproto.bodies.routes import TopicConfig
from rmqproto.bodies.statistics import ConsumeOffset, TopicOffset
from rmqproto.codes import ResponseCode
from rmqproto.headers.lite import LiteClientHeader, LiteDispatchHeader, LiteGroupHeader
from rmqproto.message.light_queues import LIGHT_QUEUE_ID
from rmqproto.names import LIGHT_QUEUE_PREFIX, lite_queue_name
from rmqproto.topic_message_type import MESSAGE_TYPE, TopicMessageType
from rmqserver.broker.consuming.lite.ready import Ready
from rmqserver.broker.consuming.lite.subscriptions import BIND_TOPIC, LiteSubscriptions
from rmqserver.broker.stats import store_time_ms
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqserver.broker.consuming.pop.orders import Orders
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore

EXPIRATION = "lite.topic.expiration"
NAMED_MAX = 10_000
"""Lite topics named in one answer."""


class LiteInfos:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, groups: GroupTable,
        offsets: ConsumerOffsets, subscriptions: LiteSubscriptions, orders: Orders, ready: Ready,
    ):  # fmt: skip
        self._config = config
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._store = store
        self._subscriptions = subscriptions
        self._orders = orders
        self._ready = ready

    def broker(self) -> BrokerLiteInfo:
        lite_topics = [topic for topic in self._topics.all().values() if is_lite(topic)]
        return BrokerLiteInfo(
            cq_table_size=len(self._store.queues.names()),
            current_lmq_num=self._store.queues.light_count,
            event_map_size=len(self._subscriptions.by_client),
            group_meta=self._subscriptions.bound_groups(),
            lite_subscription_count=self._subscriptions.count,
            max_lmq_num=self._config.max_lmq_consume_queue_num,
            offset_table_size=len(self._offsets.committed_table),
            order_info_count=self._orders.count,
            topic_meta={topic.topic_name: expiration_minutes(topic) for topic in lite_topics},
        )

    def parent_topic(self, name: str) -> ParentTopicInfo:
        topic = self._lite_parent(name)
        prefix = lite_queue_name(topic.topic_name, "")
        return ParentTopicInfo(
            groups=self._subscriptions.bound_groups().get(topic.topic_name),
            lite_topic_count=sum(name.startswith(prefix) for name in self._store.queues.names()),
            lmq_num=self._store.queues.light_count,
            topic=topic.topic_name,
            ttl=expiration_minutes(topic),
        )

    def lite_topic(self, parent: str, lite_topic: str) -> LiteTopicInfo:
        self._lite_parent(parent)
        queue = lite_queue_name(parent, lite_topic)
        max_offset = self._store.max_offset(queue, LIGHT_QUEUE_ID)
        last_ms = store_time_ms(self._store, queue, LIGHT_QUEUE_ID, max_offset - 1) if max_offset else 0
        return LiteTopicInfo(
            lite_topic=lite_topic,
            parent_topic=parent,
            sharding_to_broker=True,
            subscriber=self._subscriptions.subscribers(queue),
            topic_offset=TopicOffset(
                last_update_timestamp=last_ms,
                max_offset=max_offset,
                min_offset=self._store.min_offset(queue, LIGHT_QUEUE_ID),
            ),
        )

    def client(self, header: LiteClientHeader) -> LiteClientInfo:
        parent, group, client_id = header.parent_topic or "", header.group or "", header.client_id or ""
        self._lite_parent(parent)
        if self._groups.find(group) is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group [{group}] not exist.")
        if self._subscriptions.attribute(group, BIND_TOPIC) != parent:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"Subscription [{group}]-[{parent}] not match.")
        body = LiteClientInfo(client_id=client_id, group=group, parent_topic=parent)
        found = self._subscriptions.by_client.get(client_id)
        if found is not None:
            body.lite_topic_count = len(found.queues)
            body.lite_topic_set = list(found.queues)[: max(min(header.max_count, NAMED_MAX), 0)]
            body.last_access_time = found.last_access_ms
        return body

    def group(self, header: LiteGroupHeader) -> LiteGroupInfo:
        parent = self._lite_group(header.group)
        body = LiteGroupInfo(group=header.group, parent_topic=parent, lite_topic=header.lite_topic)
        if header.lite_topic:
            self._fill_offsets(body, lite_queue_name(parent, header.lite_topic))
        else:
            lags = self._lags(header.group, parent)
            body.total_lag_count = sum(lag.lag_count for lag in lags)
            lags.sort(key=lambda lag: -lag.lag_count)
            body.lag_count_top_k = lags[: max(min(header.top_k, NAMED_MAX), 0)]
            body.lag_timestamp_top_k = []  # Apache fills it only with liteLagLatencyCollectEnable
        return body

    def _fill_offsets(self, body: LiteGroupInfo, queue: str) -> None:
        max_offset = self._store.max_offset(queue, LIGHT_QUEUE_ID)
        committed = self._offsets.committed(body.group, queue, LIGHT_QUEUE_ID)
        if not max_offset:
            body.total_lag_count = -1
        elif committed is not None and committed >= 0:
            body.total_lag_count = max_offset - committed
            body.earliest_unconsumed_timestamp = store_time_ms(self._store, queue, LIGHT_QUEUE_ID, committed)
            last_ms = store_time_ms(self._store, queue, LIGHT_QUEUE_ID, committed - 1) if committed else 0
            body.lite_topic_offset_wrapper = ConsumeOffset(
                broker_offset=max_offset, consumer_offset=committed, last_timestamp=last_ms
            )

    def _lags(self, group: str, parent: str) -> list[LiteLag]:
        prefix, found = lite_queue_name(parent, ""), []
        for queue in self._offsets.topics_of(group):
            if not queue.startswith(prefix):
                continue
            committed = self._offsets.committed(group, queue, LIGHT_QUEUE_ID) or 0
            lag_count = self._store.max_offset(queue, LIGHT_QUEUE_ID) - committed
            if lag_count > 0:
                first_ms = store_time_ms(self._store, queue, LIGHT_QUEUE_ID, committed)
                name = queue.removeprefix(prefix)
                found.append(LiteLag(earliest_unconsumed_timestamp=first_ms, lag_count=lag_count, lite_topic=name))
        return found

    def dispatch(self, header: LiteDispatchHeader) -> None:
        self._lite_group(header.group)
        for client in self._subscriptions.of_group(header.group):
            if not header.client_id or header.client_id == client.client_id:
                self._ready.offer_all(client)

    def _lite_parent(self, name: str) -> TopicConfig:
        topic = self._topics.get(name) if not name.startswith(LIGHT_QUEUE_PREFIX) else None
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic [{name}] not exist.")
        if not is_lite(topic):
            raise Refused(ResponseCode.INVALID_PARAMETER, f"Topic [{name}] type not match.")
        return topic

    def _lite_group(self, name: str) -> str:
        """The topic to which the group is bound."""
        if self._groups.find(name) is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group [{name}] not exist.")
        parent = self._subscriptions.attribute(name, BIND_TOPIC)
        if not parent:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"Group [{name}] is not a LITE group.")
        return parent


def is_lite(topic: TopicConfig) -> bool:
    return topic.attributes.get(MESSAGE_TYPE) == TopicMessageType.LITE


def expiration_minutes(topic: TopicConfig) -> int:
    """Minutes without a message after which a topic's lite topics expire; -1 for never."""
    text = topic.attributes.get(EXPIRATION, "")
    return int(text) if text.removeprefix("-").isdecimal() else -1
