"""``sendMessage``: sends one message, with its trace if asked to."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.call import Call
from rmqadmin.core.messages.bodies_in import STANDARD_INPUT, whole
from rmqadmin.core.messages.sent_rows import SentRow, say_if_new, sent_row
from rmqadmin.core.mqadmin_text import BROKER_NAME_WIDTH, cut
from rmqadmin.core.results import Result, Row
from rmqadmin.core.topics.routes import queues_to_send_to
from rmqadmin.options.command_options import Topic, TrueFalse
from rmqadmin.options.message_options import MessageKeys, MessageTag
from rmqclient.message import Message, SendResult, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.names import TRACE_TOPIC

TRACE_GROUP = "_INNER_TRACE_PRODUCER"


_TRACE_FIELD, _TRACE_RECORD = "\x01", "\x02"


class Sent(Result, frozen=True):
    """Where the message went."""

    row_type: ClassVar[type[Row]] = SentRow
    queue: MessageQueue
    result: SendResult | None

    def rows(self) -> Sequence[SentRow]:
        return [sent_row(self.queue, self.result)]

    def mqadmin_text(self) -> str | None:
        if self.result is None:
            return None
        text = f"{'#Broker Name':32}  {'#QID':4}  {'#Send Result':20}    #MsgId\n"
        name, queue_id = cut(self.queue.broker_name, BROKER_NAME_WIDTH), self.result.queue.queue_id
        return text + f"{name:32}  {queue_id:<4}  {self.result.status.name:20}    {self.result.message_id}\n"


def send_message(
    call: Call,
    topic: Topic,
    body: Annotated[str, typer.Option("-p", "--body", metavar="TEXT", help="Body, as UTF-8. - is standard input.")],
    key: MessageKeys = None,
    tags: MessageTag = None,
    broker: Annotated[str | None, typer.Option("-b", "--broker", metavar="BROKER", help="Broker name.")] = None,
    queue_id: Annotated[int | None, typer.Option("-i", "--qid", min=0, help="With -b: queue id.")] = None,
    msg_trace_enable: Annotated[
        TrueFalse | None, typer.Option("-m", "--msgTraceEnable", case_sensitive=False, help="Also send its trace.")
    ] = None,
) -> Sent:
    """Without -b and -i, the message goes to any queue of the topic. -b alone means any queue of that broker; mqadmin
    ignores it.

    Examples:
      rmqadmin sendMessage -t OrderTopic -p 'order 1' -k ORDER-1 -c paid
      rmqadmin sendMessage -t OrderTopic -p 'order 2' -b broker-a -i 0
      rmqadmin -o json sendMessage -t OrderTopic -p 'order 3'
    """
    if queue_id is not None and broker is None:
        raise UsageError("Broker name must be set if the queue is chosen!", hint="Add -b BROKER_NAME.")
    content = whole(body) if body == STANDARD_INPUT and not call.as_mqadmin else body.encode()
    message = Message(topic.strip(), content, tags=tags or None, keys=(key or "").split())
    say_if_new(call.admin, message.topic, call.notice, dry_run=call.dry_run)
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
    """A queue and its broker's address."""
    queues = queues_to_send_to(call.admin, topic)
    if broker is None:
        return random.choice(queues)
    there = [found for found in queues if found[0].broker_name == broker.strip()]
    if not there:
        names = ", ".join(sorted({found[0].broker_name for found in queues}))
        raise NotFoundError(f"The broker[{broker.strip()}] not exist", hint=f"The topic is on: {names}.")
    if queue_id is None:
        return random.choice(there)
    return MessageQueue(topic, broker.strip(), queue_id), there[0][1]


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
