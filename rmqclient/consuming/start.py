"""Where a consumer begins in a queue: at its group's offset, or without one, at the configured start
(``ConsumeFromWhere`` and ``RebalancePushImpl.computePullFromWhere``, 5.5.0)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import Self

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.errors import UsageError
from rmqproto.ha import MASTER_ID
from rmqproto.headers.base import Header, from_ext
from rmqproto.headers.consuming import OffsetAnswer, QueueHeader, SearchOffsetHeader
from rmqproto.names import RETRY_PREFIX

CONSUME_FROM_BEFORE_MS = 30 * 60 * 1000
"""The default start of TIMESTAMP: half an hour ago."""


class ConsumeFrom(Enum):
    """Where a group begins in a queue in which it has no offset. If a broker still has a queue's first messages in
    memory, a new group gets all of them, whatever this says."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"

    @classmethod
    def of(cls, value: ConsumeFrom | str) -> Self:
        """The member, given as such or by Apache's name. UsageError for any other text."""
        try:
            return cls(value)
        except ValueError:
            known = ", ".join(each.value for each in cls)
            raise UsageError(f"consume_from cannot be {value!r}", hint=f"Use one of {known}.") from None


@dataclass(frozen=True, slots=True)
class Start:
    """``timestamp_ms`` is used only for TIMESTAMP."""

    consume_from: ConsumeFrom
    timestamp_ms: int

    @classmethod
    def of(cls, consume_from: ConsumeFrom | str, timestamp_ms: int | None) -> Self:
        """UsageError for an unknown ``consume_from``."""
        before_ms = time.time_ns() // 1_000_000 - CONSUME_FROM_BEFORE_MS
        return cls(ConsumeFrom.of(consume_from), before_ms if timestamp_ms is None else timestamp_ms)


async def first_offset(client: ClientInstance, queue: MessageQueue, start: Start) -> int:
    """The offset where a group without one begins. A retry topic is read from its first message, because its messages
    are this group's own; with TIMESTAMP it is read from its end, as in Apache's clients. RocketMQError if the broker
    does not answer."""
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    match start.consume_from:
        case ConsumeFrom.FIRST_OFFSET:
            return 0
        case ConsumeFrom.LAST_OFFSET:
            return 0 if is_retry else await max_offset(client, queue)
        case ConsumeFrom.TIMESTAMP:
            return await (max_offset(client, queue) if is_retry else offset_at(client, queue, start.timestamp_ms))


async def max_offset(client: ClientInstance, queue: MessageQueue) -> int:
    """The queue offset that the next message will get."""
    return await _ask(client, queue, RequestCode.GET_MAX_OFFSET, _header(queue))


async def min_offset(client: ClientInstance, queue: MessageQueue) -> int:
    """The queue offset of the oldest message; 0 if there is none."""
    return await _ask(client, queue, RequestCode.GET_MIN_OFFSET, _header(queue))


async def offset_at(client: ClientInstance, queue: MessageQueue, timestamp_ms: int) -> int:
    """The queue offset of the first message stored at or after a time, in ms since the epoch; the end if all are
    older."""
    header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
    return await _ask(client, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)


def _header(queue: MessageQueue) -> QueueHeader:
    return QueueHeader(topic=queue.topic, queue_id=queue.queue_id)


async def _ask(client: ClientInstance, queue: MessageQueue, code: RequestCode, header: Header) -> int:
    address = client.routes.replica_of(queue, MASTER_ID)
    answer = await client.channels.request(address, code, header)
    return max(0, from_ext(answer.ext, OffsetAnswer).offset)
