"""The opening screen: is all well? It shows brokers with the last minutes of their numbers, the groups furthest behind,
dead letters, problems and changes. Enter opens the cause of a line.

Modules that ask servers are imported after the first frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.health.finding import Subject, SubjectKind
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import clock, unchanged_text
from rmqadmin.tui.literal import literal
from rmqadmin.tui.memory.wrong_list import Verdict
from rmqadmin.tui.screens import pulse_columns
from rmqadmin.tui.screens.base import PLOT_KEY, STALE_AFTER_MIN_S, DashboardScreen
from rmqadmin.tui.screens.selected import of_subject
from rmqadmin.tui.widgets.tables.columns import NUMBERS, Column
from rmqadmin.tui.widgets.tables.row_table import HEADER_HEIGHT, RowTable
from rmqproto.names import DLQ_PREFIX
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqadmin.tui.refresh import Feed
    from rmqadmin.tui.sampler import Sampler
    from rmqadmin.tui.screens.over_time import ReadRow

LEAST_ROWS = {"brokers": 2, "worst": 3, "letters": 1, "troubles": 2, "changes": 2}
"""The fewest rows of each part, where there is no room for all."""

LINES_AROUND = 4
"""Lines of the head, the verdict, the status and the keys. With this number, parts get their heights before they know
their size, for the first drawing."""

PLOTS_FROM_HEIGHT, PLOTS_HEIGHT = 30, 9
"""If all parts are in one column of at least this height, the plots have this many lines."""

_COLORS = {Mark.GOOD: "bold $text-success", Mark.WARN: "bold $text-warning", Mark.BAD: "bold $text-error"}


class PulseScreen(DashboardScreen):
    step = "Pulse"
    file_name = "pulse"
    AUTO_FOCUS = "#brokers"
    HORIZONTAL_BREAKPOINTS = [(0, "-one"), (160, "-two")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Next part", id="pulse.next"),
        PLOT_KEY,
    ]

    def __init__(self) -> None:
        super().__init__()
        self.brokers = self._table("brokers", pulse_columns.broker_columns())
        self.worst = self._table("worst", pulse_columns.worst_columns())
        self.letters = self._table("letters", pulse_columns.letters_columns())
        self.troubles = self._table("troubles", pulse_columns.trouble_columns())
        self.changes = self._table("changes", pulse_columns.change_columns())
        self.parts = [self.brokers, self.worst, self.letters, self.troubles, self.changes]

        self._verdict: Verdict | None = None
        """The verdict on screen."""

    def _table(self, id: str, columns: Sequence[Column]) -> RowTable:
        stale_after_s = STALE_AFTER_MIN_S if id in ("brokers", "worst", "letters") else None
        return RowTable(columns, id=id, stale_after_s=stale_after_s, now_ms=lambda: self.dashboard.now_ms())

    # --- the body ----------------------------------------------------------------------------------------------------

    def body(self) -> Iterable[Widget]:
        yield Static("asking …", id="verdict")
        with Horizontal(id="pulse"):
            yield Vertical(self.brokers, self.worst, self.letters, id="numbers")
            yield Vertical(self.troubles, self.changes, id="words")

    def on_mount(self) -> None:
        self._arrange_in(self.app.size.height - LINES_AROUND)
        self.set_interval(1.0, self.show_pulse)

    def sampler_started(self) -> None:
        self._pause_feeds()

    def sampled(self) -> None:
        self.show_pulse()

    def make_feeds(self) -> Sequence[Feed]:
        """None: the sampler has the feeds."""
        return ()

    def shown_feeds(self) -> list[Feed]:
        sampler = self.dashboard.sampler
        return [] if sampler is None else sampler.shown_feeds

    def _pause_feeds(self) -> None:
        sampler = self.dashboard.sampler
        if sampler is not None:
            sampler.pause(self.paused and not self._suspended)
            sampler.show(not self._suspended)

    def action_refresh_now(self) -> None:
        sampler = self.dashboard.sampler
        for feed in [] if sampler is None else sampler.feeds:
            feed.want(although_paused=True)

    # --- showing -----------------------------------------------------------------------------------------------------

    def show_pulse(self) -> None:
        """Shows everything that the sampler has found so far."""
        sampler = self.dashboard.sampler
        if sampler is None or self._suspended or not self.is_mounted:
            return
        self._show_numbers(sampler)
        self._show_words(sampler)
        self._arrange()
        self.show_status()

    def _show_numbers(self, sampler: Sampler) -> None:
        """Shows each part with the age of its reading."""
        pulse, unknown = sampler.pulse, "unknown" if sampler.error else "asking …"
        not_behind = "no group is behind" + (
            f", but unknown on {', '.join(pulse.groups.lacks)}" if pulse.groups.lacks else ""
        )
        no_letters = unknown if pulse.letters.unread_count else "no dead letters"
        for table, lines, asked_s, none in (
            (self.brokers, pulse.brokers.lines(), sampler.brokers_s, "no broker"),
            (self.worst, pulse.groups.worst_lines(), sampler.groups_s, not_behind),
            (self.letters, pulse.letters.lines(), sampler.letters_s, no_letters),
        ):
            was = f"{none} when last asked" if sampler.error and none != unknown else none
            table.say_when_empty(was if asked_s else unknown)
            table.set_rows((key, key) for key in lines)
            table.put(NUMBERS, lines, asked_s=asked_s)

    def _show_words(self, sampler: Sampler) -> None:
        pulse, unknown = sampler.pulse, "unknown" if sampler.error else "asking …"
        self.troubles.say_when_empty("nothing wrong was found" if pulse.is_complete and not sampler.error else unknown)
        self.troubles.set_rows((one.key, one) for one in pulse.wrong())
        away_since_ms = self.dashboard.away_since_ms
        self.changes.say_when_empty(unchanged_text(pulse.since_ms) if pulse.is_complete else unknown)
        self.changes.set_rows(
            (str(change.number), pulse_columns.LogLine(change, change.at_ms > away_since_ms))
            for change in pulse.log.newest_first()
        )
        verdict = pulse.verdict() if sampler.error is None else Verdict(f"unknown: {sampler.error}", Mark.BAD)
        if verdict != self._verdict:
            self._verdict = verdict
            color = "" if verdict.mark is None else _COLORS[verdict.mark]
            self.query_one("#verdict", Static).update(literal(verdict.text, color), layout=False)

    def rows_text(self) -> str:
        """How much has changed while the user was away."""
        sampler = self.dashboard.sampler
        news_count = 0 if sampler is None else sampler.pulse.log.since(self.dashboard.away_since_ms)
        if not news_count:
            return ""
        return f"{counted(news_count, 'change')} since {clock(self.dashboard.away_since_ms)}"

    # --- layout ------------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        self.call_after_refresh(self._arrange)

    def _arrange(self) -> None:
        """Shares the lines out among the parts. The last part of a column gets the rest. If the numbers have a column
        of their own, the plots get its rest."""
        self._arrange_in(self.query_one("#pulse").size.height)

    def _arrange_in(self, room: int) -> None:
        if self.has_class("-two"):
            left = self._share(room, self.parts[:3])
            self._share(room, self.parts[3:], fills=True)
            self._show_plots(left)
        else:
            plots_height = PLOTS_HEIGHT if room >= PLOTS_FROM_HEIGHT else 0
            self._share(room - plots_height, self.parts, fills=True)
            self._show_plots(plots_height)

    @staticmethod
    def _share(room: int, parts: Sequence[RowTable], *, fills: bool = False) -> int:
        """Sets the height of each part. Returns how many lines are left over; 0 if the last part ``fills`` them."""
        wanted = [HEADER_HEIGHT + max(1, table.all_count) for table in parts]
        least = [HEADER_HEIGHT + min(LEAST_ROWS[table.id or ""], max(1, table.all_count)) for table in parts]
        heights = shares(room, wanted, least)
        left = max(0, room - sum(heights))
        if fills:
            heights[-1] += left
        for table, height in zip(parts, heights, strict=True):
            if table.size.height != height:
                table.styles.height = height
        return 0 if fills else left

    def _show_plots(self, height: int) -> None:
        sampler = self.dashboard.sampler
        if sampler is None:
            return
        from rmqadmin.tui.widgets.plot import Plots

        plots = next(iter(self.query(Plots)), None)
        if plots is None:
            plots = Plots()
            self.query_one("#numbers").mount(plots)
        plots.show(height, sampler.pulse)

    # --- opening the cause -------------------------------------------------------------------------------------------

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        subject = self._subject(event.table, event.key)
        screen = None if subject is None else self._cause(subject)
        if screen is None:
            self.dashboard.say("this line has nothing more to show")
        else:
            self.app.push_screen(screen)

    def _subject(self, table: RowTable, key: str) -> Subject | None:
        """The subject of a line."""
        kinds: dict[RowTable, SubjectKind] = {
            self.brokers: SubjectKind.BROKER,
            self.worst: SubjectKind.GROUP,
            self.letters: SubjectKind.DEAD_LETTERS,
        }
        if table in kinds:
            return Subject(kinds[table], key)
        found: Subject | None = (
            table.part(key).finding.subject if table is self.troubles else table.part(key).change.subject
        )
        return found

    def _chosen(self) -> Subject | None:
        """The subject of the line under the cursor."""
        table = self.focused
        key = table.cursor_key if isinstance(table, RowTable) else None
        return self._subject(table, key) if isinstance(table, RowTable) and key is not None else None

    def selected(self) -> dict[str, str]:
        subject = self._chosen()
        return {} if subject is None else of_subject(subject, self.dashboard.memory.seen)

    def action_plot(self) -> None:
        """Plots the subject of the line under the cursor."""
        subject = self._chosen()
        if subject is None or subject.kind in (SubjectKind.BROKER_SET, SubjectKind.NAME_SERVER):
            self.dashboard.say("this line has no numbers to plot")
        else:
            self.dashboard.plot(subject, self._reader(subject))

    def _reader(self, subject: Subject) -> ReadRow | None:
        """The function that reads more of a subject than the pulse does; None if there is nothing more."""
        sampler, memory, name = self.dashboard.sampler, self.dashboard.memory, subject.name
        if (
            subject.kind is SubjectKind.GROUP
            and sampler is not None
            and (lag := (sampler.pulse.groups.lags or {}).get(name))
        ):
            from rmqadmin.tui.screens.group_state import read_group_row
            from rmqadmin.tui.sources.groups import facts_of

            facts = facts_of(memory, name, lag.broker_names)
            return lambda client: read_group_row(client, memory, facts, self.dashboard.now_ms())
        if subject.kind is SubjectKind.TOPIC:
            from rmqadmin.tui.sources.topics import read_topic_row

            return lambda client: read_topic_row(client, memory, name)
        return None

    def _cause(self, subject: Subject) -> DashboardScreen | None:
        """The screen that shows the cause."""
        sampler, memory = self.dashboard.sampler, self.dashboard.memory
        if subject.kind is SubjectKind.BROKER and (seen := memory.seen.get(subject.name)) is not None:
            from rmqadmin.tui.screens.brokers import BrokerScreen

            return BrokerScreen(seen.replica)
        if subject.kind is SubjectKind.BROKER_SET:
            from rmqadmin.tui.screens.broker_sets import BrokerSetsScreen

            return BrokerSetsScreen()
        if (
            subject.kind is SubjectKind.GROUP
            and sampler is not None
            and (lag := (sampler.pulse.groups.lags or {}).get(subject.name))
        ):
            from rmqadmin.tui.screens.group import GroupScreen
            from rmqadmin.tui.sources.groups import facts_of

            return GroupScreen(facts_of(memory, subject.name, [*lag.broker_names, *lag.lacking]))
        if subject.kind is SubjectKind.DEAD_LETTERS:
            from rmqadmin.tui.screens.messages import MessagesScreen

            return MessagesScreen(DLQ_PREFIX + subject.name)
        if subject.kind is SubjectKind.TOPIC:
            from rmqadmin.tui.screens.topics import QueuesScreen

            return QueuesScreen(subject.name)
        return None


def shares(room: int, wanted: Sequence[int], least: Sequence[int]) -> list[int]:
    """How many lines each part gets: first its least, then one more in turn for each that wants more, until all are
    satisfied or nothing is left."""
    given = list(least)
    left = room - sum(given)
    while left > 0 and any(have < want for have, want in zip(given, wanted, strict=True)):
        for at, want in enumerate(wanted):
            if left > 0 and given[at] < want:
                given[at] += 1
                left -= 1
    return given
