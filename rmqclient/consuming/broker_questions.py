"""A broker's requests to a consumer, mostly on behalf of an operator: report its state, consume one message, continue
at another offset, rebalance (``ClientRemotingProcessor``, 5.5.0)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from rmqclient.consuming.deliveries import ListenerCall
from rmqclient.consuming.popping.popped_queues import QueuePopper
from rmqclient.consuming.pulled_queues import DeliveredQueue
from rmqclient.consuming.rates import Rates
from rmqclient.message import ReceivedMessage
from rmqclient.remoting.channels import BrokerRequestHandler
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import CONSUME_PASSIVELY, SubscriptionData
from rmqproto.bodies.statistics import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatus,
    ResetOffsets,
    running_properties,
)
from rmqproto.codes import RequestCode
from rmqproto.headers.base import from_ext
from rmqproto.headers.client_calls import ConsumeDirectlyHeader, TopicGroupHeader
from rmqproto.message.record import decode_record_untrusted
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from rmqproto.wire.fastjson import ObjectMap

CONCURRENCY_PROPERTIES = "PROP_THREADPOOL_CORE_SIZE", "consumeThreadMin", "consumeThreadMax"
"""Java's names: its pool stays at the core size, because its queue is never full."""


@dataclass(kw_only=True)
class BrokerQuestions:
    """Answers from the consumer's own tables: ``pulled`` and ``popped`` are the consumer's, and change meanwhile."""

    group: str
    subscriptions: Mapping[str, SubscriptionData]
    pulled: Mapping[MessageQueue, DeliveredQueue]
    popped: Mapping[MessageQueue, QueuePopper]
    call: ListenerCall
    rates: Rates
    namesrv_addrs: str
    is_orderly: bool
    rebalance_soon: Callable[[], None]
    started_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    @property
    def handlers(self) -> dict[int, BrokerRequestHandler]:
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self.members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self.reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self.status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    async def members_changed(self, request: Command) -> bytes:
        """40: a member joined or left."""
        self.rebalance_soon()
        return b""

    async def reset_offsets(self, request: Command) -> bytes:
        """220: resets offsets, from brokers that leave a reset to the clients. Each queue is reset by its owner."""
        for queue, queue_offset in fastjson.loads_untrusted(request.body, ResetOffsets).offset_table.items():
            owner = self.pulled.get(queue)
            if owner is not None:
                owner.reset(queue_offset)
        return b""

    async def status(self, request: Command) -> bytes:
        """221: the committed offset of each queue of one topic."""
        topic = from_ext(request.ext, TopicGroupHeader).topic
        offsets: ObjectMap[MessageQueue, int] = ObjectMap(
            (queue, owner.committed_offset)
            for queue, owner in self.pulled.items()
            if queue.topic == topic and owner.committed_offset is not None
        )
        return fastjson.dumps(ConsumerStatus(message_queue_table=offsets))

    async def running_info(self, request: Command) -> bytes:
        """307: what this consumer is doing."""
        now_s, now_ms = anyio.current_time(), time.time_ns() // 1_000_000
        return fastjson.dumps(
            ConsumerRunningInfo(
                mq_pop_table=ObjectMap((queue, popper.info(now_s, now_ms)) for queue, popper in self.popped.items()),
                mq_table=ObjectMap((queue, owner.info(now_s, now_ms)) for queue, owner in self.pulled.items()),
                properties={
                    **running_properties(
                        CONSUME_PASSIVELY, self.started_ms, self.namesrv_addrs, is_orderly=self.is_orderly
                    ),
                    **dict.fromkeys(CONCURRENCY_PROPERTIES, str(self.call.concurrency)),
                },
                status_table=self.rates.status_table(now_s),
                subscription_set=list(self.subscriptions.values()),
            )
        )

    async def consume_directly(self, request: Command) -> bytes:
        """309: consumes one message now, independently of offsets."""
        header = from_ext(request.ext, ConsumeDirectlyHeader)
        message = ReceivedMessage(decode_record_untrusted(request.body), header.broker_name or "")
        started_s = anyio.current_time()
        remark = None
        try:
            status = await self.call(message)
            result = "CR_SUCCESS" if status.is_success else "CR_LATER"
        except Exception as error:  # the edge of the application's code: the operator gets the error
            result, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
        spent_ms = int((anyio.current_time() - started_s) * 1000)
        return fastjson.dumps(ConsumeDirectlyResult(consume_result=result, remark=remark, spent_time_mills=spent_ms))
