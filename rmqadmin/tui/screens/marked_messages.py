"""A list of messages of one topic. Marked ones can be exported or, if they are dead letters, redriven. The detail of a
message tells why it failed, and how its body begins."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.content import Content

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.tui.dialogs.messages import export_dialog
from rmqadmin.tui.dialogs.redrive import RedriveDialog
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.screens.message import MessageScreen
from rmqadmin.tui.screens.message_facts import detail_lines
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.until_closed import begin, until_closed
from rmqadmin.tui.widgets.tables.marked_table import MarkedTable
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.names import DLQ_PREFIX, group_in_topic


class MarkedMessagesScreen(TableScreen):
    NOUN = ("message", "messages")
    ROWS_AGE = False
    HAS_DETAIL = True
    TOLD_IN_DETAIL = frozenset({"body", "origin topic"})
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("redrive"),
        bound("export", shown=True),
    ]
    changing_actions = frozenset({"redrive"})
    table: MarkedTable

    def __init__(self) -> None:
        super().__init__()
        self._detailed: FoundMessage | None = None
        self._detail: list[Content] = []
        """What the detail of that message tells; nothing until its body has been read."""

    def make_table(self, **options: Any) -> MarkedTable:
        return MarkedTable(self.columns(), **options)

    @property
    def topic(self) -> str:
        """The topic of all listed messages; empty if none are listed."""
        raise NotImplementedError

    @property
    def is_of_dead_letters(self) -> bool:
        return self.topic.startswith(DLQ_PREFIX)

    def selected(self) -> dict[str, str]:
        if not self.topic:
            return {}
        message, group = self.table.chosen, group_in_topic(self.topic)
        return {
            "TOPIC": self.topic,
            **({} if message is None else {"ID": message.message_id}),
            **({} if group is None else {"GROUP": group}),
        }

    def detail(self, key: str) -> list[Content]:
        """The body is read in a thread, so that no key waits."""
        message: FoundMessage = self.table.part(key)
        if message is not self._detailed:
            self._detailed, self._detail = message, []
            begin(self, until_closed, self, self._read_detail, group="detail", exclusive=True)
        return self._detail

    async def _read_detail(self) -> None:
        assert self._detailed is not None
        self._detail = await asyncio.to_thread(detail_lines, self._detailed)
        self.show_cut()

    def on_marked_table_marks_changed(self, event: MarkedTable.MarksChanged) -> None:
        self.show_frame()

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        self.app.push_screen(MessageScreen(event.row, self.table))

    def _wanted(self) -> list[Any]:
        """The marked messages, or that of the row under the cursor. Empty, with a notification, if there is neither."""
        if not self.table.marked and self.row_key() is None:
            return []
        return list(self.table.wanted().values())

    def action_export(self) -> None:
        """Exports the marked messages, or the one under the cursor."""
        if messages := self._wanted():
            self.app.push_screen(export_dialog(self.topic, messages, self.dashboard.say))

    def action_redrive(self) -> None:
        """Redrives the marked letters, or the one under the cursor. Marks are removed when it is done."""
        if letters := self._wanted():
            dialog = RedriveDialog(self.topic.removeprefix(DLQ_PREFIX), letters)
            self.app.push_screen(dialog, lambda _: self._redriven_now(dialog.is_done))

    def _redriven_now(self, is_done: bool) -> None:
        if is_done:
            self.table.clear_marks()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "redrive" and not self.is_of_dead_letters:
            return False
        if action == "export" and not self.topic:
            return False
        return super().check_action(action, parameters)
