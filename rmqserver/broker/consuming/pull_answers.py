"""Answers to pulls (``DefaultPullMessageResultHandler``, 5.5.0). Bodies are the stored bytes themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import ResponseCode
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.headers.consuming import PullAnswer
from rmqserver.broker.answer_templates import FOUND, HEAD
from rmqserver.remoting.answer import Request, answer_frame, send_answer
from rmqserver.store.results import GetResult, GetStatus

if TYPE_CHECKING:
    from rmqserver.remoting.connection import Connection

OFFSET_RESET = "OFFSET_RESET"
"""Remark for a consumer that is told where to go on because an operator has reset its group."""

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class PullOutcome(msgspec.Struct, gc=False):
    """The result of a pull: what it found in the queue, and its topic, group and filter. ``is_reset``: nothing was
    read; ``result.next_offset`` is where the group was put."""

    result: GetResult
    topic: TopicConfig
    group: SubscriptionGroupConfig
    wanted: MessageFilter
    is_reset: bool = False
    suggested_broker_id: int = 0
    """Where the client is to pull next: 0 is the master."""


def code_of(pulled: PullOutcome, queue_offset: int) -> ResponseCode:
    """The code for a pull of that offset. A queue without messages has only offset 0; any other offset has moved."""
    status = pulled.result.status
    if status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE):
        return ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND
    return _CODES[status]


def suggested_broker_id(pulled: PullOutcome) -> int:
    """The broker to read from, if slaves may be read: a slave, if the group lags more than this machine's memory
    holds."""
    group = pulled.group
    return group.which_broker_when_consume_slowly if pulled.result.suggest_slave else group.broker_id


def remark_of(pulled: PullOutcome) -> str:
    if pulled.is_reset:
        return OFFSET_RESET
    status = pulled.result.status
    # To clients, a queue that no message has reached is an empty one.
    return GetStatus.NO_MESSAGE_IN_QUEUE.value if status is GetStatus.NO_MATCHED_LOGIC_QUEUE else status.value


def answer_found(request: Request[Any], connection: Connection, pulled: PullOutcome, size_bytes: int) -> None:
    """Answers with messages of that total size. Not for a request that wants no answer."""
    if request.codec:
        answer(request, connection, ResponseCode.SUCCESS, pulled)
        return
    result, topic, group = pulled.result, pulled.topic, pulled.group
    values = (
        group.group_sys_flag, result.max_offset, result.min_offset, result.next_offset, pulled.suggested_broker_id,
        topic.topic_sys_flag, request.opaque,
    )  # fmt: skip
    header = (FOUND % values).encode()
    # In two pieces, because the connection joins all it sends in one go: a long run of records is copied once.
    connection.send(HEAD.pack(4 + len(header) + size_bytes, len(header)) + header)
    connection.send(result.chunks[0] if len(result.chunks) == 1 else b"".join(result.chunks))


def answer(request: Request[Any], connection: Connection, code: int, pulled: PullOutcome) -> None:
    """Answers a pull, whatever was found."""
    result = pulled.result
    header = PullAnswer(
        suggest_which_broker_id=pulled.suggested_broker_id,
        next_begin_offset=result.next_offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
        topic_sys_flag=pulled.topic.topic_sys_flag,
        group_sys_flag=pulled.group.group_sys_flag,
    )
    body = b"".join(result.chunks)
    send_answer(request, connection, answer_frame(request, code, remark_of(pulled), header, body))
