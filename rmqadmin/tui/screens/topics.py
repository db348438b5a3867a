"""Topics: what they permit, how many queues they have, what comes in and goes out; and a topic's queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.binding import Binding, BindingType

from rmqadmin.core.topics.perms import READ_WRITE
from rmqadmin.core.topics.topic_status import QueueRow
from rmqadmin.core.units import at_least, count, moment, perm, rate
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.screens.base import TableScreen
from rmqadmin.tui.sources import topics
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.topics import TopicFacts, TopicNumbers
from rmqadmin.tui.widgets.row_table import RowTable
from rmqadmin.tui.widgets.rows import Column
from rmqproto.bodies.base import MessageQueue

_NUMBERS = TableScreen.NUMBERS


def _perm(facts: TopicFacts) -> str:
    return "differs" if facts.has_unequal_perms else perm(facts.perm)


def _perm_mark(facts: TopicFacts) -> str | None:
    """A topic that cannot be read or written is worth a look."""
    return (
        "warn"
        if facts.has_unequal_perms or (facts.perm is not None and facts.perm & READ_WRITE != READ_WRITE)
        else None
    )


class TopicsScreen(TableScreen):
    """All topics, or those of one broker."""

    NOUN = ("topic", "topics")
    step = "Topics"
    file_name = "topics"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("p", "perm", "Permissions", id="topics.perm")]
    changing_actions = frozenset({"perm"})

    def columns(self) -> list[Column]:
        return [
            Column("topic", lambda facts: facts.topic),
            Column("kind", lambda facts: facts.kind),
            Column("perm", _perm, mark=_perm_mark),
            Column("read queues", lambda facts: facts.read_queue_nums, form=count, is_number=True),
            Column("write queues", lambda facts: facts.write_queue_nums, form=count, is_number=True),
            Column("brokers", lambda facts: len(facts.configs), is_number=True),
            Column(
                "messages", lambda numbers: numbers.message_count, _NUMBERS, form=count, is_number=True, is_sum=True
            ),
            Column("in/s", lambda numbers: numbers.in_tps, _NUMBERS, form=rate, is_number=True, is_sum=True),
            Column("out/s", lambda numbers: numbers.out_tps, _NUMBERS, form=rate, is_number=True, is_sum=True),
            Column("newest message", lambda numbers: numbers.error or moment(numbers.last_updated_ms), _NUMBERS),
        ]

    def __init__(self, broker_name: str | None = None):
        super().__init__()
        self._broker_name = broker_name
        if broker_name is not None:
            self.step = broker_name

    def read_rows(self, client: DashboardClient) -> Found[TopicFacts]:
        found = topics.read_topics(client, self.dashboard.memory)
        if self._broker_name is None:
            return found
        mine = {name: facts for name, facts in found.rows.items() if self._broker_name in facts.configs}
        return Found(mine, found.lacks)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, TopicFacts]) -> Mapping[str, TopicNumbers]:
        return topics.read_numbers(client, self.dashboard.memory, rows)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        self.app.push_screen(QueuesScreen(event.key))

    def action_perm(self) -> None:
        from rmqadmin.tui.dialogs.perm import PermScreen

        key = self.table.cursor_key
        facts: TopicFacts | None = self.table.part(key) if key is not None else None
        if facts is None or not facts.masters:
            self.dashboard.say("no broker says what this topic permits", is_error=True)
            return
        self.app.push_screen(PermScreen(facts), lambda _: self.action_refresh_now())


class QueuesScreen(TableScreen):
    """A topic's queues; Enter shows the messages of one, ``m`` those of all."""

    NOUN = ("queue", "queues")
    KEEPS_LOST_ROWS = True
    file_name = "queues"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("m", "messages", "Messages", id="queues.messages")]

    def columns(self) -> list[Column]:
        return [
            Column("broker", lambda row: row.broker_name),
            Column("queue", lambda row: row.queue_id, is_number=True),
            Column("min offset", lambda row: row.min_offset, form=count, is_number=True),
            Column("max offset", lambda row: row.max_offset, form=count, is_number=True),
            Column("messages", lambda row: row.message_count, form=count, is_number=True),
            Column("newest message", lambda row: row.last_updated_ms, form=moment),
        ]

    def __init__(self, topic: str):
        super().__init__()
        self.step = self._topic = topic
        self._in_tps: float | None = None

    def read_rows(self, client: DashboardClient) -> Found[QueueRow]:
        queues = topics.read_queues(client, self.dashboard.memory, self._topic)
        self._in_tps = queues.in_tps
        return queues.found

    def rows_text(self) -> str:
        if not self.is_known:
            return super().rows_text()
        counts = [self.table.part(key).message_count for key in self.table.row_keys() if self._is_counted(key)]
        total, in_tps = count(sum(counts)), rate(self._in_tps)
        if self.lacks:
            total, in_tps = at_least(total), at_least(in_tps)
        return f"{super().rows_text()}, {total} messages, {in_tps} in/s"

    def _is_counted(self, key: str) -> bool:
        return self.table.part(key).broker_name not in self.lacks

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        from rmqadmin.tui.screens.messages import MessagesScreen

        row: QueueRow = self.table.part(event.key)
        self.app.push_screen(MessagesScreen(self._topic, MessageQueue(self._topic, row.broker_name, row.queue_id)))

    def action_messages(self) -> None:
        from rmqadmin.tui.screens.messages import MessagesScreen

        self.app.push_screen(MessagesScreen(self._topic))
