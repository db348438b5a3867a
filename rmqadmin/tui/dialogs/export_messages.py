"""Writes messages into a file, as `msg export` does. Changes nothing on any server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Footer, Input, Static

from rmqadmin.core.messages.files.whole_file import export_messages
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.units import size
from rmqadmin.tui.dialogs.dialog import PICTURE_KEY, Dialog
from rmqadmin.tui.dialogs.inputs import FileInput
from rmqadmin.tui.literal import literal
from rmqadmin.tui.until_closed import until_closed
from rmqproto.errors import RocketMQError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard import Dashboard

_COMMAND = "tui"
_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class ExportScreen(Dialog[None]):
    """Asks for the name of a file. Does not replace an existing file."""

    DEFAULT_CLASSES = "dialog"
    AUTO_FOCUS = "#file"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close"), PICTURE_KEY]

    def __init__(self, topic: str, messages: Sequence[FoundMessage]):
        super().__init__()
        self._messages = messages
        self._file_name = f"{_NO_FILE_NAME.sub('-', topic).strip('-')}.jsonl"
        self._writing = False

    def compose(self) -> ComposeResult:
        count = counted(len(self._messages), "message")
        with Vertical(classes="dialog--box"):
            yield Static(literal(f"Export {count}"), classes="dialog--title")
            yield Static(literal("to a file: .jsonl, .msgpack or .parquet, for `rmqadmin msg import`"), classes="label")
            yield FileInput(self._file_name, id="file", select_on_focus=False)
            yield Static("", id="said")
        yield Footer(compact=True, show_command_palette=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value.strip() and not self._writing:
            self._writing = True
            self.run_worker(until_closed(self, partial(self._write, event.value.strip())))

    async def _write(self, path: str) -> None:
        notices: list[str] = []
        try:
            size_bytes = await asyncio.to_thread(export_messages, path, self._messages, _COMMAND, notices.append)
        except RocketMQError as error:
            self.query_one("#said", Static).update(literal(str(error), "$text-error"))
        else:
            told = ". ".join([f"exported {len(self._messages):,} to {path}, {size(size_bytes)}", *notices])
            cast("Dashboard", self.app).say(told)
            self.dismiss()
        finally:
            self._writing = False
