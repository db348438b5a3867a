"""A topic, a group, a broker and a member: which tabs each has. Most are lists that stand elsewhere, too; others
show the rows of a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqadmin.core.groups.client_status import ProducerRow
from rmqadmin.core.groups.described_groups import GroupBrokerRow
from rmqadmin.core.health.finding import Subject, SubjectKind
from rmqadmin.core.messages.waiting import DelayRow, HalfRow
from rmqadmin.core.results import Row
from rmqadmin.core.topics.described import RouteRow, TopicBrokerRow
from rmqadmin.tui.screens.selected import of_subject
from rmqadmin.tui.screens.table_screen import SELDOM, TableScreen
from rmqadmin.tui.screens.tabs import Tabbed
from rmqadmin.tui.sources import things
from rmqadmin.tui.sources.groups import GroupFacts
from rmqadmin.tui.widgets.tables.columns import Column, columns_of

if TYPE_CHECKING:
    from rmqadmin.core.servers.broker_state import Replica
    from rmqadmin.tui.dashboard import Thing
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.memory.cluster import ClusterMemory
    from rmqadmin.tui.sources.found import Found


class RowsScreen(TableScreen):
    """The rows of a command."""

    ROWS_OPEN = False
    EVERY = SELDOM

    def __init__(
        self,
        row_type: type[Row],
        noun: tuple[str, str],
        read: Callable[[DashboardClient, ClusterMemory], Found[Any]],
        none: str = "",
    ):
        """``noun``: one row, several rows. ``none``: what is said if there is no row."""
        self._row_type, self._read = row_type, read
        self.NOUN, self.NONE = noun, none
        self.file_name = noun[1].replace(" ", "-")
        super().__init__()

    def columns(self) -> list[Column]:
        return columns_of(self._row_type)

    def read_rows(self, client: DashboardClient) -> Found[Any]:
        return self._read(client, self.dashboard.memory)

    def selected(self) -> dict[str, str]:
        subject = self.subject()
        return {} if subject is None else of_subject(subject, self.dashboard.memory.seen)


def tabs_of(thing: Thing) -> Tabbed:
    match thing:
        case str():
            return topic_tabs(thing)
        case (facts, client_id):
            return member_tabs(facts, client_id)
        case GroupFacts():
            return group_tabs(thing)
    return broker_tabs(thing)


def topic_tabs(topic: str) -> Tabbed:
    from rmqadmin.tui.screens.groups import GroupsScreen
    from rmqadmin.tui.screens.topics import QueuesScreen

    def rows(row_type: type[Row], noun: tuple[str, str], read: Any) -> RowsScreen:
        return RowsScreen(row_type, noun, partial(read, topic=topic))

    return Tabbed(topic, Subject(SubjectKind.TOPIC, topic), [
        ("Queues", lambda: QueuesScreen(topic)),
        ("Groups", lambda: GroupsScreen(partial(things.read_groups_of_topic, topic=topic))),
        ("Routes", lambda: rows(RouteRow, ("route", "routes"), things.read_routes)),
        ("Producers", lambda: rows(ProducerRow, ("producer", "producers"), things.read_producers)),
        ("Settings", lambda: rows(TopicBrokerRow, ("broker", "brokers"), things.read_topic_settings)),
    ])  # fmt: skip


def group_tabs(facts: GroupFacts) -> Tabbed:
    from rmqadmin.tui.screens.group import GroupScreen
    from rmqadmin.tui.screens.members import MembersScreen
    from rmqadmin.tui.screens.rebalance import RebalanceScreen

    read = partial(things.read_group_settings, group=facts.group)
    return Tabbed(facts.group, Subject(SubjectKind.GROUP, facts.group), [
        ("Queues", lambda: GroupScreen(facts)),
        ("Members", lambda: MembersScreen(facts)),
        ("Rebalances", lambda: RebalanceScreen(facts)),
        ("Settings", lambda: RowsScreen(GroupBrokerRow, ("broker", "brokers"), read)),
    ])  # fmt: skip


def broker_tabs(replica: Replica) -> Tabbed:
    from rmqadmin.tui.screens.broker import BrokerScreen
    from rmqadmin.tui.screens.broker_sets import BrokerSetsScreen
    from rmqadmin.tui.screens.groups import GroupsScreen
    from rmqadmin.tui.screens.topics import TopicsScreen

    name = replica.broker_name
    return Tabbed(f"{name} {replica.broker_id}", Subject(SubjectKind.BROKER, f"{name}/{replica.broker_id}"), [
        ("State", lambda: BrokerScreen(replica, "status")),
        ("Settings", lambda: BrokerScreen(replica, "config")),
        ("Topics", lambda: TopicsScreen(name)),
        ("Groups", lambda: GroupsScreen(partial(things.read_groups_of_broker, broker_name=name))),
        ("Replicas", lambda: BrokerSetsScreen(name)),
        ("Delays", lambda: delays(replica)),
        ("Half messages", lambda: halves(replica)),
    ])  # fmt: skip


def delays(replica: Replica | None = None) -> RowsScreen:
    """The delay levels and timers of one broker, or of all."""
    none = "no message was ever delayed by a level"
    return RowsScreen(DelayRow, ("delay level", "delay levels"), partial(things.read_delays, replica=replica), none)


def halves(replica: Replica | None = None) -> RowsScreen:
    """The open transactions of one broker, or of all."""
    none = "no transaction is open"
    return RowsScreen(
        HalfRow, ("open transaction", "open transactions"), partial(things.read_halves, replica=replica), none
    )


def member_tabs(facts: GroupFacts, client_id: str) -> Tabbed:
    from rmqadmin.tui.screens.client import ClientScreen
    from rmqadmin.tui.screens.stack import StackScreen

    def facts_about(*kinds: str) -> ClientScreen:
        return ClientScreen(facts, client_id, kinds)

    return Tabbed(client_id, None, [
        ("Queues", lambda: facts_about("problem", "queue", "pop queue", "topic")),
        ("Subscriptions", lambda: facts_about("subscription")),
        ("Properties", lambda: facts_about("property", "user")),
        ("Stacks", lambda: StackScreen(facts, client_id)),
    ])  # fmt: skip
