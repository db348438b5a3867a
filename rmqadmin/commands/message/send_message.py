"""``sendMessage``: sends one message, with its trace if asked to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER_NAME, Topic, TrueFalse
from rmqadmin.cli.options.message_options import MessageKeys, MessageTag
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages.bodies_in import FILE_MARK, STANDARD_INPUT, whole
from rmqadmin.core.messages.sending import Sent, choose_queue, send_one
from rmqadmin.core.messages.sent_rows import say_if_new
from rmqclient.message import Message, SendResult
from rmqproto.errors import UsageError
from rmqproto.names import TRACE_TOPIC

TRACE_GROUP = "_INNER_TRACE_PRODUCER"


_TRACE_FIELD, _TRACE_RECORD = "\x01", "\x02"


def send_message(
    call: Call,
    topic: Topic,
    body: Annotated[str, typer.Option("-p", "--body", metavar="TEXT", help="Body, as UTF-8. - is standard input.")],
    key: MessageKeys = None,
    tags: MessageTag = None,
    broker: Annotated[
        str | None,
        A_BROKER_NAME,
        Value.BROKER_NAME,
        typer.Option("-b", "--broker", metavar="BROKER", help="Broker name."),
    ] = None,
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
    content = _content(call, topic.strip(), body)
    message = Message(topic.strip(), content, tags=tags or None, keys=(key or "").split())
    say_if_new(call.admin, message.topic, call.notice, dry_run=call.dry_run)
    place = choose_queue(call.admin, message.topic, None if broker is None else broker.strip(), queue_id)
    started_s = time.monotonic()
    sent = send_one(call.admin, place, message, call.notice, dry_run=call.dry_run)
    if msg_trace_enable is TrueFalse.TRUE and sent.result is not None:
        _send_trace(call, message, sent.result, place[1], round((time.monotonic() - started_s) * 1000))
    return sent


def _content(call: Call, topic: str, text: str) -> bytes:
    """The body. ``@FILE`` is a text here, as in mqadmin: if there is such a file, a person is not left to send its
    name, and a script is told."""
    if call.as_mqadmin or not text.startswith((STANDARD_INPUT, FILE_MARK)):
        return text.encode()
    if text == STANDARD_INPUT:
        call.tell_if_typed("a message")
        return whole(text)
    if len(text) > 1 and Path(text[1:]).is_file():
        hint = f"`rmqadmin msg send {topic} {text}` sends what the file holds; --yes sends this text."
        if call.can_ask:
            raise UsageError(f"-p {text} would send this text, and not the file", hint=hint)
        call.notice(f"the body is the text {text}, as in mqadmin; `rmqadmin msg send {topic} {text}` sends the file")
    return text.encode()


def _send_trace(call: Call, message: Message, result: SendResult, broker_addr: str, cost_ms: int) -> None:
    """Sends the record of a send (``TraceDataEncoder``, type Pub, 5.5.0) to the trace topic."""
    fields = [
        "Pub", call.now_ms() - cost_ms, "DefaultRegion", "TOOLS_PRODUCER", message.topic, result.message_id,
        message.tags or "", " ".join(message.keys), broker_addr, len(message.body), cost_ms, 0,
        result.offset_message_id, "true",
    ]  # fmt: skip
    record = _TRACE_FIELD.join(map(str, fields)) + _TRACE_RECORD
    trace = Message(TRACE_TOPIC, record.encode(), keys=[result.message_id, *message.keys])
    queue, addr = choose_queue(call.admin, TRACE_TOPIC, None, None)
    call.admin.send_message(addr, queue, trace, group=TRACE_GROUP)
