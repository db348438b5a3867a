"""Queues that keep messages although consumers do not read them: those past a topic's read queues. Brokers refuse pulls
of them. Their messages are read by the units of the consume queue (321), one after another (33).
"""

from __future__ import annotations

from collections.abc import Callable

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeQueueAnswer
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError, RefusedError, RocketMQError
from rmqproto.filters.message_filter import AcceptsProperties
from rmqproto.filters.subscription import SQL92, parse_tags
from rmqproto.headers.base import Header, from_ext
from rmqproto.headers.consuming import OffsetAnswer, PullAnswer, QueueHeader, ViewMessageHeader
from rmqproto.headers.tables import QueryConsumeQueueHeader
from rmqproto.message import properties as props
from rmqproto.message.record import decode_record_untrusted
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command

Ask = Callable[[RequestCode, Header], Command]
"""Asks one broker. Errors as of ``BlockingClient.request``."""


def _is_unread(error: RefusedError) -> bool:
    """Whether a pull was refused because its queue is not among the topic's read queues."""
    codes = (ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR)  # brokers before 5.0 answer with the second
    return error.code in codes and error.remark.startswith("queueId[") and "is illegal" in error.remark


def queues_past_unknown(topic: str, queue_nums: int, broker_name: str, error: RocketMQError) -> str:
    """What a person hears whose broker did not say whether it keeps such queues."""
    return f"queues of {topic} past its {queue_nums} are not known on {broker_name}: {error}"


def pull_unread(
    ask: Ask,
    refused: RefusedError,
    queue: MessageQueue,
    queue_offset: int,
    max_count: int,
    expression: str,
    expression_type: str = "TAG",
) -> tuple[int, PullAnswer, bytes]:
    """What a pull of the queue would answer: the code, the offsets and the records. Raises ``refused``, the refusal of
    the pull, if it is another one, or if the queue never had a message."""
    if not _is_unread(refused):
        raise refused
    first, last = (
        max(0, from_ext(ask(code, QueueHeader(topic=queue.topic, queue_id=queue.queue_id)).ext, OffsetAnswer).offset)
        for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
    )

    if last == 0:
        raise refused

    def answer(code: ResponseCode, next_offset: int, body: bytes = b"") -> tuple[int, PullAnswer, bytes]:
        ends = PullAnswer(suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=first, max_offset=last)
        return code, ends, body

    if not first <= queue_offset <= last:
        return answer(ResponseCode.PULL_OFFSET_MOVED, first if queue_offset < first else last)
    if queue_offset == last:
        return answer(ResponseCode.PULL_NOT_FOUND, last)
    log_offsets = _log_offsets(ask, queue, queue_offset, max_count)
    if not log_offsets:  # deleted since
        return answer(ResponseCode.PULL_OFFSET_MOVED, last)
    accepts = _filter(expression, expression_type)
    records = (_record(ask, queue.topic, log_offset) for log_offset in log_offsets)
    wanted = [each for each in records if each and accepts(decode_record_untrusted(each).properties)]
    code = ResponseCode.SUCCESS if wanted else ResponseCode.PULL_RETRY_IMMEDIATELY
    return answer(code, queue_offset + len(log_offsets), b"".join(wanted))


def _log_offsets(ask: Ask, queue: MessageQueue, queue_offset: int, max_count: int) -> list[int]:
    header = QueryConsumeQueueHeader(
        topic=queue.topic, queue_id=queue.queue_id, index=queue_offset, count=max_count
    )  # fmt: skip
    body = ask(RequestCode.QUERY_CONSUME_QUEUE, header).body
    units = fastjson.loads_untrusted(body, ConsumeQueueAnswer).queue_data if body else []
    return [unit.physic_offset for unit in units]


def _record(ask: Ask, topic: str, log_offset: int) -> bytes:
    """The message at a commit log offset; nothing if it was deleted since."""
    try:
        return ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=log_offset, topic=topic)).body
    except RefusedError as error:
        if error.code != ResponseCode.SYSTEM_ERROR:
            raise
        return b""


def _filter(expression: str, expression_type: str) -> AcceptsProperties:
    if expression_type == SQL92:
        from rmqproto.filters.sql92 import Sql92Error, compile_sql92  # 8 ms; few pulls need it

        try:
            return compile_sql92(expression)
        except Sql92Error as error:
            raise ProtocolError(f"the condition does not compile: {error}") from None
    tags = parse_tags(expression)
    return lambda properties: tags.matches(properties.get(props.TAGS))
