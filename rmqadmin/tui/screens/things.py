"""A topic, a group, a broker and a member: which tabs each has; and the lists that only have a place after `:`. Most
are lists that stand elsewhere, too; others show the rows of a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rmqadmin.core.audit_trail import AuditRow
from rmqadmin.core.groups.client_status import ProducerRow
from rmqadmin.core.groups.described_groups import GroupBrokerRow
from rmqadmin.core.health.facts import NamesrvFacts
from rmqadmin.core.health.finding import Subject, SubjectKind
from rmqadmin.core.messages.waiting import DelayRow, HalfRow
from rmqadmin.core.results import Row, Shape
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.topics.described import RouteRow, TopicBrokerRow
from rmqadmin.tui.dashboard import Thing
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.memory.alert_book import AlertRow, condition_text
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.access import AccessScreen
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.screens.brokers import BrokerScreen
from rmqadmin.tui.screens.group import GroupScreen
from rmqadmin.tui.screens.groups import GroupsScreen
from rmqadmin.tui.screens.maps import BrokerSetsScreen, RebalanceScreen
from rmqadmin.tui.screens.members import ClientScreen, ClientsScreen, MembersScreen, StackScreen
from rmqadmin.tui.screens.row_parts import of_subject, state_column
from rmqadmin.tui.screens.table_screen import SELDOM, TableScreen
from rmqadmin.tui.screens.tabs import Tabbed, TabScreen
from rmqadmin.tui.screens.topics import QueuesScreen, TopicsScreen
from rmqadmin.tui.sources import pulse, things
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.groups import GroupFacts
from rmqadmin.tui.widgets.tables.columns import MINOR, VITAL, Column, columns_of


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


def screen_of(thing: Thing, tab: int = 1) -> TabScreen:
    """One of the tabs of a thing."""
    match thing:
        case str():
            tabs = _topic_tabs(thing)
        case (facts, client_id):
            tabs = _member_tabs(facts, client_id)
        case GroupFacts():
            tabs = _group_tabs(thing)
        case _:
            tabs = _broker_tabs(thing)
    return tabs.open(tab)


def _topic_tabs(topic: str) -> Tabbed:
    def rows(row_type: type[Row], noun: tuple[str, str], read: Any) -> RowsScreen:
        return RowsScreen(row_type, noun, partial(read, topic=topic))

    return Tabbed(topic, Subject(SubjectKind.TOPIC, topic), [
        ("Queues", lambda: QueuesScreen(topic)),
        ("Groups", lambda: GroupsScreen(partial(things.read_groups_of_topic, topic=topic))),
        ("Routes", lambda: rows(RouteRow, ("route", "routes"), things.read_routes)),
        ("Producers", lambda: rows(ProducerRow, ("producer", "producers"), things.read_producers)),
        ("Settings", lambda: rows(TopicBrokerRow, ("broker", "brokers"), things.read_topic_settings)),
    ])  # fmt: skip


def _group_tabs(facts: GroupFacts) -> Tabbed:
    read = partial(things.read_group_settings, group=facts.group)
    return Tabbed(facts.group, Subject(SubjectKind.GROUP, facts.group), [
        ("Queues", lambda: GroupScreen(facts)),
        ("Members", lambda: MembersScreen(facts)),
        ("Rebalances", lambda: RebalanceScreen(facts)),
        ("Settings", lambda: RowsScreen(GroupBrokerRow, ("broker", "brokers"), read)),
    ])  # fmt: skip


def _broker_tabs(replica: Replica) -> Tabbed:
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


def _member_tabs(facts: GroupFacts, client_id: str) -> Tabbed:
    def facts_about(*kinds: str) -> ClientScreen:
        return ClientScreen(facts, client_id, kinds)

    return Tabbed(client_id, None, [
        ("Queues", lambda: facts_about("problem", "queue", "pop queue", "topic")),
        ("Subscriptions", lambda: facts_about("subscription")),
        ("Properties", lambda: facts_about("property", "user")),
        ("Stacks", lambda: StackScreen(facts, client_id)),
    ])  # fmt: skip


class NameServersScreen(TableScreen):
    NOUN = ("name server", "name servers")
    ROWS_OPEN = False
    JUDGED_KIND = SubjectKind.NAME_SERVER
    file_name = "name-servers"

    def columns(self) -> list[Column]:
        def broker_count(one: NamesrvFacts) -> int | None:
            return None if one.cluster is None else len(one.cluster.broker_addr_table)

        return [
            Column(name="addr", words="name server", importance=VITAL),
            Column(name="broker_count", value=broker_count, is_number=True, is_unknown=lambda one: one.cluster is None),
            state_column(),
        ]

    def read_rows(self, client: DashboardClient) -> Found[NamesrvFacts]:
        return Found({one.addr: one for one in pulse.read_name_servers(client, self.dashboard.memory)})


def _alert_mark(row: AlertRow) -> Mark:
    if row.text is None:
        return Mark.DIM
    return Mark.BAD if row.rule.is_critical else Mark.WARN


class AlertsScreen(TableScreen):
    """The user's rules, as the pulse has looked at them: nothing is asked."""

    NOUN = ("alert", "alerts")
    NONE = "no alert is written in alerts.toml"
    ROWS_OPEN = False
    ROWS_AGE = False
    file_name = "alerts"

    def columns(self) -> list[Column]:
        return [
            Column(name="number", words="alert", is_number=True, importance=VITAL),
            Column(name="about", value=lambda row: f"{row.rule.about} {row.rule.pattern}", importance=MINOR),
            Column(name="when", value=lambda row: condition_text(row.rule), shape=Shape.PROSE, importance=VITAL),
            Column(name="name", words="is on for", importance=VITAL, is_name=True),
            Column(name="since_ms", is_time=True),
            Column(name="text", words="now", value=lambda row: row.text or "off", mark=_alert_mark, shape=Shape.PROSE,
                   importance=VITAL),
        ]  # fmt: skip

    async def _refresh(self, feed: Feed) -> None:
        rows = self.dashboard.pulse.alerts.rows()
        self.table.set_rows((f"{row.number} {row.name}", row) for row in rows)


LISTS: dict[str, tuple[str, Callable[[], DashboardScreen]]] = {
    "alerts": ("Alerts", AlertsScreen),
    "clients": ("Clients", ClientsScreen),
    "delays": ("Delays", delays),
    "half": ("Half messages", halves),
    "log": ("Log", partial(
        RowsScreen, AuditRow, ("change", "changes"), things.read_log, "nothing was changed from this machine",
    )),
    "nameservers": ("Name servers", NameServersScreen),
    "producers": ("Producers", partial(
        RowsScreen, ProducerRow, ("producer", "producers"), things.read_producers, "no producer is online",
    )),
    "replicas": ("Replicas", BrokerSetsScreen),
    "users": ("Users", AccessScreen),
}  # fmt: skip
"""By the word of the place: the screen's name in the path, and what makes it."""


def list_of(word: str) -> DashboardScreen:
    step, make = LISTS[word]
    screen = make()
    screen.step = step
    return screen
