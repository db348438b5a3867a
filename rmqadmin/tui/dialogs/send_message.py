"""The dialog of `sendMessage`: sends one message to a topic."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqadmin.cli.prompt.line import parse_line
from rmqadmin.core.messages.bodies_in import STANDARD_INPUT, whole
from rmqadmin.core.messages.sending import choose_queue, send_one
from rmqadmin.core.messages.sent_rows import say_if_new
from rmqadmin.core.results import Result
from rmqadmin.core.units import duration
from rmqadmin.tui.dialogs.change import Occasion
from rmqadmin.tui.dialogs.form import FormField, FormScreen
from rmqclient.message import Message
from rmqproto.errors import UsageError
from rmqproto.times import parse_duration
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class SendMessageScreen(FormScreen):
    """Chooses the queue by the time of the preview, so that the message goes where the preview says."""

    empty = "is left out"

    def __init__(self, topic: str):
        super().__init__(f"Send a message to the topic {topic}", None)
        self._topic = topic

    def fields(self) -> Sequence[FormField]:
        return [
            FormField(name="body", label="body", hint="text, or @FILE", is_verbatim=True),
            FormField(name="tag", label="tag"),
            FormField(name="keys", label="keys", hint="blanks separate them"),
            FormField(name="properties", label="properties", hint="NAME=VALUE 'NAME=A B'"),
            FormField(name="delay", label="delay", example="none", hint="30s, 2h: comes then"),
            FormField(name="queue", label="queue", example="any", hint="BROKER or BROKER/QUEUE_ID"),
        ]

    def words(self) -> str:
        return f"Every group that reads the topic gets it, and it cannot be taken back. {super().words()}"

    def change(self, admin: AdminClient, occasion: Occasion) -> Result:
        body = self.required("body")
        content = body.encode() if body == STANDARD_INPUT else whole(body)
        message = Message(
            self._topic, content, tags=self.said("tag"), keys=(self.said("keys") or "").split(),
            properties=self._said_properties(), delay_s=self._said_delay_s(),
        )  # fmt: skip
        say_if_new(admin, self._topic, occasion.notice, dry_run=occasion.dry_run)
        place = choose_queue(admin, self._topic, *self._said_queue(), random.Random(occasion.now_ms).choice)
        sent = send_one(admin, place, message, occasion.notice, dry_run=occasion.dry_run)
        later = f", delivered in {duration(message.delay_s * 1000)}" if message.delay_s else ""
        occasion.notice(f"{'would send' if occasion.dry_run else 'sent'} {counted(len(content), 'byte')}{later}")
        return sent

    def _said_properties(self) -> dict[str, str]:
        """Blanks separate properties, and quotes keep blanks, as in a command line."""
        found = {}
        for text in parse_line(self.said("properties") or "").texts():
            name, separator, value = text.partition("=")
            if not name or not separator:
                raise UsageError(f"properties: {text} must be NAME=VALUE")
            found[name] = value
        return found

    def _said_delay_s(self) -> float:
        said = self.said("delay")
        delay_ms = 0 if said is None else parse_duration(said)
        if delay_ms is None or delay_ms < 0:
            raise UsageError(f"delay: {said} must be a duration, for example 30s or 2h")
        return delay_ms / 1000

    def _said_queue(self) -> tuple[str | None, int | None]:
        """The broker's name and the queue id, None for any."""
        said = self.said("queue")
        if said is None:
            return None, None
        broker_name, separator, queue_id = said.rpartition("/")
        if not separator:
            return said, None
        if not broker_name or not queue_id.isdecimal():
            raise UsageError(f"queue: {said} must be BROKER or BROKER/QUEUE_ID")
        return broker_name, int(queue_id)
