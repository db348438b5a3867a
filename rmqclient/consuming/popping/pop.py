"""The requests and answers of one pop, and of settling its messages (``MQClientAPIImpl`` and ``ExtraInfoUtil``,
5.5.0)."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import anyio

from rmqclient.consuming.start import ConsumeFrom
from rmqclient.message import ReceivedMessage
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.bodies.popping import BatchAck, BatchAcks
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.headers.base import from_ext
from rmqproto.headers.popping import (
    INIT_FROM_MAX,
    INIT_FROM_MIN,
    AckHeader,
    ChangeInvisibleTimeAnswer,
    ChangeInvisibleTimeHeader,
    PopAnswer,
    PopHeader,
    PopLiteAnswer,
    PopLiteHeader,
)
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.message.special_messages import LIGHT_QUEUE_ID, is_light_queue, light_queue_offset_untrusted
from rmqproto.names import lite_names_of
from rmqproto.pop import (
    NORMAL,
    Handle,
    bits_of,
    parse_handle_untrusted,
    parse_start_offset_info_untrusted,
    real_topic,
    retry_kind,
)
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command

POP_BATCH_COUNT = 32
"""Messages asked for at once: the most that a broker returns."""

POP_ANSWER_CODES = frozenset({
    ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL,
})  # fmt: skip
"""The codes after SUCCESS mean that there are no messages now."""

INVISIBLE_MIN_S = 1.0
"""With a shorter time a message comes again while its acknowledgement is on the way."""

BATCH_BITS_MAX = 1 << 16
"""How far a message of a batch acknowledgement may lie behind the first of its pop. A pop skips messages that do not
match."""

COUNT_DIGITS_MAX = 9


@dataclass(frozen=True, kw_only=True)
class PoppedMessage(ReceivedMessage):
    """A message that is invisible to the rest of the group for a time. ``handle`` says until when, and acknowledges it.
    ``popped_topic`` is the topic that was asked for: a message that comes again lies in another. ``popped_lite_topic``
    is set if the message was popped from a lite topic below it, in order."""

    popped_topic: str
    handle: Handle
    popped_lite_topic: str | None = None

    @property
    def topic(self) -> str:
        return self.popped_topic


def invisible_ms(invisible_s: float) -> int:
    """UsageError for a time that is too short."""
    if invisible_s < INVISIBLE_MIN_S:
        raise UsageError(f"invisible_s cannot be {invisible_s:g}", hint=f"The minimum is {INVISIBLE_MIN_S:g} s.")
    return int(invisible_s * 1000)


def init_mode(consume_from: ConsumeFrom) -> int:
    """Where a pop begins in a queue in which its group has no offset. UsageError for a start that only pulls
    support."""
    if consume_from is ConsumeFrom.TIMESTAMP:
        raise UsageError("a pop cannot begin at a time", hint="Use FIRST_OFFSET or LAST_OFFSET.")
    return INIT_FROM_MIN if consume_from is ConsumeFrom.FIRST_OFFSET else INIT_FROM_MAX


@dataclass(frozen=True, kw_only=True, slots=True)
class PopTerms:
    """One pop. ``poll_ms`` lets the broker hold it while it has no messages; ``answer_timeout_s`` is the time for the
    answer beyond that."""

    max_count: int
    invisible_ms: int
    poll_ms: int
    answer_timeout_s: float


async def pop(
    client: ClientInstance,
    group: str,
    queue: MessageQueue,
    subscription: SubscriptionData,
    terms: PopTerms,
    init_mode: int,
) -> list[PoppedMessage]:
    """200050; ``init_mode`` is where a group without an offset begins. RocketMQError."""
    header = PopHeader(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, max_msg_nums=terms.max_count,
        invisible_time=terms.invisible_ms, poll_time=terms.poll_ms, born_time=0, init_mode=init_mode,
        exp_type=subscription.expression_type, exp=subscription.sub_string, order=False,
    )  # fmt: skip
    return popped_untrusted(await _ask(client, queue.broker_name, RequestCode.POP_MESSAGE, header, terms), queue)


async def pop_lite(client: ClientInstance, group: str, parent: MessageQueue, terms: PopTerms) -> list[PoppedMessage]:
    """200070: messages of any of the lite topics below the topic of ``parent`` that the client subscribes to
    (``MQClientAPIImpl.popLiteMessageAsync``). RocketMQError."""
    header = PopLiteHeader(
        client_id=client.client_id, consumer_group=group, topic=parent.topic, max_msg_num=terms.max_count,
        invisible_time=terms.invisible_ms, poll_time=terms.poll_ms, born_time=0,
    )  # fmt: skip
    answer = await _ask(client, parent.broker_name, RequestCode.POP_LITE_MESSAGE, header, terms)
    return popped_lite_untrusted(answer, parent)


async def _ask(
    client: ClientInstance, broker_name: str, code: RequestCode, header: PopHeader | PopLiteHeader, terms: PopTerms
) -> Command:
    address, timeout_s = client.routes.master(broker_name), terms.poll_ms / 1000 + terms.answer_timeout_s
    await client.channels.connected(address, anyio.current_time() + timeout_s)
    header.born_time = time.time_ns() // 1_000_000  # brokers give nothing to a pop that was born half a second ago
    return await client.channels.request(address, code, header, timeout_s=timeout_s, accept=POP_ANSWER_CODES)


def popped_untrusted(answer: Command, queue: MessageQueue) -> list[PoppedMessage]:
    """The messages of an answer whose code is one of POP_ANSWER_CODES. ProtocolError if infos or messages are
    damaged."""
    if answer.code != ResponseCode.SUCCESS:
        return []
    infos = from_ext(answer.ext, PopAnswer)
    starts = parse_start_offset_info_untrusted(infos.start_offset_info or "")

    def handle_of(message: ReceivedMessage) -> Handle:
        carried = message.properties.get(props.POP_CK)  # the broker's own, if the message comes again
        if carried is not None and (handle := parse_handle_untrusted(carried)).pop_time_ms == infos.pop_time:
            return handle
        source = kind, queue_id = retry_kind(message.stored.topic), message.queue.queue_id
        if source not in starts:
            raise ProtocolError(f"the answer to a pop does not say where the read of queue {queue_id} began")
        return Handle(
            starts[source], infos.pop_time, infos.invisible_time, infos.revive_qid, kind, queue.broker_name, queue_id,
            message.queue_offset,
        )  # fmt: skip

    messages = [ReceivedMessage(stored, queue.broker_name) for stored in decode_records_untrusted(answer.body)]
    if is_light_queue(queue):
        light = MessageQueue(queue.topic, queue.broker_name, LIGHT_QUEUE_ID)
        messages = [
            each if retry_kind(each.stored.topic) != NORMAL else dataclasses.replace(each, light_queue=light)
            for each in messages
        ]
    return [
        PoppedMessage(
            each.stored,
            queue.broker_name,
            light_queue=each.light_queue,
            popped_topic=queue.topic,
            handle=handle_of(each),
        )
        for each in messages
    ]


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


# --- settling --------------------------------------------------------------------------------------------------------


async def acknowledge(client: ClientInstance, group: str, messages: list[PoppedMessage]) -> None:
    """Acknowledges messages of one broker, in one request if there are several and the broker supports that (200051,
    200151). On RocketMQError some may be acknowledged."""
    address = client.routes.master(messages[0].broker_name)
    batch = [message for message in messages if _is_for_batch(message)]
    if len(batch) > 1:
        body = fastjson.dumps(_batch_of(group, batch))
        accept = (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        answer = await client.channels.request(address, RequestCode.BATCH_ACK_MESSAGE, body=body, accept=accept)
        if answer.code == ResponseCode.SUCCESS:
            messages = [message for message in messages if not _is_for_batch(message)]
    for message in messages:
        await client.channels.request(address, RequestCode.ACK_MESSAGE, AckHeader(**_named(group, message)))


async def change_invisible_time(
    client: ClientInstance, group: str, message: PoppedMessage, invisible_ms: int, *, suspend: bool = False
) -> PoppedMessage:
    """Changes the invisible time (200053). With ``suspend`` the redelivery is not counted. Returns the message with the
    handle for its acknowledgement. RocketMQError."""
    address = client.routes.master(message.broker_name)
    header = ChangeInvisibleTimeHeader(**_named(group, message), invisible_time=invisible_ms, suspend=suspend)
    answer = await client.channels.request(address, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
    changed = from_ext(answer.ext, ChangeInvisibleTimeAnswer)
    handle = message.handle._replace(
        start_offset=message.handle.queue_offset,
        pop_time_ms=changed.pop_time,
        invisible_time_ms=changed.invisible_time,
        revive_queue_id=changed.revive_qid,
    )
    return dataclasses.replace(message, handle=handle)


def _named(group: str, message: PoppedMessage) -> dict[str, Any]:
    """The fields of a header that name a popped message."""
    handle = message.handle
    return {
        "consumer_group": group,
        "topic": real_topic(message.popped_topic, group, handle.kind),
        "queue_id": handle.queue_id,
        "extra_info": str(handle),
        "offset": handle.queue_offset,
        "lite_topic": message.popped_lite_topic,
    }


def _is_for_batch(message: PoppedMessage) -> bool:
    """Whether brokers accept it in a batch, and the bit set of a batch can hold it."""
    return (
        message.popped_lite_topic is None
        and 0 <= message.handle.queue_offset - message.handle.start_offset < BATCH_BITS_MAX
    )


def _batch_of(group: str, messages: Iterable[PoppedMessage]) -> BatchAcks:
    """Body of 200151, for messages of one broker that may go in a batch. Messages that came by one pop from one queue
    share an entry."""
    diffs: defaultdict[tuple[str, Handle], list[int]] = defaultdict(list)
    broker_name = ""
    for message in messages:
        handle, broker_name = message.handle, message.broker_name
        pop = handle._replace(queue_offset=handle.start_offset)
        diffs[message.popped_topic, pop].append(handle.queue_offset - handle.start_offset)
    acks = [
        BatchAck(
            bits=bits_of(numbers),
            consumer_group=group,
            invisible_time=pop.invisible_time_ms,
            pop_time=pop.pop_time_ms,
            queue_id=pop.queue_id,
            retry=pop.kind,
            revive_queue_id=pop.revive_queue_id,
            start_offset=pop.start_offset,
            topic=topic,
        )
        for (topic, pop), numbers in diffs.items()
    ]
    return BatchAcks(acks=acks, broker_name=broker_name)
