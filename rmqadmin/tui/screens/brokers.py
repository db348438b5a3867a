"""All brokers: whether each serves, its rates and its disk; and one of them: everything that it says about its state,
part by part, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
from textual.binding import BindingType

from rmqadmin.core.health.broker_checks import disk_grade
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.results import Shape
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.tables.marks import BY_GRADE, Mark
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.dialogs.brokers import broker_property, write_perm
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.memory.cluster import SeenBroker
from rmqadmin.tui.memory.readings import RowReading
from rmqadmin.tui.screens.access import AccessScreen
from rmqadmin.tui.screens.maps import BrokerSetsScreen
from rmqadmin.tui.screens.row_parts import RowState, line_column, of_replica, state_column
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.sources import brokers
from rmqadmin.tui.sources.brokers import BrokerState, Setting
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.widgets.tables.columns import MINOR, NUMBERS, VITAL, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable


class BrokerHealth(msgspec.Struct, frozen=True):
    """Whether a broker serves. ``state`` is None if the broker is gone."""

    broker: SeenBroker
    state: BrokerState | None
    now_ms: int

    def text(self) -> str:
        if self.state is None:
            from rmqadmin.tui.memory.cluster import gone_text

            return gone_text(self.broker.gone_since_ms or 0, self.now_ms)
        row = self.state.row
        if row.error is not None or row.active is None:
            return row.error or ("slave" if row.broker_id else "answers")
        return "active" if row.active else "not active"

    @property
    def finding(self) -> Finding | None:
        """That it does not serve, as it was just asked."""
        if self.state is not None and self.state.row.error is None and self.state.row.active is not False:
            return None
        subject = Subject(SubjectKind.BROKER, self.broker.replica.broker_name)
        return Finding(Grade.ERROR, Check.REACHABLE, subject, self.text())


_HEALTH = "health"
"""The part that says whether a broker serves. It is always refreshed, while the numbers of a broker that does not serve
are kept."""


def _number(name: str, **how: Any) -> Column:
    """A number that a broker which does not answer has not told."""
    return Column(
        name=name, part=NUMBERS, value=attrgetter(f"row.{name}"), is_number=True,
        is_unknown=lambda state: state.row.error is not None, **how,
    )  # fmt: skip


def _disk_mark(state: BrokerState) -> Mark | None:
    grade = None if state.row.disk_ratio is None else disk_grade(state.row.disk_ratio * 100, state.disk_limits)
    return None if grade is None else BY_GRADE[grade]


class BrokersScreen(TableScreen):
    NOUN = ("broker", "brokers")
    step = "Brokers"
    file_name = "cluster"
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("tab_3", "topics", "Topics", shown=True),
        bound("tab_5", "replicas", "Replicas", shown=True),
        bound("permissions", word="Users"),
        bound("write_perm"),
        bound("delete", "forget", "Forget", shown=False),
        bound("plot"),
    ]
    SAMPLED, LINES = SubjectKind.BROKER, {"in_tps": "in/s", "out_tps": "out/s"}
    HAS_DETAIL = True
    JUDGED_KIND, JUDGED_BY = SubjectKind.BROKER, (_HEALTH,)
    changing_actions = frozenset({"write_perm"})

    def columns(self) -> list[Column]:
        return [
            Column(name="broker_name", value=attrgetter("replica.broker_name"), importance=VITAL),
            Column(name="broker_id", value=attrgetter("replica.broker_id"), is_number=True, importance=VITAL),
            Column(name="cluster", value=attrgetter("replica.cluster"), importance=MINOR),
            Column(name="broker_addr", value=attrgetter("replica.broker_addr"), importance=MINOR),
            Column(name="version", part=NUMBERS, value=attrgetter("row.version"), importance=MINOR),
            _number("in_tps"),
            line_column("in_tps"),
            _number("out_tps"),
            line_column("out_tps"),
            Column(name="in_today", part=NUMBERS, is_number=True, importance=MINOR),
            Column(name="out_today", part=NUMBERS, is_number=True, importance=MINOR),
            _number("disk_ratio", mark=_disk_mark, importance=VITAL),
            Column(
                name="earliest_message_ms", part=NUMBERS, value=attrgetter("row.earliest_message_ms"), is_time=True,
                importance=MINOR,
            ),
            state_column(40),
        ]  # fmt: skip

    def state_of(self, key: str, health: BrokerHealth | None, wrong: tuple[Finding, ...]) -> RowState:
        """Whether it serves is what it was just asked; the pulse asked some seconds ago."""
        now = None if health is None else health.finding
        others = [one for one in wrong if health is None or one.check not in (Check.REACHABLE, Check.SERVING)]
        found = (*([now] if now else ()), *others)
        return RowState(found, None if health is None else health.text(), told_beside=Check.DISK)

    def row_reading(self, numbers: BrokerState) -> RowReading:
        row = numbers.row
        return RowReading({"in_tps": row.in_tps, "out_tps": row.out_tps, "disk_ratio": row.disk_ratio})

    def read_rows(self, client: DashboardClient) -> Found[SeenBroker]:
        return brokers.read_brokers(client, self.dashboard.memory)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, SeenBroker]) -> Mapping[str, BrokerState]:
        return brokers.read_states(client, self.dashboard.memory, rows)

    def failure_of(self, numbers: BrokerState) -> str | None:
        """Why the broker does not answer. Its state says so, not its numbers."""
        return numbers.row.error

    def numbers_known(self, numbers: Mapping[str, BrokerState]) -> None:
        now_ms = self.now_ms()
        found = {}
        for key in self.table.row_keys():
            seen: SeenBroker = self.table.part(key)
            if key in numbers or seen.gone_since_ms is not None:
                found[key] = BrokerHealth(seen, numbers.get(key), now_ms)
        self.table.put(_HEALTH, found)
        self.judge(found)

    def rows_text(self) -> str:
        broker_keys = self.table.row_keys()
        gone_count = sum(self.table.part(key).gone_since_ms is not None for key in broker_keys)
        return super().rows_text() + (f", {gone_count} gone" if gone_count else "")

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        self.dashboard.open_thing(event.row.replica)

    def selected(self) -> dict[str, str]:
        seen: SeenBroker | None = self.table.chosen
        return {} if seen is None else of_replica(seen.replica)

    def action_plot(self) -> None:
        """Needs no reader: the pulse reads every broker, also one that was gone and is back."""
        if (key := self.row_key()) is not None:
            self.dashboard.plot(Subject(SubjectKind.BROKER, key), None)

    def action_topics(self) -> None:
        if (seen := self.row()) is not None:
            self.dashboard.open_thing(seen.replica, 3)

    def action_permissions(self) -> None:
        if (seen := self.row()) is not None:
            self.app.push_screen(AccessScreen(seen.replica))

    def action_replicas(self) -> None:
        self.app.push_screen(BrokerSetsScreen())

    def action_write_perm(self) -> None:
        if (seen := self.row()) is not None:
            self.open_change(write_perm(seen.replica.broker_name))

    def action_forget(self) -> None:
        """Removes a broker that is gone for good from the list."""
        if (key := self.row_key()) is None:
            return
        if self.table.part(key).gone_since_ms is None:
            self.dashboard.say("only a broker that is gone can be forgotten", is_error=True)
            return
        self.dashboard.memory.forget(key)
        self.dashboard.say(f"{key} is no longer listed here; nothing was changed on any server")
        self.action_refresh_now()


class BrokerScreen(TableScreen):
    NOUN = ("value", "values")
    ROWS_OPEN = False
    file_name = "broker"
    BINDINGS: ClassVar[list[BindingType]] = [bound("edit")]
    changing_actions = frozenset({"edit"})

    def columns(self) -> list[Column]:
        return [
            *([Column(name="group", words="of", importance=MINOR)] if self._kind == "status" else []),
            Column(name="name", value=lambda setting: setting.row.name, is_name=True, importance=VITAL),
            Column(
                name="value", described=lambda setting: setting.described, shape=Shape.PROSE, importance=VITAL,
                width_max=1000,
            ),
            Column(
                name="meaning", form=lambda meaning: meaning or "", shape=Shape.PROSE, importance=MINOR, is_sparse=True,
                readable_width=80,  # if narrower, only the cursor's row shows it
            ),
        ]  # fmt: skip

    def __init__(self, replica: Replica, kind: str):
        """``kind``: ``status`` for its state, ``config`` for its settings."""
        self._kind, self._replica = kind, replica
        super().__init__()

    def selected(self) -> dict[str, str]:
        """The broker, and the property under the cursor, if it can be changed."""
        setting, selected = self.table.chosen, of_replica(self._replica)
        if setting is not None and setting.kind == "config":
            selected["PROPERTY"] = setting.row.name
        return selected

    def read_rows(self, client: DashboardClient) -> Found[Setting]:
        return brokers.read_settings(client, self._replica.broker_addr, self._kind)

    def action_edit(self) -> None:
        setting: Setting | None = self.table.chosen
        if setting is None or setting.kind != "config":
            self.dashboard.say("only properties of the configuration can be changed", is_error=True)
            return
        dialog = broker_property(setting.row.name, str(setting.row.value), self._replica.broker_addr)
        self.open_change(dialog)
