"""Pulls from one queue for a caller that keeps the messages: it chooses the replica and the pause after a failure
(``PullAPIWrapper`` and ``DefaultMQPushConsumerImpl.pullMessage``, 5.5.0)."""

from __future__ import annotations

import logging

import anyio

from rmqclient.consuming.subscribing import tag_filter
from rmqclient.message import ReceivedMessage
from rmqclient.pull import (
    PULL_ANSWER_CODES,
    PullResult,
    pull_header,
    pull_result_untrusted,
)
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ConnectError, RefusedError, RequestTimeoutError, RocketMQError
from rmqproto.filters.subscription import TAG
from rmqproto.ha import MASTER_ID
from rmqproto.headers.consuming import PULL_LITE

log = logging.getLogger(__name__)

SUSPEND_MS = 15_000
"""How long a broker may hold a pull while it has no messages."""

PULL_TIMEOUT_S = 30.0

SPAN_MAX = 2000
"""How far the newest kept message may be ahead of the oldest (``consumeConcurrentlyMaxSpan``)."""

QUEUE_MAX_BYTES = 100 * 1024 * 1024
"""The size of the messages kept per queue (``pullThresholdSizeForQueue``)."""


class Puller:
    """With ``is_lite`` it sends 361 with the expression in each request, for a consumer that does not send it in
    heartbeats."""

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        queue: MessageQueue,
        subscription: SubscriptionData,
        is_lite: bool,
        batch_size: int,
    ):
        self._client = client
        self._group = group
        self._queue = queue
        self._subscription = subscription
        self._is_lite = is_lite
        self._batch_size = batch_size
        self._filter = tag_filter(subscription)
        self._broker_id = MASTER_ID
        self._pause = FailurePause(client)

    def is_for(self, subscription: SubscriptionData) -> bool:
        """Whether that subscription chooses the same messages."""
        ours = self._subscription
        return (ours.expression_type, ours.sub_string) == (subscription.expression_type, subscription.sub_string)

    async def pull(self, queue_offset: int, committed_offset: int | None) -> PullResult | None:
        """One pull; None if it failed, after a pause that depends on the error. A master also stores
        ``committed_offset``."""
        header = pull_header(
            self._group,
            self._queue,
            queue_offset,
            max_count=self._batch_size,
            expression=self._subscription.sub_string if self._is_lite else None,
            subscription_version=self._subscription.sub_version,
            expression_type=self._subscription.expression_type or TAG,
            committed_offset=committed_offset if committed_offset and self._broker_id == MASTER_ID else None,
            suspend_ms=SUSPEND_MS,
        )
        code = RequestCode.LITE_PULL_MESSAGE if self._is_lite else RequestCode.PULL_MESSAGE
        header.sys_flag |= PULL_LITE if self._is_lite else 0
        try:
            address = self._client.routes.replica_of(self._queue, self._broker_id)
            answer = await self._client.channels.request(
                address, code, header, timeout_s=PULL_TIMEOUT_S, accept=PULL_ANSWER_CODES
            )
            result = pull_result_untrusted(answer, self._queue)
        except RocketMQError as error:
            if isinstance(error, ConnectError | RequestTimeoutError):
                self._broker_id = MASTER_ID
            await self._pause.after(error, "pull", self._queue)
            return None
        self._pause.reset()
        self._broker_id = result.suggested_broker_id
        return result

    def wanted(self, result: PullResult) -> list[ReceivedMessage]:
        """The messages of a pull whose tag matches, without those whose tag only has the same hash as a wanted one."""
        received = [ReceivedMessage(message, self._queue.broker_name) for message in result.messages]
        if self._filter.tags is None:
            return received
        return [message for message in received if self._filter.matches(message.tags)]

    async def pause(self) -> None:
        """Pauses, longer each time until a pull succeeds."""
        await self._pause.sleep()


# --- the pause after a failure, of pulls and of pops -----------------------------------------------------------------

AFTER_FAILURE_S = 0.1
AFTER_FAILURES_S = 3.0
"""The pause doubles from the first to the second of these while requests keep failing. A restarted broker is found
again soon, and one that is gone is not flooded."""

AFTER_FLOW_CONTROL_S = 0.02


class FailurePause:
    def __init__(self, client: ClientInstance):
        self._client = client
        self._next_s = AFTER_FAILURE_S

    def reset(self) -> None:
        """A request has succeeded."""
        self._next_s = AFTER_FAILURE_S

    async def sleep(self) -> None:
        """Sleeps, longer each time until ``reset``."""
        await anyio.sleep(self._next_s)
        self._next_s = min(2 * self._next_s, AFTER_FAILURES_S)

    async def after(self, error: RocketMQError, verb: str, queue: MessageQueue) -> None:
        """Sleeps after a failed pull or pop (``verb``), and logs it unless the broker only asks for a moment of
        rest."""
        if isinstance(error, RefusedError) and error.code == ResponseCode.FLOW_CONTROL:
            await anyio.sleep(AFTER_FLOW_CONTROL_S)
            return
        log.warning("%s failed queue=%s error=%s", verb, queue, error)
        self._client.routes.refresh_soon()
        await self.sleep()
