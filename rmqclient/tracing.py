"""Records of what this client did with each message, sent to the trace topic in the background
(``AsyncTraceDispatcher``, ``SendMessageTraceHookImpl``, ``ConsumeMessageTraceHookImpl``, 5.5.0). Tracing never delays
or fails the operation that it records."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection
from typing import NamedTuple, Self

import anyio

from rmqclient.message import Message, ReceivedMessage, SendResult
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.errors import RocketMQError
from rmqproto.message import properties as props
from rmqproto.message.message_id import UniqueIds
from rmqproto.names import TRACE_TOPIC
from rmqproto.trace import (
    COMMITTED_MESSAGE,
    DELAYED_MESSAGE,
    HALF_MESSAGE,
    NORMAL_MESSAGE,
    AnyRecord,
    Consumed,
    Delivered,
    Published,
    Recalled,
    TransactionEnded,
    encode_trace,
)

log = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 0.5
"""``waitTimeThresholdMil``."""

WAITING_MAX_COUNT = 2048
"""The most records that wait to be sent; more are dropped and counted."""

BATCH_COUNT = 100
BATCH_KEYS_MAX_LENGTH = 8 * 1024
"""The limits of one trace message: Apache's ``batchNum``, and a length of its keys far below that for properties."""

DEFAULT_REGION = "DefaultRegion"
"""The region if the broker does not name one."""

_request_ids = UniqueIds()


class _Record(NamedTuple):
    text: str
    keys: frozenset[str]


class Traces:
    """``run`` runs in a task; ``flush`` sends the remaining records. ``group`` is that of the producer or consumer."""

    def __init__(self, group: str, topic: str):
        self._group = group
        self._topic = topic
        self._waiting: deque[_Record] = deque()
        self._dropped_count = 0

    @classmethod
    def wanted(cls, group: str, trace: bool | str) -> Self | None:
        """Traces to Apache's topic for ``True``, to the named topic for a text; None for no traces."""
        topic = TRACE_TOPIC if trace is True else trace
        return cls(group, topic) if topic else None

    async def run(self, client: ClientInstance) -> None:
        while True:
            await anyio.sleep(FLUSH_INTERVAL_S)
            await self.flush(client)

    async def flush(self, client: ClientInstance) -> None:
        """A trace message that cannot be sent is logged and dropped."""
        if self._dropped_count:
            log.warning("traces dropped group=%s count=%d", self._group, self._dropped_count)
            self._dropped_count = 0
        while self._waiting:
            try:
                group = f"_INNER_TRACE_PRODUCER-{self._group}"
                await client.send_on_its_own(group, self._batch(), create=True)
            except RocketMQError as error:
                log.warning("traces not sent group=%s error=%s", self._group, error)

    # --- what happened -----------------------------------------------------------------------------------------------

    def published(self, messages: Collection[Message], result: SendResult, store_addr: str, began_s: float) -> None:
        """Records a send that was answered, of a message or a batch. ``began_s``: the ``time.time()`` at its start."""
        if not result.is_trace_on:
            return
        first = next(iter(messages))
        keys = "" if len(messages) > 1 else first.keys if isinstance(first.keys, str) else " ".join(first.keys)
        record = Published(
            time_ms=int(began_s * 1000),
            region=result.region_id,
            group=self._group,
            topic=first.topic,
            message_id=result.message_id,
            tags="" if len(messages) > 1 else first.tags or "",
            keys=keys,
            store_host=store_addr,
            body_size_bytes=sum(len(message.body) for message in messages),
            cost_ms=int((time.time() - began_s) * 1000),
            message_type=_message_type(first),
            offset_message_id=result.offset_message_id,
            is_success=True,
        )
        self._add(record, [*result.message_id.split(","), *props.split_keys(keys)])

    def transaction_ended(
        self, message: Message | ReceivedMessage, message_id: str, state: str, store_addr: str, *, is_from_check: bool
    ) -> None:
        """Records that the broker was told how the transaction of a half message ended; ``state`` in Apache's words."""
        keys = message.keys if isinstance(message.keys, str) else " ".join(message.keys)
        record = TransactionEnded(
            time_ms=int(time.time() * 1000),
            region=message.properties.get(props.MSG_REGION, DEFAULT_REGION),
            group=self._group,
            topic=message.topic,
            message_id=message_id,
            tags=message.tags or "",
            keys=keys,
            store_host=store_addr,
            message_type=COMMITTED_MESSAGE,
            transaction_id=message_id,
            state=state,
            is_from_check=is_from_check,
        )
        self._add(record, [message_id, *props.split_keys(keys)])

    def recalled(self, topic: str, message_id: str, *, is_success: bool) -> None:
        """Records whether the broker recalled a message."""
        record = Recalled(int(time.time() * 1000), DEFAULT_REGION, self._group, topic, message_id, is_success)
        self._add(record, [message_id])

    def delivered(self, message: ReceivedMessage) -> str:
        """Records that the listener gets the message. Returns the id that ``consumed`` needs; empty if the message is
        not to be traced."""
        if message.properties.get(props.TRACE_ON) == "false":
            return ""
        request_id = _request_ids.next()
        record = Delivered(
            time_ms=int(time.time() * 1000),
            region=message.properties.get(props.MSG_REGION, ""),
            group=self._group,
            request_id=request_id,
            message_id=message.message_id,
            retry_times=message.reconsume_times,
            keys=" ".join(message.keys),
        )
        self._add(record, [message.message_id, *message.keys])
        return request_id

    def consumed(self, message: ReceivedMessage, request_id: str, cost_ms: float, context_code: int) -> None:
        """Records that the listener is done with the message; ``context_code`` says how, as in rmqproto/trace.py."""
        if not request_id:
            return
        record = Consumed(
            request_id=request_id,
            message_id=message.message_id,
            cost_ms=int(cost_ms),
            is_success=context_code == 0,
            keys=" ".join(message.keys),
            context_code=context_code,
            time_ms=int(time.time() * 1000),
            group=self._group,
        )
        self._add(record, [message.message_id, *message.keys])

    # --- sending -----------------------------------------------------------------------------------------------------

    def _add(self, record: AnyRecord, keys: list[str]) -> None:
        if len(self._waiting) >= WAITING_MAX_COUNT:
            self._dropped_count += 1
            return
        self._waiting.append(_Record(encode_trace(record), frozenset(keys)))

    def _batch(self) -> Message:
        texts: list[str] = []
        keys: set[str] = set()
        while self._waiting and len(texts) < BATCH_COUNT:
            length = sum(len(key) + 1 for key in keys | self._waiting[0].keys)
            if texts and length > BATCH_KEYS_MAX_LENGTH:
                break
            record = self._waiting.popleft()
            texts.append(record.text)
            keys |= record.keys
        return Message(self._topic, "".join(texts).encode(), keys=sorted(keys))


def _message_type(message: Message) -> int:
    if message.properties.get(props.TRAN_MSG) == "true":
        return HALF_MESSAGE
    return DELAYED_MESSAGE if message.is_delayed else NORMAL_MESSAGE
