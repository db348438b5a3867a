"""The base of the screens with one table: its rows, their numbers and what is wrong with each, and the detail beside
them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget

from rmqadmin.core.health.finding import Finding, Subject, SubjectKind
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.literal import literal
from rmqadmin.tui.memory.cluster import Lacks
from rmqadmin.tui.memory.readings import OverTime, RowReading
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.base import STALE_AFTER_MIN_S, DashboardScreen
from rmqadmin.tui.screens.row_parts import OVER_TIME, STATE, RowState
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.widgets.detail import Detail, curve_lines, fact_lines, finding_lines
from rmqadmin.tui.widgets.tables.columns import BASE, JUDGED, NUMBERS, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.errors import NotFoundError

SORT_ASKED_MAX, SORT_ASKED_AGAIN_MAX = 50, 25
"""How many rows out of view one refresh also asks for if the table is sorted by their numbers: until all are known, and
after that."""

SELDOM = 5
"""Every fifth refresh: for rows that change seldom, or take a request for each group."""


class TableScreen(DashboardScreen):
    """A screen with one table. Each refresh reads all rows, then the numbers of the rows in view."""

    NOUN = ("row", "rows")
    NONE = ""
    """The text for an empty table, if not "no" and the noun."""
    ROWS_AGE = True
    """Whether rows have an age. Stored messages have none."""
    ROWS_OPEN = True
    """Whether Enter opens something."""
    KEEPS_LOST_ROWS = False
    """Whether rows that no broker reports any more stay while a broker that may have them is missing."""
    SAMPLED: ClassVar[SubjectKind | None] = None
    """The kind of the rows, if their numbers are sampled."""
    JUDGED_BY: ClassVar[tuple[str, ...]] = ()
    """The parts that a row's state is made from, beside what the pulse knows."""
    JUDGED_KIND: ClassVar[SubjectKind | None] = None
    """The kind of the rows, if they have a state."""
    LINES: ClassVar[Mapping[str, str]] = {}
    """The fields that have a sparkline, with their titles."""
    HAS_DETAIL = False
    """Whether the detail of a row stands beside the list."""
    TOLD_IN_DETAIL: ClassVar[frozenset[str]] = frozenset({STATE})
    """The titles of the columns that the detail tells in its own way, and not as what has no room."""

    def __init__(self) -> None:
        super().__init__()
        stale_after_s = STALE_AFTER_MIN_S if self.ROWS_AGE else None
        self.table = self.make_table(stale_after_s=stale_after_s, opens=self.ROWS_OPEN, now_ms=self.now_ms)
        self.lacks: Lacks = {}
        """The brokers whose rows are missing."""
        self._note = ""
        """What the rows do not say by themselves."""
        self._asked: set[str] = set()
        self._judged: dict[str, tuple[Any, ...]] = {}
        """What the state of each row was made from."""
        self._wrong: Mapping[str, tuple[Finding, ...]] = {}
        """What the pulse found wrong with the rows when they were judged."""
        self._told: list[str] = []
        """Why numbers were not known when they were last asked for."""
        self._rows: Mapping[str, Any] = {}
        """The rows as last read."""

    def make_table(self, **options: Any) -> RowTable:
        """Makes the table. ``options`` are those that every table takes."""
        return RowTable(self.columns(), **options)

    def body(self) -> Iterable[Widget]:
        if self.HAS_DETAIL:
            self.beside = Detail(id="detail")
            yield Horizontal(self.table, self.beside, classes="panes")
        else:
            yield self.table

    def detailed_table(self) -> RowTable | None:
        return self.table

    def show_detail(self, detail: Detail) -> None:
        line = self.table.cursor_line
        if line is None:
            detail.show(())
            return
        state: RowState | None = line.parts.get(JUDGED)
        over: OverTime | None = line.parts.get(OVER_TIME)
        curves = {} if over is None else {title: over.lines.get(field, []) for field, title in self.LINES.items()}
        cut = self.table.cells.cut(line.texts)
        name = literal(self.table.model.name_of(line), "bold")
        told = (cell for cell in cut if cell.title not in self.TOLD_IN_DETAIL and cell.text != name.plain)
        facts = fact_lines([(cell.title, cell.text) for cell in told])
        lines = [
            name,
            *(literal(f"✖ {error}", "bold $text-error") for error in dict.fromkeys(line.errors.values())),
            *finding_lines(() if state is None else state.found),
            *([Content(""), *facts] if facts else []),
            *curve_lines(curves, detail.room),
            *self.detail(line.key),
        ]
        detail.show(lines)

    def detail(self, key: str) -> list[Content]:
        """More lines of the detail of a row, from what is known of it."""
        return []

    def columns(self) -> list[Column]:
        raise NotImplementedError

    def read_rows(self, client: DashboardClient) -> Found[Any]:
        """Reads all rows. Called in a worker thread."""
        raise NotImplementedError

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, Any]) -> Mapping[str, Any]:
        """Reads the numbers of some rows, given by their base parts. Called in a worker thread."""
        return {}

    async def _refresh(self, feed: Feed) -> None:
        found = await feed.ask(self.read_rows)
        await self.table.prepare(found.rows.items())
        self.lacks, feed.problems, self._note = found.lacks, [*found.told(), *self._told], found.note
        is_first = not self._rows
        self.table.set_rows(found.rows.items(), keeps_others=self.KEEPS_LOST_ROWS and bool(found.lacks))
        self.judge(() if found.rows is self._rows else found.rows)
        self._rows = found.rows
        if is_first:  # the worst row is known only now
            self.table.action_first()
        self.show_frame()
        wanted = self.rows_in_view()
        if self.table.model.sorted_part == NUMBERS:
            is_known = self.table.model.known_count(NUMBERS) == self.table.shown_count
            asked_max = SORT_ASKED_AGAIN_MAX if is_known else SORT_ASKED_MAX
            others = self.table.model.asked_longest_ago(NUMBERS, asked_max)
            wanted |= {key: self.table.part(key, BASE) for key in others}
        self._asked = set(wanted)
        numbers = await feed.ask(self.read_numbers, wanted)
        known, self._told = {}, []
        for key, one in numbers.items():
            error, before = self.failure_of(one), self.table.part(key, NUMBERS)
            if error is None or before is None or self.failure_of(before) is not None:
                known[key] = one
            else:
                self._told.append(f"{key}: {error}")
        feed.problems = [*found.told(), *self._told]
        self.table.put(NUMBERS, known)
        self.numbers_known(numbers)
        self.judge(wanted)
        if self.SAMPLED is not None:
            readings = {key: self.row_reading(one) for key, one in known.items() if self.failure_of(one) is None}
            self.dashboard.pulse.take_rows(self.SAMPLED, readings)
            self.show_over_time()

    def row_reading(self, numbers: Any) -> RowReading:
        """The part of a row's numbers that is sampled."""
        raise NotImplementedError

    def sampled(self) -> None:
        self.judge()
        self.show_over_time()

    def judge(self, others: Iterable[str] = ()) -> None:
        """Says what is wrong with rows, by themselves and by what the pulse knows: with all of which it has found
        something else, and with ``others``."""
        if self.JUDGED_KIND is None:
            return
        wrong, before, states = self.dashboard.pulse.findings(self.JUDGED_KIND), self._wrong, {}
        self._wrong = wrong
        for key in {*others, *(key for key in {**wrong, **before} if wrong.get(key) != before.get(key))}:
            if (line := self.table.model.lines.get(key)) is None:
                continue
            made_from = (*(line.parts.get(part) for part in self.JUDGED_BY), wrong.get(key, ()))
            error = line.errors.get(NUMBERS)
            if self._judged.get(key) != (*made_from, error):
                self._judged[key] = (*made_from, error)
                states[key] = msgspec.structs.replace(self.state_of(key, *made_from), error=error)
        self.table.put(JUDGED, states)

    def state_of(self, key: str, *made_from: Any) -> RowState:
        """The state of a row. ``made_from``: its parts of ``JUDGED_BY``, then what the pulse finds wrong with it."""
        return RowState(made_from[-1])

    def show_over_time(self) -> None:
        """Shows what the samples say of the rows in view."""
        if (kind := self.SAMPLED) is not None:
            pulse = self.dashboard.pulse
            found = {key: pulse.over_time(Subject(kind, key), self.LINES) for key in self.table.visible_keys()}
            self.table.put(OVER_TIME, found)

    def row_key(self) -> str | None:
        """The key of the row under the cursor, for an action that needs one. If there is no row, None, with a
        notification why: a key that does nothing looks broken."""
        if self.table.cursor_key is None:
            self.dashboard.say(self.table.why_empty(), is_error=True)
        return self.table.cursor_key

    def row(self) -> Any:
        """As ``row_key``: the base part of that row."""
        return None if self.row_key() is None else self.table.chosen

    def known_row(self) -> Any:
        """As ``row``, of groups and topics: also None, with a notification, if no broker that can be asked has it."""
        facts = self.row()
        if facts is None or facts.brokers:
            return facts
        self.dashboard.say(f"no broker that can be asked has this {self.NOUN[0]}", is_error=True)
        return None

    def action_plot(self) -> None:
        if self.SAMPLED is None or (key := self.row_key()) is None:
            return
        base = self.table.part(key, BASE)

        def read(client: DashboardClient) -> RowReading:
            numbers = self.read_numbers(client, {key: base})[key]
            if (failure := self.failure_of(numbers)) is not None:
                raise NotFoundError(failure)
            return self.row_reading(numbers)

        self.dashboard.plot(Subject(self.SAMPLED, key), read)

    def failure_of(self, numbers: Any) -> str | None:
        """Why the numbers of a row are not known."""
        failure: str | None = getattr(numbers, "error", None)
        return failure

    def numbers_known(self, numbers: Mapping[str, Any]) -> None:
        """Called with what ``read_numbers`` found, including errors. A row with an error keeps its earlier numbers and
        their age."""

    @staticmethod
    def is_system(row: Any) -> bool:
        """Whether a row, by its base part, belongs to RocketMQ itself."""
        return False

    def hide_system(self) -> None:
        self.table.set_hidden(None if self.dashboard.shows_system else self.is_system)
        self.show_frame()

    def rows_in_view(self) -> dict[str, Any]:
        return {key: self.table.part(key, BASE) for key in self.table.visible_keys()}

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        """Asks at once for rows that came into view. A feed that fails keeps its own pace."""
        if not self.feeds or self.feeds[0].error is not None or not self._asked:
            return
        news = set(self.rows_in_view()) - self._asked
        if self.table.model.sorted_part == NUMBERS:  # rows move with each answer: new are those without numbers
            news = {key for key in news if self.table.part(key, NUMBERS) is None}
        if news:
            self.feeds[0].want()

    def on_row_table_sorted(self, event: RowTable.Sorted) -> None:
        """Asks at once if the table is now sorted by numbers, because that needs the numbers of rows out of view
        too."""
        self.show_frame()
        if event.table.model.sorted_part == NUMBERS and self.feeds:
            self.feeds[0].want()

    @property
    def is_known(self) -> bool:
        """Whether the rows have been read at least once."""
        return self.has_answer or self.table.all_count > 0

    def show_frame(self) -> None:
        if self.is_mounted:
            self.table.say_when_empty(self.why_empty())
        super().show_frame()

    def tab_counts(self) -> Mapping[int, int]:
        return {self.tab_at: self.table.all_count - self.table.model.hidden_count} if self.is_known else {}

    def why_empty(self) -> str:
        """Why the table is empty; hidden system rows do not count."""
        if not self.is_known:
            return next((f"unknown: {feed.error}" for feed in self.feeds if feed.error), "asking …")
        none = self.NONE or f"no {self.NOUN[1]}"
        without = "".join(f", without {name}, {why}" for name, why in self.lacks.items())
        return f"{none} known{without}" if without else none

    def rows_text(self) -> str:
        if not self.is_known:
            return f"{self.NOUN[1]} unknown"
        hidden_count = self.table.model.hidden_count
        shown, total = self.table.shown_count, self.table.all_count - hidden_count
        noun = self.NOUN[total != 1]
        rows = f"{total:,} {noun}" if shown == total else f"{shown:,} of {total:,} {noun}"
        hidden = f"{hidden_count:,} of the system hidden" if hidden_count else ""
        return ", ".join(filter(None, [rows, hidden, self._note]))
