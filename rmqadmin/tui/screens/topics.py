"""Topics: their permissions, numbers of queues and rates in and out; and the queues of one topic."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.content import Content

from rmqadmin.core.health.finding import Finding, SubjectKind
from rmqadmin.core.health.topic_checks import topic_row_findings
from rmqadmin.core.topics.described import QueueRow
from rmqadmin.core.units import at_least, count, perm, queue_nums, rate
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.dialogs.messages import send_message
from rmqadmin.tui.dialogs.topics import delete_topic, edit_topic, new_topic, topic_perm
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.memory.readings import RowReading
from rmqadmin.tui.screens.messages import MessagesScreen
from rmqadmin.tui.screens.row_parts import RowState, line_column, of_queue, state_column
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.sources import topics
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.topics import MADE_BY_BROKERS, TopicFacts, TopicNumbers
from rmqadmin.tui.widgets.detail import part_lines
from rmqadmin.tui.widgets.tables.columns import BASE, MINOR, NAME_READABLE, NUMBERS, VITAL, Column, columns_of
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.bodies.base import MessageQueue


def _queue_nums(facts: TopicFacts) -> tuple[int, int] | None:
    read, write = facts.read_queue_nums, facts.write_queue_nums
    return None if read is None or write is None else (read, write)


_UNHEARD = attrgetter("unheard")
"""Brokers that did not answer and may also have queues of the topic."""


class TopicsScreen(TableScreen):
    """All topics, or those of one broker."""

    NOUN = ("topic", "topics")
    step = "Topics"
    file_name = "topics"
    REMEMBERS_FILTER = True
    SAMPLED, LINES = SubjectKind.TOPIC, {"in_tps": "in/s", "out_tps": "out/s"}
    HAS_DETAIL = True
    JUDGED_KIND, JUDGED_BY = SubjectKind.TOPIC, (BASE, NUMBERS)
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("messages"),
        bound("send"),
        bound("edit"),
        bound("permissions", word="Perm"),
        bound("new"),
        bound("delete"),
        bound("plot"),
        bound("system", "app.system"),
    ]
    changing_actions = frozenset({"permissions", "new", "edit", "send", "delete"})

    def columns(self) -> list[Column]:
        def total(name: str, **how: Any) -> Column:
            return Column(name=name, is_number=True, is_sum=True, **how)

        return [
            Column(name="topic", importance=VITAL, readable_width=NAME_READABLE),
            Column(name="kind", value=lambda facts: facts.kind or None, importance=MINOR),
            Column(
                name="perm", value=lambda facts: "differs" if facts.has_unequal_perms else perm(facts.perm), form=str
            ),
            total("queues", value=_queue_nums, form=queue_nums, lacks=_UNHEARD),
            total("brokers", value=lambda facts: len(facts.configs), lacks=_UNHEARD, importance=MINOR),
            total("message_count", part=NUMBERS, importance=VITAL),
            total("in_tps", part=NUMBERS),
            line_column("in_tps"),
            total("out_tps", part=NUMBERS),
            line_column("out_tps"),
            Column(name="last_updated_ms", part=NUMBERS, is_time=True, importance=MINOR),
            state_column(),
        ]

    def row_reading(self, numbers: TopicNumbers) -> RowReading:
        return topics.topic_reading(numbers)

    def state_of(
        self, key: str, facts: TopicFacts, numbers: TopicNumbers | None, wrong: tuple[Finding, ...]
    ) -> RowState:
        if self.is_system(facts):
            return RowState(wrong)
        numbers = numbers or TopicNumbers()
        is_read = not (facts.waits_for_groups and numbers.message_count and numbers.group_count == 0)
        found = topic_row_findings(facts.topic, facts.configs, numbers.unread_count, is_read=is_read)
        return RowState((*wrong, *found))

    def detail(self, key: str) -> list[Content]:
        """The queues on each broker, and the groups that are behind in them, as far as the pulse knows."""
        facts: TopicFacts = self.table.part(key)
        queues = [
            (name, str(config.write_queue_nums), str(config.read_queue_nums), perm(config.perm))
            for name, config in sorted(facts.configs.items())
        ]
        waiting = self.dashboard.pulse.groups.waiting_of(facts.topic)
        groups = [(group, count(lag_count)) for group, lag_count in waiting.items()]
        return [
            *part_lines("queues", queues, ("write", "read", "perm")),
            *part_lines("groups behind", groups, ("lag",)),
        ]

    @staticmethod
    def is_system(row: TopicFacts) -> bool:
        return row.kind in MADE_BY_BROKERS

    def __init__(self, broker_name: str | None = None):
        super().__init__()
        self._broker_name = broker_name

    def selected(self) -> dict[str, str]:
        facts: TopicFacts | None = self.table.chosen
        return {} if facts is None else {"TOPIC": facts.topic}

    def read_rows(self, client: DashboardClient) -> Found[TopicFacts]:
        found = topics.read_topics(client, self.dashboard.memory)
        if self._broker_name is None:
            return found
        mine = {name: facts for name, facts in found.rows.items() if self._broker_name in facts.configs}
        return Found(mine, found.lacks)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, TopicFacts]) -> Mapping[str, TopicNumbers]:
        return topics.read_numbers(client, self.dashboard.memory, rows)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        self.dashboard.open_thing(event.key)

    def action_permissions(self) -> None:
        if (facts := self.known_row()) is not None:
            self.open_change(topic_perm(facts))

    def action_messages(self) -> None:
        if (facts := self.row()) is not None:
            self.app.push_screen(MessagesScreen(facts.topic))

    def action_new(self) -> None:
        memory = self.dashboard.memory
        mine = [broker for broker in memory.brokers if broker.broker_name == self._broker_name]
        on = mine[0].selected_addr() if mine else next(iter(memory.clusters), None)
        self.open_change(new_topic(on or ""))

    def action_edit(self) -> None:
        if (facts := self.known_row()) is not None:
            self.open_change(edit_topic(facts))

    def action_send(self) -> None:
        if (facts := self.known_row()) is not None:
            self.open_change(send_message(facts.topic))

    def action_delete(self) -> None:
        """Deletes a topic, also one that only the nameserver knows."""
        if (facts := self.row()) is not None:
            mine = sorted({broker.cluster for broker in facts.brokers if broker.cluster is not None})
            self.open_change(delete_topic(facts, mine or self.dashboard.memory.clusters))


class QueuesScreen(TableScreen):
    """A topic's queues. Enter shows the messages of one, ``m`` those of all."""

    NOUN = ("queue", "queues")
    KEEPS_LOST_ROWS = True
    file_name = "queues"
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("messages"),
        bound("send"),
    ]
    changing_actions = frozenset({"send"})

    def columns(self) -> list[Column]:
        return columns_of(QueueRow)

    def __init__(self, topic: str):
        super().__init__()
        self._topic = topic
        self._in_tps: float | None = None

    def selected(self) -> dict[str, str]:
        row: QueueRow | None = self.table.chosen
        if row is None:
            return {"TOPIC": self._topic}
        return of_queue(MessageQueue(self._topic, row.broker_name, row.queue_id))

    def read_rows(self, client: DashboardClient) -> Found[QueueRow]:
        queues = topics.read_queues(client, self.dashboard.memory, self._topic)
        self._in_tps = queues.in_tps
        return queues.found

    def rows_text(self) -> str:
        if not self.is_known:
            return super().rows_text()
        rows: list[QueueRow] = [self.table.part(key) for key in self.table.row_keys()]
        total = count(sum(row.message_count for row in rows if row.broker_name not in self.lacks))
        in_tps = rate(self._in_tps)
        if self.lacks:
            total, in_tps = at_least(total), at_least(in_tps)
        return f"{super().rows_text()}, {total} messages, {in_tps} in/s"

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        row: QueueRow = event.row
        self.app.push_screen(MessagesScreen(self._topic, MessageQueue(self._topic, row.broker_name, row.queue_id)))

    def action_messages(self) -> None:
        self.app.push_screen(MessagesScreen(self._topic, step="messages"))

    def action_send(self) -> None:
        self.open_change(send_message(self._topic))
