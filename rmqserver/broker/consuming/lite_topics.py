"""Lite topics: what tools ask (``LiteManagerProcessor``, ``LiteConsumerLagCalculator``), the task that removes idle
ones (``LiteLifecycleManager``, 5.5.0), and the task that looks for messages for wildcard groups."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from rmqproto.bodies.lite import BrokerLiteInfo, LiteClientInfo, LiteGroupInfo, LiteLag, LiteTopicInfo, ParentTopicInfo
from rmqproto.bodies.routes import TopicConfig
from rmqproto.bodies.statistics import ConsumeOffset, TopicOffset
from rmqproto.codes import MESSAGE_TYPE, ResponseCode, TopicMessageType
from rmqproto.headers.popping import LiteClientHeader, LiteDispatchHeader, LiteGroupHeader
from rmqproto.message.special_messages import LIGHT_QUEUE_ID
from rmqproto.names import LIGHT_QUEUE_PREFIX, lite_queue_name
from rmqserver.broker.consuming.lite_subscriptions import BIND_TOPIC, LiteSubscriptions, Ready
from rmqserver.broker.reads import read_in_task
from rmqserver.broker.relays.relay import STOPS
from rmqserver.broker.stats import store_time_ms
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqserver.broker.consuming.pop.orders import Orders
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.queues.round import Arrival

log = logging.getLogger(__name__)


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


_MS_PER_MINUTE = 60_000


class Lite:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, offsets: ConsumerOffsets, ready: Ready,
        subscriptions: LiteSubscriptions,
    ):  # fmt: skip
        self.subscriptions = subscriptions
        self._config = config
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._ready = ready
        self._search_wanted = trio.Event()
        ready.on_unsearched = lambda: self._search_wanted.set()

    def peer_gone(self, peer: Peer) -> None:
        if self.subscriptions.by_client:
            self.subscriptions.peer_gone(peer)

    def arrived(self, arrivals: list[Arrival]) -> None:
        """Called when messages have become visible. Not needed while no client subscribes."""
        self._ready.arrived(arrivals)

    async def run(self) -> None:
        """Runs the tasks until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._remove_forever)
            nursery.start_soon(self._search_forever)

    async def _search_forever(self) -> None:
        while True:
            await self._search_wanted.wait()
            self._search_wanted = trio.Event()
            while self._ready.unsearched:
                (topic, group), _ = self._ready.unsearched.popitem()
                await self.search(topic, group)

    async def search(self, topic: str, group: str) -> None:
        """Offers the group all lite topics of the parent in which it is behind."""
        is_behind = partial(self._ready.is_behind, group)
        await self._for_each_that(is_behind, topic, lambda queue: self._ready.offer(queue, group))

    async def _remove_forever(self) -> None:
        while True:
            await trio.sleep(self._config.lite_ttl_check_interval_ms / 1000)
            await self.remove_expired()

    async def remove_expired(self) -> None:
        """Removes lite topics whose last message is older than their parent allows, and in which no group is behind."""
        now_ms = self._store.clock_ms()
        for topic in list(self._topics.all().values()):
            minutes = expiration_minutes(topic)
            if is_lite(topic) and minutes > 0:
                oldest_ms = now_ms - max(minutes * _MS_PER_MINUTE, self._config.min_lite_ttl_ms)
                await self._for_each_that(partial(self._is_idle, oldest_ms), topic.topic_name, self._remove)

    async def _for_each_that(self, is_so: Callable[[str], bool], topic: str, act: Callable[[str], None]) -> None:
        """Acts on those lite topics of the parent, by their light queues, of which ``is_so`` reads that they are so.
        Others have their turn after each, and no read of the device holds them up. One that cannot be read is passed
        over."""
        prefix = lite_queue_name(topic, "")
        for queue in self._store.queues.names():
            if queue.startswith(prefix):
                await trio.lowlevel.checkpoint()
                try:
                    if await read_in_task(partial(is_so, queue)):
                        act(queue)
                except STOPS as error:
                    log.warning("event=lite-topic-passed-over queue=%s reason=%r", queue, str(error))

    def _remove(self, queue: str) -> None:
        self.subscriptions.forget_queue(queue)
        self._store.delete_topic(queue)
        self._offsets.remove_topic(queue)

    def _is_idle(self, oldest_ms: int, queue: str) -> bool:
        store, offsets = self._store, self._offsets
        max_offset = store.max_offset(queue, LIGHT_QUEUE_ID)
        if max_offset and store_time_ms(store, queue, LIGHT_QUEUE_ID, max_offset - 1) >= oldest_ms:
            return False
        return all(
            (offsets.committed(group, queue, LIGHT_QUEUE_ID) or 0) >= max_offset for group in offsets.groups_of(queue)
        )
