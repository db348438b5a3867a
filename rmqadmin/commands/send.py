"""``sendMessage``: one message, with its trace where asked for."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin import targets
from rmqadmin.call import Call
from rmqadmin.mqadmin_text import BROKER_NAME_WIDTH, cut
from rmqadmin.options import Topic, TrueFalse
from rmqadmin.results import Result, Row, doc
from rmqclient.message import Message, SendResult, SendStatus
from rmqclient.sending import DEFAULT_TOPIC_QUEUE_NUMS
from rmqproto.bodies import MessageQueue, TopicRoute
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, RefusedError, UsageError
from rmqproto.names import AUTO_CREATE_TOPIC, TRACE_TOPIC

PERM_WRITE = 2
TRACE_GROUP = "_INNER_TRACE_PRODUCER"
_TRACE_FIELD, _TRACE_RECORD = "\x01", "\x02"


class SentRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker that it went to")]
    queue_id: Annotated[int | None, doc("queue that it went to")]
    status: Annotated[str | None, doc("SEND_OK, or what the broker could not promise; none under --dry-run")]
    message_id: Annotated[str | None, doc("unique key", key=True)]
    offset_message_id: Annotated[str | None, doc("id made by the broker", wide=True)]
    queue_offset: Annotated[int | None, doc("its place in the queue")]


class Sent(Result, frozen=True):
    """Where the message went."""

    row_type: ClassVar[type[Row]] = SentRow
    queue: MessageQueue
    result: SendResult | None

    def rows(self) -> Sequence[SentRow]:
        result = self.result
        return [
            SentRow(
                broker_name=self.queue.broker_name,
                queue_id=result.queue.queue_id if result else self.queue.queue_id,
                status=result.status.name if result else None,
                message_id=result.message_id if result else None,
                offset_message_id=result.offset_message_id if result else None,
                queue_offset=result.queue_offset if result else None,
            )
        ]

    def mqadmin_text(self) -> str | None:
        if self.result is None:
            return None
        text = f"{'#Broker Name':32}  {'#QID':4}  {'#Send Result':20}    #MsgId\n"
        name, queue_id = cut(self.queue.broker_name, BROKER_NAME_WIDTH), self.result.queue.queue_id
        return text + f"{name:32}  {queue_id:<4}  {self.result.status.name:20}    {self.result.message_id}\n"


def send_message(
    call: Call,
    topic: Topic,
    body: Annotated[str, typer.Option("-p", "--body", metavar="TEXT", help="Message body, sent as UTF-8.")],
    key: Annotated[str | None, typer.Option("-k", "--key", metavar="KEYS", help="Keys, separated by blanks.")] = None,
    tags: Annotated[str | None, typer.Option("-c", "--tags", metavar="TAG", help="Tag.")] = None,
    broker: Annotated[str | None, typer.Option("-b", "--broker", metavar="NAME", help="Broker name.")] = None,
    queue_id: Annotated[int | None, typer.Option("-i", "--qid", min=0, help="With -b: queue id.")] = None,
    msg_trace_enable: Annotated[
        TrueFalse | None, typer.Option("-m", "--msgTraceEnable", case_sensitive=False, help="Also send its trace.")
    ] = None,
) -> Sent:
    """Without -b and -i, to any queue of the topic. -b alone means any queue of that broker; mqadmin passes over it.

    Examples:
      rmqadmin sendMessage -t OrderTopic -p 'order 1' -k ORDER-1 -c paid
      rmqadmin sendMessage -t OrderTopic -p 'order 2' -b broker-a -i 0
      rmqadmin -o json sendMessage -t OrderTopic -p 'order 3'
    """
    if queue_id is not None and broker is None:
        raise UsageError("Broker name must be set if the queue is chosen!", hint="Add -b BROKER_NAME.")
    message = Message(topic.strip(), body.encode(), tags=tags or None, keys=(key or "").split())
    queue, addr = _choose(call, message.topic, broker, queue_id)
    if call.dry_run:
        return Sent(queue, None)
    started_s = time.monotonic()
    result = call.admin.send_message(addr, queue, message)
    if result.status is not SendStatus.SEND_OK:
        call.notice(f"the message is stored, but the broker answers {result.status.name}")
    if msg_trace_enable is TrueFalse.TRUE:
        _send_trace(call, message, result, addr, round((time.monotonic() - started_s) * 1000))
    return Sent(queue, result)


def _choose(call: Call, topic: str, broker: str | None, queue_id: int | None) -> tuple[MessageQueue, str]:
    """A queue and its broker's address. A topic that does not exist goes to a broker that creates topics, as a
    producer's first message does."""
    route = targets.find_route(call.admin, topic)
    if route is not None:
        queues = writable_queues(route, topic)
    else:
        try:
            default = call.admin.topic_route(AUTO_CREATE_TOPIC)
        except RefusedError as error:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"No route info of this topic: {topic}") from error
        queues = writable_queues(default, topic, DEFAULT_TOPIC_QUEUE_NUMS)
    if broker is None:
        return random.choice(queues)
    there = [found for found in queues if found[0].broker_name == broker.strip()]
    if not there:
        names = ", ".join(sorted({found[0].broker_name for found in queues}))
        raise NotFoundError(f"The broker[{broker.strip()}] not exist", hint=f"The topic is on: {names}.")
    if queue_id is None:
        return random.choice(there)
    return MessageQueue(topic, broker.strip(), queue_id), there[0][1]


def writable_queues(route: TopicRoute, topic: str, queue_nums_max: int | None = None) -> list[tuple[MessageQueue, str]]:
    """Queues that take messages, with their masters' addresses. RefusedError with code 16 where there is none."""
    addrs = {broker.broker_name: broker.broker_addrs[0] for broker in route.broker_datas if 0 in broker.broker_addrs}
    found = [
        (MessageQueue(topic, queues.broker_name, queue_id), addrs[queues.broker_name])
        for queues in route.queue_datas
        if queues.perm & PERM_WRITE and queues.broker_name in addrs
        for queue_id in range(min(queues.write_queue_nums, queue_nums_max or queues.write_queue_nums))
    ]
    if not found:
        raise RefusedError(ResponseCode.NO_PERMISSION, f"no broker that is up lets anybody write to the topic {topic}")
    return found


def _send_trace(call: Call, message: Message, result: SendResult, broker_addr: str, cost_ms: int) -> None:
    """Sends the record of a send (``TraceDataEncoder``, type Pub, 5.5.0) to the trace topic."""
    fields = [
        "Pub", call.now_ms() - cost_ms, "DefaultRegion", "TOOLS_PRODUCER", message.topic, result.message_id,
        message.tags or "", " ".join(message.keys), broker_addr, len(message.body), cost_ms, 0,
        result.offset_message_id, "true",
    ]  # fmt: skip
    record = _TRACE_FIELD.join(map(str, fields)) + _TRACE_RECORD
    trace = Message(TRACE_TOPIC, record.encode(), keys=[result.message_id, *message.keys])
    queue, addr = _choose(call, TRACE_TOPIC, None, None)
    call.admin.send_message(addr, queue, trace, group=TRACE_GROUP)
