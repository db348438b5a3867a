"""The request and answer of one pop of lite topics (``MQClientAPIImpl.popLiteMessageAsync``, 5.5.0)."""

from __future__ import annotations

import time

from rmqclient.pop import PoppedMessage
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import from_ext
from rmqproto.headers.lite import PopLiteAnswer, PopLiteHeader
from rmqproto.message import properties as props
from rmqproto.message.light_queues import LIGHT_QUEUE_ID, light_queue_offset_untrusted
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.names import lite_names_of
from rmqproto.pop import NORMAL, Handle
from rmqproto.wire.command import Command

COUNT_DIGITS_MAX = 9


def pop_lite_header(
    client_id: str, group: str, topic: str, *, max_count: int, invisible_ms: int, poll_ms: int
) -> PopLiteHeader:
    """Header of 200070: messages of any of the lite topics below ``topic`` that the client subscribes to."""
    return PopLiteHeader(
        client_id=client_id,
        consumer_group=group,
        topic=topic,
        max_msg_num=max_count,
        invisible_time=invisible_ms,
        poll_time=poll_ms,
        born_time=time.time_ns() // 1_000_000,
    )


def popped_lite_untrusted(answer: Command, parent: MessageQueue) -> list[PoppedMessage]:
    """The messages of an answer whose code is one of POP_ANSWER_CODES; ``parent`` names topic and broker. ProtocolError
    if a message is damaged."""
    if answer.code != ResponseCode.SUCCESS:
        return []
    infos = from_ext(answer.ext, PopLiteAnswer)
    stored = decode_records_untrusted(answer.body)
    counts = _counts(infos.order_count_info, len(stored))
    return [_popped_untrusted(each, parent, infos, count) for each, count in zip(stored, counts, strict=True)]


def _popped_untrusted(stored: StoredMessage, parent: MessageQueue, infos: PopLiteAnswer, count: int) -> PoppedMessage:
    properties = stored.properties
    queue = MessageQueue(properties.get(props.MULTI_DISPATCH, ""), parent.broker_name, LIGHT_QUEUE_ID)
    names = lite_names_of(queue.topic)
    if names is None:
        raise ProtocolError(f"the message at {stored.log_offset} does not name its lite topic")
    handle = Handle(
        0, infos.pop_time, infos.invisible_time, infos.revive_qid, NORMAL, queue.broker_name, queue.queue_id,
        light_queue_offset_untrusted(properties, queue.topic),
    )  # fmt: skip
    return PoppedMessage(
        stored, queue.broker_name, count, queue, popped_topic=parent.topic, handle=handle, popped_lite_topic=names[1]
    )


def _counts(info: str | None, message_count: int) -> list[int]:
    """How often the group had each message before (``ExtraInfoUtil.parseLiteOrderCountInfo``). ``info`` has one item
    per message: a number, or ``kind qo<queue>%<offset> number``. Apache's brokers leave out new messages that follow
    redelivered ones. The items then cannot be matched to messages, and every count is 0."""
    items = info.split(";") if info else []
    if len(items) != message_count:
        return [0] * message_count
    return [_number(item.rpartition(" ")[2]) for item in items]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= COUNT_DIGITS_MAX else 0
