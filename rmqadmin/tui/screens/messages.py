"""The messages of a topic, a queue or a dead-letter topic, newest first, a window of them at a time. From 160 columns
on, what is in the message under the cursor stands beside the list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget

from rmqadmin.core.messages.body_text import one_line
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.retry_history import failed_group
from rmqadmin.core.results import Shape
from rmqadmin.core.units import at_least, count, moment
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.screens.marked_messages import REDRIVE_LETTER, MarkedMessagesScreen
from rmqadmin.tui.sources import messages
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.messages import WINDOW_COUNT, Window
from rmqadmin.tui.widgets.columns import MINOR, VITAL, Column
from rmqadmin.tui.widgets.marked_table import MarkedTable
from rmqadmin.tui.widgets.preview import MessagePreview
from rmqadmin.tui.widgets.row_table import RowTable
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props

PREVIEW_SIZE_MAX_BYTES = 600
"""Of a body: what a wide terminal shows, in letters of three bytes."""


def message_columns(*, of_dead_letters: bool = False) -> list[Column]:
    """What lists of messages show. Dead letters say where they come from and how often they were tried."""
    origin = [
        Column(name="retries", value=lambda message: message.stored.reconsume_times, is_number=True, importance=VITAL),
        Column(name="origin_topic", value=lambda message: message.properties.get(props.RETRY_TOPIC)),
    ]
    return [
        Column(name="stored_ms", value=_stored_ms, is_time=True, importance=VITAL),
        Column(name="stored_at", value=_stored_ms, form=moment, importance=MINOR),
        Column(name="born_at", value=lambda message: message.stored.born_timestamp_ms, form=moment, importance=MINOR),
        *(origin if of_dead_letters else []),
        Column(name="keys", value=lambda message: message.properties.get(props.KEYS), width_max=40, importance=VITAL),
        Column(name="tag", value=lambda message: message.properties.get(props.TAGS), width_max=24),
        Column(name="broker_name", importance=MINOR),
        Column(name="queue_id", value=lambda message: message.stored.queue_id, is_number=True),
        Column(name="queue_offset", value=lambda message: message.stored.queue_offset, is_number=True),
        Column(name="size_bytes", value=lambda message: len(message.stored.body), is_number=True, importance=MINOR),
        Column(name="message_id", is_name=True, shape=Shape.ID, importance=MINOR),
        Column(name="body", value=body_preview, shape=Shape.PROSE, importance=VITAL, readable_width=40),
    ]


def body_preview(message: FoundMessage) -> str | None:
    """How a body begins. One that cannot be unpacked says why."""
    try:
        return one_line(message.stored.beginning_of_body(PREVIEW_SIZE_MAX_BYTES)) or None
    except ProtocolError as error:
        return f"({error})"


def _stored_ms(message: FoundMessage) -> int:
    return message.stored.store_timestamp_ms


class MessagesScreen(MarkedMessagesScreen):
    """``[`` and ``]`` go to older and newer messages; the newest window is read again at each refresh."""

    file_name = "messages"
    HORIZONTAL_BREAKPOINTS = [(0, "-one"), (160, "-two")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "older", "Older", id="messages.older"),
        Binding("right_square_bracket", "newer", "Newer", id="messages.newer"),
        Binding("p", "pause", "Pause", show=False, id="messages.pause"),
        Binding("tab", "app.focus_next", "Other pane", show=False, id="messages.pane"),
    ]

    def __init__(self, topic: str, queue: MessageQueue | None = None, *, step: str | None = None):
        self._topic, self._queue = topic, queue
        super().__init__()
        self.preview = MessagePreview()
        self.step = step or (topic if queue is None else f"{queue.broker_name} queue {queue.queue_id}")
        self._skipped_count = 0
        self._window: Window | None = None

    @property
    def topic(self) -> str:
        return self._topic

    def columns(self) -> list[Column]:
        return message_columns(of_dead_letters=self.is_of_dead_letters)

    def make_table(self, **options: Any) -> MarkedTable:
        return MarkedTable(self.columns(), letters_taken=REDRIVE_LETTER if self.is_of_dead_letters else "", **options)

    def body(self) -> Iterable[Widget]:
        with Horizontal(classes="panes"):
            yield self.table
            yield self.preview

    def read_rows(self, client: DashboardClient) -> Found[FoundMessage]:
        self._window = messages.read_window(
            client, self.dashboard.memory, self._topic, self._queue, self._skipped_count
        )
        cut_short = [self._window.cut_short] if self._window.cut_short else []
        found = self._window.found
        return Found(found.rows, found.lacks, [*found.problems, *cut_short])

    def rows_text(self) -> str:
        if self._window is None:
            return super().rows_text()
        total = at_least(count(self._window.total_count)) if self.lacks else count(self._window.total_count)
        behind = f" behind {self._window.skipped_count:,} newer ones" if self._window.skipped_count else ""
        return f"{super().rows_text()} of {total}{behind}"

    def action_older(self) -> None:
        if self._window is not None and self._skipped_count + WINDOW_COUNT < self._window.total_count:
            self._skipped_count += WINDOW_COUNT
            self.action_refresh_now()

    def action_newer(self) -> None:
        self._skipped_count = max(0, self._skipped_count - WINDOW_COUNT)
        self.action_refresh_now()

    def selected(self) -> dict[str, str]:
        key = self.table.cursor_key
        group = failed_group(self._topic)
        return {
            "TOPIC": self._topic,
            **({} if key is None else {"ID": self.table.part(key).message_id}),
            **({} if group is None else {"GROUP": group}),
        }

    # --- the other pane ----------------------------------------------------------------------------------------------

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        self._show_preview()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_preview)

    def shown_again(self) -> None:
        self._show_preview()

    def _show_preview(self) -> None:
        if self.has_class("-two") and not self._suspended and self.is_mounted:
            key = self.table.cursor_key
            self.preview.show(None if key is None else self.table.part(key))
