"""A consumer that reads queues on request: the caller keeps the offsets, and queues are not allocated among members
(``DefaultMQPullConsumer``, 5.5.0)."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rmqclient.consuming import start
from rmqclient.consuming.member import BlockingNonMember, NonMember
from rmqclient.consuming.offset_store import BrokerOffsetStore
from rmqclient.lifetime import P
from rmqclient.message import ReceivedMessage
from rmqclient.pull import PULL_ANSWER_CODES, PullStatus, pull_header, pull_result_untrusted
from rmqclient.sending import lite_topic_queue
from rmqclient.threads import called
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.filters.subscription import ALL, SQL92, TAG, Sql92, parse_tags
from rmqproto.ha import MASTER_ID
from rmqproto.headers.consuming import PULL_BATCH_COUNT
from rmqproto.message.special_messages import LIGHT_QUEUE_ID, is_light_queue
from rmqproto.names import lite_queue_name
from rmqproto.wire.credentials import Credentials

ANSWER_TIMEOUT_S = 10.0
"""Time for a broker's answer beyond the time that it may hold a pull. It checks held pulls every 5 s."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """The result of one pull. Continue at ``next_begin_offset``; ``min_offset`` and ``max_offset`` are the queue's
    ends."""

    status: PullStatus
    messages: list[ReceivedMessage]
    next_begin_offset: int
    min_offset: int
    max_offset: int


class PullConsumer(NonMember):
    """``async with PullConsumer("127.0.0.1:9876", "group") as consumer: await consumer.pull(queue, 0)``

    The consumer is not a member of the group: it takes no queues from members, and they do not see it. All offsets are
    queue offsets. Every method may raise ConnectError, RequestTimeoutError and RefusedError.
    """

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ):
        """UsageError for invalid addresses or an invalid group."""
        super().__init__(namesrv_addrs, group, credentials, tls)
        self._offsets = BrokerOffsetStore(self._client, group, set_zero_if_not_found=False)

    @classmethod
    def blocking(cls: Callable[P, PullConsumer], *args: P.args, **kwargs: P.kwargs) -> BlockingPullConsumer:
        """The same for plain threads: ``with PullConsumer.blocking(...) as consumer:``."""
        return BlockingPullConsumer(cls(*args, **kwargs))

    async def lite_topic_queue(self, topic: str, lite_topic: str) -> MessageQueue:
        """The light queue of a lite topic below ``topic``: the one to which RocketMQ 5's producers and ours send."""
        writable = (await self._client.routes.queues(topic)).writable
        broker_name = lite_topic_queue(lite_topic, writable).broker_name
        return MessageQueue(lite_queue_name(topic, lite_topic), broker_name, LIGHT_QUEUE_ID)

    async def pull(
        self,
        queue: MessageQueue,
        queue_offset: int,
        *,
        max_count: int = PULL_BATCH_COUNT,
        expression: str | Sql92 = ALL,
        wait_s: float = 0.0,
    ) -> Pulled:
        """The matching messages from ``queue_offset`` on. If there are none the broker waits up to ``wait_s`` for some.
        A broker may return fewer than ``max_count``: an empty answer with NO_MATCHED is not the end of the queue."""
        is_sql = isinstance(expression, Sql92)
        header = pull_header(
            self.group,
            queue,
            queue_offset,
            max_count=max_count,
            expression=expression.text if isinstance(expression, Sql92) else expression,
            expression_type=SQL92 if is_sql else TAG,
            suspend_ms=int(wait_s * 1000),
        )
        async with self._asking(queue):
            answer = await self._client.channels.request(
                self._client.routes.replica_of(queue, MASTER_ID), RequestCode.PULL_MESSAGE, header,
                timeout_s=wait_s + ANSWER_TIMEOUT_S, accept=PULL_ANSWER_CODES,
            )  # fmt: skip
        result = pull_result_untrusted(answer, queue)
        light = queue if is_light_queue(queue) else None
        messages = [ReceivedMessage(message, queue.broker_name, light_queue=light) for message in result.messages]
        wanted = None if isinstance(expression, Sql92) else parse_tags(expression)
        if wanted is not None and wanted.tags is not None:
            messages = [message for message in messages if wanted.matches(message.tags)]
        return Pulled(result.status, messages, result.next_begin_offset, result.min_offset, result.max_offset)

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """The group's offset; None if it has none."""
        async with self._asking(queue):
            return await self._offsets.read(queue)

    async def commit(self, queue: MessageQueue, queue_offset: int) -> None:
        """Stores ``queue_offset`` as the next one that the group needs. RefusedError with code 26 for a group that does
        not exist. The first pull creates it if the broker creates groups automatically."""
        async with self._asking(queue):
            await self._offsets.write(queue, queue_offset)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message; 0 if there is none."""
        async with self._asking(queue):
            return await start.min_offset(self._client, queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        async with self._asking(queue):
            return await start.max_offset(self._client, queue)

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time, in ms since the epoch; the end if all are
        older."""
        async with self._asking(queue):
            return await start.offset_at(self._client, queue, timestamp_ms)

    @asynccontextmanager
    async def _asking(self, queue: MessageQueue) -> AsyncIterator[None]:
        """Around a question to the queue's broker."""
        if not is_light_queue(queue):  # a light queue has no route of its own
            await self._client.routes.queues(queue.topic)  # a queue made by hand may have an unknown broker
        with self._client.routes.looking_for_master():
            yield


class BlockingPullConsumer(BlockingNonMember[PullConsumer]):
    lite_topic_queue = called(PullConsumer.lite_topic_queue)
    pull = called(PullConsumer.pull)
    committed_offset = called(PullConsumer.committed_offset)
    commit = called(PullConsumer.commit)
    min_offset = called(PullConsumer.min_offset)
    max_offset = called(PullConsumer.max_offset)
    search_offset = called(PullConsumer.search_offset)
