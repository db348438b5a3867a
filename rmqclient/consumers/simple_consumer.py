"""A consumer that pops on request: messages are held for a time, and acknowledged one by one or together
(``SimpleConsumer`` of RocketMQ 5's clients)."""

from __future__ import annotations

import ssl
from collections import defaultdict
from collections.abc import Callable, Iterable

from rmqclient.consuming.member import BlockingNonMember, NonMember
from rmqclient.consuming.popping.pop import (
    POP_BATCH_COUNT,
    PoppedMessage,
    PopTerms,
    acknowledge,
    change_invisible_time,
    init_mode,
    invisible_ms,
    pop,
)
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.consuming.subscribing import subscription_of, tag_filter
from rmqclient.lifetime import P
from rmqclient.threads import called
from rmqproto.allocate import POP_ALL_QUEUES
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError
from rmqproto.filters.subscription import ALL, Sql92
from rmqproto.message.special_messages import is_light_queue
from rmqproto.wire.credentials import Credentials

ANSWER_TIMEOUT_S = 10.0
"""Time for a broker's answer beyond the time that it may hold a pop."""


class SimpleConsumer(NonMember):
    """``async with SimpleConsumer("127.0.0.1:9876", "group") as consumer: messages = await consumer.pop("Topic")``

    The consumer is not a member of the group, and members do not see it. Each message still goes to only one of all of
    them. Every method may raise ConnectError, RequestTimeoutError and RefusedError.
    """

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        consume_from: ConsumeFrom | str = ConsumeFrom.LAST_OFFSET,
    ):
        """``consume_from``: where the group begins in a queue in which it has no offset; TIMESTAMP is not supported.
        UsageError for invalid arguments."""
        super().__init__(namesrv_addrs, group, credentials, tls)
        self._init_mode = init_mode(ConsumeFrom.of(consume_from))
        self._turn = 0

    @classmethod
    def blocking(cls: Callable[P, SimpleConsumer], *args: P.args, **kwargs: P.kwargs) -> BlockingSimpleConsumer:
        """The same for plain threads: ``with SimpleConsumer.blocking(...) as consumer:``."""
        return BlockingSimpleConsumer(cls(*args, **kwargs))

    async def pop(
        self,
        source: str | MessageQueue,
        *,
        max_count: int = POP_BATCH_COUNT,
        invisible_s: float = 60.0,
        wait_s: float = 0.0,
        expression: str | Sql92 = ALL,
    ) -> list[PoppedMessage]:
        """Messages of a topic, or of one of its queues, hidden from the rest of the group for ``invisible_s``. Messages
        that are not acknowledged by then come again, with ``reconsume_times`` one higher. If there are none, the broker
        waits up to ``wait_s`` for some. Each call asks one broker of the topic, in turn. ``max_count``: 32 at most."""
        with self._client.routes.looking_for_master():
            return await self._pop(source, max_count, invisible_ms(invisible_s), wait_s, expression)

    async def _pop(
        self, source: str | MessageQueue, max_count: int, hidden_ms: int, wait_s: float, expression: str | Sql92
    ) -> list[PoppedMessage]:
        queue = source if isinstance(source, MessageQueue) else await self._next_broker(source)
        subscription = subscription_of(queue.topic, expression)
        if not is_light_queue(queue):  # a light queue has no route of its own
            await self._client.routes.queues(queue.topic)  # a queue made by hand may have an unknown broker
        terms = PopTerms(
            max_count=min(max_count, POP_BATCH_COUNT),
            invisible_ms=hidden_ms,
            poll_ms=int(wait_s * 1000),
            answer_timeout_s=ANSWER_TIMEOUT_S,
        )
        messages = await pop(self._client, self.group, queue, subscription, terms, self._init_mode)
        wanted = tag_filter(subscription)
        unwanted = [message for message in messages if wanted.tags is not None and not wanted.matches(message.tags)]
        await self.ack(unwanted)  # their tags only have the same hashes as wanted ones
        return [message for message in messages if message not in unwanted] if unwanted else messages

    async def ack(self, messages: PoppedMessage | Iterable[PoppedMessage]) -> None:
        """Acknowledges consumed messages, so that they do not come again unless this is too late. One request per
        broker."""
        by_broker: defaultdict[str, list[PoppedMessage]] = defaultdict(list)
        for message in [messages] if isinstance(messages, PoppedMessage) else messages:
            by_broker[message.broker_name].append(message)
        for of_broker in by_broker.values():
            with self._client.routes.looking_for_master():
                await acknowledge(self._client, self.group, of_broker)

    async def change_invisible_time(
        self, message: PoppedMessage, invisible_s: float, *, suspend: bool = False
    ) -> PoppedMessage:
        """Makes the message invisible for ``invisible_s`` from now on: longer if there is more to do, shorter to give
        it up. Acknowledge the returned message in its place. With ``suspend`` the redelivery is not counted (by brokers
        from 5.5 on)."""
        with self._client.routes.looking_for_master():
            return await change_invisible_time(
                self._client, self.group, message, max(int(invisible_s * 1000), 1), suspend=suspend
            )

    async def _next_broker(self, topic: str) -> MessageQueue:
        """All queues of the next broker in turn that has the topic."""
        names = sorted({queue.broker_name for queue in await self.queues(topic)})
        if not names:
            raise NotFoundError(f"topic {topic} has no queue that can be read")
        self._turn += 1
        return MessageQueue(topic, names[self._turn % len(names)], POP_ALL_QUEUES)


class BlockingSimpleConsumer(BlockingNonMember[SimpleConsumer]):
    pop = called(SimpleConsumer.pop)
    ack = called(SimpleConsumer.ack)
    change_invisible_time = called(SimpleConsumer.change_invisible_time)
