"""The base of all screens: their frame (places, path, verdict, what is shown, keys), and the feeds that fill the body
while the screen is on top."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Tab

from rmqadmin.core.health.finding import Finding, Subject
from rmqadmin.tui.filters import parse_filter
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.refresh import REFRESH_DEADLINE_S, Feed
from rmqadmin.tui.remembered import Remembered, read_remembered, remember_filter, remember_order
from rmqadmin.tui.screens.tabs import MORE, Places, TabLine, TabScreen
from rmqadmin.tui.until_closed import begin, while_mounted
from rmqadmin.tui.widgets.detail import Detail
from rmqadmin.tui.widgets.frame import SIZE_MIN, CutLine, KeyLine, PathLine, ShownLine, TooSmall, VerdictLine, age_of
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard import Dashboard
    from rmqadmin.tui.widgets.inputs import FilterInput
    from rmqadmin.tui.widgets.tables.columns import Column

STALE_AFTER_INTERVALS = 2.5
"""A cell that missed two refreshes is stale. One late refresh is normal."""

STALE_AFTER_MIN_S = 3.0


TABS_MAX = 8

WIDE = 110
"""From so many columns on, the detail of a row stands beside its list."""


class DashboardScreen(TabScreen):
    """``step`` is this screen's name in the path. Subclasses make feeds in ``make_feeds`` and the body in
    ``body``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bound("keys", "app.keys"),
        bound("filter", priority=True),
        bound("back"),
        bound("refresh", "refresh_now"),
        bound("hold"),
        bound("export"),
        *(bound(f"tab_{at}", f"open_tab({at})") for at in range(1, TABS_MAX + 1)),
    ]
    AUTO_FOCUS = "RowTable"
    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (SIZE_MIN[0], "-narrow"), (WIDE, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (SIZE_MIN[1], "-low")]
    file_name = "screen"
    """Part of the names of saved pictures."""
    REMEMBERS_FILTER = False
    """Whether filters are kept for the next start: true for lists of everything, not for the parts of one thing."""
    EVERY: float = 1
    """At every how many intervals the body is read."""
    ANSWER_WAIT_MAX_S: float | None = None
    """How long to wait for an answer, if not as usual."""
    changing_actions: ClassVar[frozenset[str]] = frozenset()
    """Actions that read-only mode hides. The client refuses to carry them out anyway."""

    def __init__(self) -> None:
        super().__init__()
        self.feeds: list[Feed] = []
        self.beside: Detail | None = None
        """Beside the screen's table, if it has one: the detail of a row."""
        self.paused = False
        self._suspended = self.is_shown = False
        self._held_since_s: float | None = None
        """Since when nothing is asked."""

    @property
    def dashboard(self) -> Dashboard:
        return cast("Dashboard", self.app)

    # --- overridden by subclasses ------------------------------------------------------------------------------------

    def body(self) -> Iterable[Widget]:
        raise NotImplementedError

    def table_of(self, columns: Sequence[Column], **options: Any) -> RowTable:
        """A table by the clock of the dashboard. ``options``: those of ``RowTable``."""
        return RowTable(columns, now_ms=self.now_ms, **options)

    def now_ms(self) -> int:
        return self.dashboard.now_ms()

    def make_feeds(self) -> Sequence[Feed]:
        return [self.feed(self._refresh)]

    async def _refresh(self, feed: Feed) -> None:
        raise NotImplementedError

    def least_s(self) -> float:
        """The shortest interval between two refreshes, however often the user wants them."""
        return 0.0

    def rows_text(self) -> str:
        """How many rows, for the line below the body."""
        return ""

    def tab_counts(self) -> Mapping[int, int]:
        """How many rows tabs of the thing have, by their numbers, as far as this screen knows."""
        return {}

    def view_text(self) -> str:
        """How tables are filtered and sorted, for the line below the body."""
        return ", ".join(filter(None, (table.view_text() for table in self.query(RowTable))))

    def subject(self) -> Subject | None:
        """The thing that the screen is about; None for a list."""
        return None if self.tabbed is None else self.tabbed.subject

    def findings(self) -> Sequence[Finding]:
        """What is wrong with that thing, the worst first: its verdict."""
        subject = self.subject()
        if subject is None:
            return ()
        known = self.dashboard.pulse.findings(subject.kind).get(subject.name)
        return known or (() if self.tabbed is None else self.tabbed.told)

    def selected(self) -> dict[str, str]:
        """What the cursor is on, by its placeholder in the help of commands: ``TOPIC``, ``GROUP``, ``BROKER``."""
        return {}

    def shown_feeds(self) -> list[Feed]:
        """The feeds whose age and errors are told."""
        return self.feeds

    def interval_s(self) -> float | None:
        """The interval of refreshes; None for a screen that only asks on request, and for a recording."""
        return None if self.dashboard.replay_text else max(self.dashboard.interval_s * self.EVERY, self.least_s())

    @property
    def has_answer(self) -> bool:
        """Whether any part of the screen has been read at least once."""
        return any(feed.updated_s is not None for feed in self.feeds)

    # --- life --------------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Places(self.dashboard.places, self.dashboard.current_mode)
        yield PathLine()
        yield VerdictLine()
        if self.tabbed is not None:
            yield TabLine(self.tabbed.titles(), self.tab_at)
        yield from self.body()
        yield CutLine()
        yield ShownLine()
        yield KeyLine()
        yield TooSmall()

    def on_mount(self) -> None:
        remembered = read_remembered()
        for table in self.query(RowTable):
            self.restore(table, remembered)
        self.set_interval(1.0, self._tick)
        self.call_after_refresh(lambda: begin(self, self._start_feeds))

    def restore(self, table: RowTable, remembered: Remembered) -> None:
        """Sorts and filters a table as the user did before. Called for each table that the screen has when it is
        mounted."""
        name = self._remembered_name(table)
        if (saved := remembered.orders.get(name)) is not None:
            table.restore_order(saved)
        if (text := remembered.filters.get(self._filter_name(table))) is not None and self._remembers_filter:
            with contextlib.suppress(UsageError):  # the file may have been edited
                table.set_filter(parse_filter(text), text)

    @property
    def _remembers_filter(self) -> bool:
        return self.REMEMBERS_FILTER and self.tabbed is None

    def _remembered_name(self, table: RowTable) -> str:
        return f"{self.file_name}/{table.id}" if table.id else self.file_name

    def _filter_name(self, table: RowTable) -> str:
        """A filter is remembered for its cluster: what is looked for in one may not exist in another."""
        return f"{self.dashboard.settings.namesrv_text} {self._remembered_name(table)}"

    def on_row_table_sorted(self, event: RowTable.Sorted) -> None:
        self.dashboard.keep(partial(remember_order, self._remembered_name(event.table), event.table.saved_order))

    async def _start_feeds(self) -> None:
        """Starts the feeds. Called when the screen has been drawn."""
        await self.dashboard.client_loaded.wait()
        self.feeds = list(self.make_feeds())
        self._pause_feeds()
        for feed in self.feeds:
            begin(self, feed.run, exit_on_error=False)

    def feed(
        self,
        refresh: Callable[[Feed], Awaitable[None]],
        *,
        every: float | None = None,
        least_s: Callable[[], float] | None = None,
        deadline_s: float = REFRESH_DEADLINE_S,
        answer_wait_max_s: float | None = None,
    ) -> Feed:
        """A feed of this screen with its own read-only client. It asks at every ``every``-th interval, not more often
        than ``least_s`` says, and waits for ``answer_wait_max_s``; if not given, as the screen says."""
        every, least_s = self.EVERY if every is None else every, least_s or self.least_s
        client, wait_max_s = self.dashboard.make_client(read_only=True), answer_wait_max_s or self.ANSWER_WAIT_MAX_S
        if wait_max_s is not None:
            client.answer_wait_max_s = wait_max_s
        interval_s = lambda: max(self.dashboard.interval_s * every, least_s())  # noqa: E731
        return Feed(client, refresh, self.show_frame, interval_s, deadline_s=deadline_s)

    def on_screen_suspend(self) -> None:
        """Pauses the feeds. Also called before the screen closes."""
        self._suspended = True
        self._pause_feeds()
        self.show_frame()

    def opened_by_key(self) -> None:
        """Called when the user has gone to this screen by the key of its noun."""

    def sampler_started(self) -> None:
        """Called when there is a new sampler."""

    def sampled(self) -> None:
        """Called when the sampler has found something new."""

    def hide_system(self) -> None:
        """Shows or hides rows that belong to RocketMQ itself, as the dashboard is set."""

    def on_screen_resume(self) -> None:
        """Shows the screen. Textual sends the event twice to the first screen of a mode."""
        if not self._suspended and self.is_shown:
            return
        self.is_shown, self._suspended = True, False
        self.hide_system()
        self._pause_feeds()
        self.show_places()
        self.show_frame()

    def _pause_feeds(self) -> None:
        for feed in self.feeds:
            feed.pause(self.paused or self._suspended)

    def on_unmount(self) -> None:
        for feed in self.feeds:
            feed.stop()
        if self.tabbed is not None and not self.app.is_screen_installed(self):
            self.tabbed.close(self)

    # --- the frame ---------------------------------------------------------------------------------------------------

    @while_mounted
    def show_places(self) -> None:
        """Counts what is wrong at each place."""
        if self.dashboard.sampler is not None:
            self.query_one(Places).count(self.dashboard.pulse.wrong())

    async def on_tab_clicked(self, event: Tab.Clicked) -> None:
        mode, number = Places.mode_of(event.tab), TabLine.number_of(event.tab)
        if number is not None:
            await self.run_action(f"open_tab({number})")
        elif mode == MORE:
            self.dashboard.open_command_line("")
        else:
            await self.dashboard.action_go(mode)

    def on_resize(self) -> None:
        self.call_after_refresh(self.show_frame)

    @while_mounted
    def show_cut(self) -> None:
        """Shows in full what the cursor's row in the focused table has no room for: in the detail beside the table if
        there is one, or else below it."""
        table = self.filtered_table()
        if self.beside is not None and self.beside.is_open:
            self.show_detail(self.beside)
            table = None if table is self.detailed_table() else table
        self.query_one(CutLine).show(table)

    def detailed_table(self) -> RowTable | None:
        """The table with a detail beside it."""
        return None

    def show_detail(self, detail: Detail) -> None:
        """Fills the detail, which has room."""

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        self.show_cut()

    def on_descendant_focus(self) -> None:
        self.show_cut()

    @while_mounted
    def show_frame(self) -> None:
        """Shows the lines around the body. Called once a second, and whenever they may have changed."""
        self.show_cut()
        dashboard, feeds, interval_s = self.dashboard, self.shown_feeds(), self.interval_s()
        is_held = self.paused or self._suspended
        self._held_since_s = (self._held_since_s or time.monotonic()) if is_held else None
        held_s = None if self._held_since_s is None else time.monotonic() - self._held_since_s
        modes = ["read-only"] if dashboard.read_only else ["protected"] if dashboard.settings.protected else []
        modes += [dashboard.replay_text] if dashboard.replay_text else []
        self.query_one(PathLine).show(dashboard.settings, dashboard.way, modes, age_of(feeds, interval_s, held_s))
        self.query_one(VerdictLine).show(self.findings())
        if self.tabbed is not None:
            self.tabbed.counts.update(self.tab_counts())
            self.query_one(TabLine).tell_titles(self.tabbed.titles())
        parts = [self.rows_text(), self.view_text()]
        self.query_one(ShownLine).show(parts, feeds, asks_again=interval_s is not None and not is_held)

    def _tick(self) -> None:
        shown = self.app.screen_stack[-1:]  # empty when the program is ending
        if not shown or (self._suspended and not isinstance(shown[0], ModalScreen)):
            return
        self.show_frame()
        stale_after_s = max(STALE_AFTER_MIN_S, STALE_AFTER_INTERVALS * (self.interval_s() or self.dashboard.interval_s))
        for table in self.query(RowTable):
            if table.model.stale_after_s is not None:
                table.show_ages(stale_after_s)

    # --- keys --------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "back":
            return len(self.dashboard.way) > 1
        if action == "open_tab":
            return self.tabbed is not None and 1 <= int(str(parameters[0])) <= len(self.tabbed.titles())
        if action in ("filter", "export") and self.filtered_table() is None:
            return False
        if action == "filter" and isinstance(self.focused, Input):
            return False  # the key is text
        return not (action in self.changing_actions and self.dashboard.read_only)

    async def action_back(self) -> None:
        await self.dashboard.go_back()

    def action_filter(self) -> None:
        table = self.filtered_table()
        if table is None:
            return
        from rmqadmin.tui.widgets.inputs import FilterInput

        line = next(iter(self.query(FilterInput)), None)
        if line is None:  # made on demand: it takes 6 ms, and few screens are ever filtered
            line = FilterInput()
            self.mount(line, before=self.query_one(ShownLine))
        line.open(table)

    def action_refresh_now(self) -> None:
        for feed in self.feeds:
            feed.want(although_paused=True)

    def action_export(self) -> None:
        """Asks for the file that the shown rows are written into."""
        self.dashboard.open_command_line("save ")

    def action_hold(self) -> None:
        self.paused = not self.paused
        self._pause_feeds()
        self.show_frame()

    def filtered_table(self) -> RowTable | None:
        """The table that ``/`` filters: the focused one, or else the first."""
        focused = self.focused
        return focused if isinstance(focused, RowTable) else next(iter(self.query(RowTable)), None)

    def open_change(self, dialog: ModalScreen[None]) -> None:
        """Opens a dialog, and refreshes as soon as it is closed."""
        self.app.push_screen(dialog, lambda _: self.action_refresh_now())

    def on_row_table_copied(self, event: RowTable.Copied) -> None:
        """Copies to the terminal's clipboard, if programs may write to it."""
        self.app.copy_to_clipboard(event.text)
        self.dashboard.say("copied the row" if event.is_whole else f"copied {event.text}")

    def on_filter_input_closed(self, event: FilterInput.Closed) -> None:
        if self._remembers_filter:
            self.dashboard.keep(partial(remember_filter, self._filter_name(event.table), event.text))

    def on_filter_input_filtered(self, event: FilterInput.Filtered) -> None:
        event.table.set_filter(event.passes, event.text)
        self.show_frame()
