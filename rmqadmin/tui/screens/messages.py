"""The messages of a topic, a queue or a dead-letter topic, newest first, a window of them at a time."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.units import UNKNOWN, at_least, count, moment, size
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.screens.base import TableScreen
from rmqadmin.tui.sources import messages
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.messages import WINDOW_COUNT, Window
from rmqadmin.tui.widgets.row_table import RowTable
from rmqadmin.tui.widgets.rows import Column
from rmqproto import properties as props
from rmqproto.bodies.base import MessageQueue
from rmqproto.names import DLQ_PREFIX


def message_columns(*, of_dead_letters: bool = False) -> list[Column]:
    """What lists of messages show. Dead letters say where they come from and how often they were tried."""
    origin = [
        Column("origin topic", lambda message: message.properties.get(props.RETRY_TOPIC, UNKNOWN)),
        Column("retries", lambda message: message.stored.reconsume_times, form=count, is_number=True),
    ]
    return [
        Column("stored", lambda message: message.stored.store_timestamp_ms, form=moment),
        Column("born", lambda message: message.stored.born_timestamp_ms, form=moment),
        *(origin if of_dead_letters else []),
        Column("keys", lambda message: message.properties.get(props.KEYS, UNKNOWN), width_max=40),
        Column("tag", lambda message: message.properties.get(props.TAGS, UNKNOWN), width_max=24),
        Column("size", lambda message: len(message.stored.body), form=size, is_number=True),
        Column("broker", lambda message: message.broker_name),
        Column("queue", lambda message: message.stored.queue_id, is_number=True),
        Column("offset", lambda message: message.stored.queue_offset, form=count, is_number=True),
        Column("message id", lambda message: message.message_id),
    ]


class MessagesScreen(TableScreen):
    """``[`` and ``]`` go to older and newer messages; the newest window is read again at each refresh."""

    NOUN = ("message", "messages")
    ROWS_AGE = False
    file_name = "messages"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "older", "Older", id="messages.older"),
        Binding("right_square_bracket", "newer", "Newer", id="messages.newer"),
    ]

    def __init__(self, topic: str, queue: MessageQueue | None = None):
        self._topic, self._queue = topic, queue
        super().__init__()
        self.step = topic if queue is None else f"{queue.broker_name} queue {queue.queue_id}"
        self._skipped_count = 0
        self._window: Window | None = None

    def columns(self) -> list[Column]:
        return message_columns(of_dead_letters=self._topic.startswith(DLQ_PREFIX))

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

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        from rmqadmin.tui.screens.message import MessageScreen

        self.app.push_screen(MessageScreen(self.table.part(event.key)))
