"""Pops the lite topics that a consumer subscribes to from one broker, one pop after the other."""

from __future__ import annotations

from rmqclient.consuming.popping.lite_topics import LiteTopics
from rmqclient.consuming.popping.queue_popper import POLL_MS, PopRules, QueuePopper
from rmqclient.lite_pop import pop_lite_header, popped_lite_untrusted
from rmqclient.pop import PoppedMessage
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError


class LitePopper(QueuePopper):
    def __init__(self, broker: MessageQueue, subscription: SubscriptionData, shared: PopRules, lite_topics: LiteTopics):
        """``broker`` stands for all queues of the parent topic on one broker."""
        super().__init__(broker, subscription, shared)
        self._lite_topics = lite_topics

    async def _ask(self, max_count: int) -> list[PoppedMessage]:
        shared, broker = self._shared, self.queue
        header = pop_lite_header(
            shared.client.client_id,
            shared.group,
            broker.topic,
            max_count=max_count,
            invisible_ms=shared.held.invisible_ms,
            poll_ms=POLL_MS,
        )
        try:
            await self._lite_topics.be_known(broker.broker_name)
            return popped_lite_untrusted(await self._request(RequestCode.POP_LITE_MESSAGE, header), broker)
        except RocketMQError:
            self._lite_topics.forgotten(broker.broker_name)
            raise
