"""The pane beside a list of messages: why the message under the cursor failed, and the beginning of its body."""

from __future__ import annotations

import asyncio
from itertools import islice

import msgspec
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from rmqadmin.core.messages.body_text import lines_by_kind
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_history import failure_facts
from rmqadmin.core.units import size
from rmqadmin.tui.widgets.detail import fact_lines
from rmqadmin.tui.widgets.texts.lines import Lines
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props

SHOWN_SIZE_MAX_BYTES = 64 * 1024
"""How much of a body is shown. The message's own screen shows all of it."""
LINES_MAX = 2_000


class PreviewText(msgspec.Struct, frozen=True):
    """What the pane shows. ``facts`` are labels and values."""

    facts: list[tuple[str, str]]
    lines: list[str]


def read_preview(message: FoundMessage) -> PreviewText:
    """Reads the preview. Called in a thread."""
    stored, found = message.stored, message.properties
    try:
        body = stored.beginning_of_body(SHOWN_SIZE_MAX_BYTES)
        lines = list(islice(lines_by_kind(body), LINES_MAX + 1))
    except ProtocolError as error:
        body, lines = b"", [f"({error})"]
    if len(lines) > LINES_MAX or len(body) == SHOWN_SIZE_MAX_BYTES:
        lines = [*lines[:LINES_MAX], "… enter shows all of it"]
    facts = [
        ("keys", found.get(props.KEYS, "")),
        ("tag", found.get(props.TAGS, "")),
        ("body", f"{size(len(stored.body))} as stored"),
        *failure_facts(message),
    ]
    return PreviewText([(label, value) for label, value in facts if value], lines)


class MessagePreview(Vertical):
    """Empty until ``show`` is called."""

    def __init__(self) -> None:
        super().__init__(id="preview")
        self._facts = Static("", classes="facts")
        self._body = Lines(is_wrapped=True)
        self._now: FoundMessage | None = None

    def compose(self) -> ComposeResult:
        yield self._facts
        yield self._body

    def show(self, message: FoundMessage | None) -> None:
        """Shows another message, or nothing if None. The body is parsed in a thread, so that no key waits."""
        if message is None or message != self._now:
            self._now = message
            self.run_worker(self._fill(message), group="preview")

    async def _fill(self, wanted: FoundMessage | None) -> None:
        shown = PreviewText([], []) if wanted is None else await asyncio.to_thread(read_preview, wanted)
        if wanted is not self._now:  # the cursor has moved on
            return
        self._facts.update(Content("\n").join(fact_lines(shown.facts)))
        self._body.show(shown.lines)
