"""The dialogs that send a message, and that write messages into a file, as `sendMessage` and `msg export` do."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence

from rmqadmin.cli.prompt.line import parse_line
from rmqadmin.core.files import expanded
from rmqadmin.core.messages.bodies_in import STANDARD_INPUT, whole
from rmqadmin.core.messages.files.formats import export_messages
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.sending import choose_queue, say_if_new, send_one
from rmqadmin.core.results import Result
from rmqadmin.core.units import duration, size
from rmqadmin.tui.dialogs.change import Ask, ChangeDialog
from rmqadmin.tui.dialogs.dialog import LineDialog
from rmqadmin.tui.dialogs.fields import FormField
from rmqclient.message import Message
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.times import parse_duration
from rmqproto.wording import counted

_COMMAND = "tui"
_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def send_message(topic: str) -> ChangeDialog:
    """The queue is chosen by the time of the preview, so that the message goes where the preview says."""

    def act(ask: Ask) -> Result:
        said, body = ask.said, ask.said["body"]
        content = body.encode() if body == STANDARD_INPUT else whole(body)
        message = Message(
            topic, content, tags=said["tag"], keys=(said["keys"] or "").split(),
            properties=said["properties"] or {}, delay_s=said["delay"] or 0.0,
        )  # fmt: skip
        say_if_new(ask.admin, topic, ask.notice, dry_run=ask.dry_run)
        broker_name, queue_id = said["queue"] or (None, None)
        place = choose_queue(ask.admin, topic, broker_name, queue_id, random.Random(ask.now_ms).choice)
        sent = send_one(ask.admin, place, message, ask.notice, dry_run=ask.dry_run)
        later = f", delivered in {duration(message.delay_s * 1000)}" if message.delay_s else ""
        ask.notice(f"{'would send' if ask.dry_run else 'sent'} {counted(len(content), 'byte')}{later}")
        return sent

    fields = [
        FormField(name="body", label="body", hint="text, or @FILE", is_required=True, is_verbatim=True),
        FormField(name="tag", label="tag"),
        FormField(name="keys", label="keys", hint="blanks separate them"),
        FormField(name="properties", label="properties", hint="NAME=VALUE 'NAME=A B'", parse=_properties),
        FormField(name="delay", label="delay", example="none", hint="30s, 2h: comes then", parse=_delay_s),
        FormField(name="queue", label="queue", example="any", hint="BROKER or BROKER/QUEUE_ID", parse=_queue),
    ]
    return ChangeDialog(
        f"Send a message to the topic {topic}", act, name=None, fields=fields,
        about="Every group that reads the topic gets it, and it cannot be taken back.", lost="the message is sent",
    )  # fmt: skip


def _properties(text: str) -> dict[str, str]:
    """Blanks separate properties, and quotes keep blanks, as in a command line."""
    found = {}
    for word in parse_line(text).texts():
        name, separator, value = word.partition("=")
        if not name or not separator:
            raise UsageError(f"{word} must be NAME=VALUE")
        found[name] = value
    return found


def _delay_s(text: str) -> float:
    delay_ms = parse_duration(text)
    if delay_ms is None or delay_ms < 0:
        raise UsageError(f"{text} must be a duration, for example 30s or 2h")
    return delay_ms / 1000


def _queue(text: str) -> tuple[str, int | None]:
    """The broker's name and the queue id, None for any."""
    broker_name, separator, queue_id = text.rpartition("/")
    if not separator:
        return text, None
    if not broker_name or not queue_id.isdecimal():
        raise UsageError(f"{text} must be BROKER or BROKER/QUEUE_ID")
    return broker_name, int(queue_id)


def export_dialog(topic: str, messages: Sequence[FoundMessage], told: Callable[[str], None]) -> LineDialog:
    """Asks for the name of a file. An existing one is not replaced. ``told`` takes the outcome."""

    async def write(path: str) -> str | None:
        notices: list[str] = []
        try:
            full = str(expanded(path))
            size_bytes = await asyncio.to_thread(export_messages, full, messages, _COMMAND, notices.append)
        except RocketMQError as error:
            return str(error)
        told(". ".join([f"exported {len(messages):,} to {path}, {size(size_bytes)}", *notices]))
        return None

    about = "to a file: .jsonl, .msgpack or .parquet, for `rmqadmin msg import`"
    name = f"{_NO_FILE_NAME.sub('-', topic).strip('-')}.jsonl"
    return LineDialog(f"Export {counted(len(messages), 'message')}", about, write, name)
