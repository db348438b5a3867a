"""One message: its body as JSON tree, text and hex, its properties and record, what each group did with it, what
clients traced of it, and, if it failed, each time it was stored."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Static, TabbedContent, TabPane, Tabs

from rmqadmin.cli.output.terminal_guard import run_in_terminal
from rmqadmin.core.contexts.settings import EffectiveSettings
from rmqadmin.core.files import program_words
from rmqadmin.core.messages import lookup
from rmqadmin.core.messages.body_text import hex_line, hex_line_count, text_lines
from rmqadmin.core.messages.lookup import FoundMessage, StoredCopy, Track, read_copies
from rmqadmin.core.units import size
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.literal import literal
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.remembered import read_remembered
from rmqadmin.tui.screens.base import STALE_AFTER_MIN_S, DashboardScreen
from rmqadmin.tui.screens.message_facts import (
    facts_of,
    history_lines,
    property_lines,
    record_lines,
    trace_columns,
    track_columns,
)
from rmqadmin.tui.sources import messages
from rmqadmin.tui.sources.groups import GroupFacts
from rmqadmin.tui.until_closed import begin, until_closed, while_mounted
from rmqadmin.tui.widgets.frame import FrameLine
from rmqadmin.tui.widgets.json_tree import BranchLine, JsonTree, parse_json_untrusted, why_no_tree
from rmqadmin.tui.widgets.lines import LINES_MAX, Lines
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.message import properties as props
from rmqproto.names import group_in_topic
from rmqproto.trace import TraceStep

_TABS = ("JSON", "Text", "Hex", "Properties", "Record", "Groups", "Trace", "History")
_ASKING_TABS = ("groups", "trace", "history")
"""Tabs whose contents may change. They refresh while open."""
_HISTORY_EVERY = 5
"""The history changes seldom, because the message has failed for good."""


_PAGER_DEFAULT = "less"
_BODY_ACTIONS = ("fold", "copy_body", "export", "pager")


class Contents(msgspec.Struct, frozen=True):
    """A body, unpacked and parsed, if it can be. ``problem`` says why it is shown as stored."""

    body: bytes
    problem: str | None
    parsed: Sequence[BranchLine] | None
    text: list[str]


def read_contents(message: FoundMessage) -> Contents:
    """Unpacks and parses a body. Called in a thread: a few megabytes take some tenths of a second."""
    problem = None
    try:
        body = message.stored.plain_body()
    except ProtocolError as error:
        body, problem = message.stored.body, str(error)
    return Contents(body, problem, parse_json_untrusted(body), text_lines(body)[: LINES_MAX + 1])


class MessageScreen(DashboardScreen):
    """Keys ``1`` to ``8`` open the tabs. Only a message that failed has the last one, which stands beside the others
    from 110 columns on. A tab is made when it is opened, those of the body only when that has been parsed. ``[`` and
    ``]`` walk along the list that the message was opened from, as filtered and sorted there."""

    file_name = "message"
    AUTO_FOCUS = "TabPane > Lines, TabPane > RowTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(bound(f"tab_{at}", f"tab('{tab.lower()}')", tab) for at, tab in enumerate(_TABS, 1)),
        bound("before", "step(-1)"),
        bound("after", "step(1)"),
        bound("fold"),
        bound("copy", word="Copy id"),
        bound("copy_row", "copy_body", "Copy body", shown=True),
        bound("export", word="Save body", shown=True),
        bound("pager"),
    ]

    def __init__(self, message: FoundMessage, table: RowTable | None = None, *, tab: str | None = None):
        """``table``: the list. ``tab`` is opened first; None for the one that shows the body best."""
        super().__init__()
        self.message = message
        self._table, self._chosen_tab = table, tab
        self._has_failed = group_in_topic(message.stored.topic) is not None
        self._copies: list[StoredCopy] | None = None
        self.side = Lines(is_wrapped=True)
        self.step = message.properties.get(props.KEYS) or message.message_id
        self.tracks = RowTable(track_columns(), id="tracks", stale_after_s=STALE_AFTER_MIN_S)
        self.trace = RowTable(trace_columns(), id="steps", stale_after_s=STALE_AFTER_MIN_S)
        self._brokers: list[BrokerData] = []
        self.contents: Contents | None = None
        self.open_tab = tab or "json"
        self.tabs = TabbedContent(initial=self.open_tab)

    def body(self) -> Iterable[Widget]:
        yield FrameLine(id="facts", classes="facts")
        with Horizontal(classes="panes"):
            with self.tabs:
                for at, title in enumerate(_TABS if self._has_failed else _TABS[:-1], 1):
                    yield TabPane(f"{at} {title}", id=title.lower())
            if self._has_failed:
                with Vertical(id="side"):
                    yield self.side

    def _contents(self, tab: str) -> Sequence[Widget]:
        """The widgets of a tab; none for a tab of the body that has not been parsed yet."""
        match tab:
            case "properties":
                return [Lines(property_lines(self.message))]
            case "record":
                return [Lines(record_lines(self.message))]
            case "groups":
                return self._asking_contents("no-groups", self.tracks)
            case "trace":
                return self._asking_contents("no-trace", self.trace)
            case "history":
                return [Lines(history_lines(self.message, self._copies), id="copies")]
        return [] if self.contents is None else [_body_lines(self.contents, tab)]

    def _asking_contents(self, caption: str, table: RowTable) -> list[Widget]:
        self.restore(table, read_remembered())
        return [Static("asking …", id=caption, classes="caption"), table]

    def on_mount(self) -> None:
        super().on_mount()
        self._show_facts()
        begin(self, until_closed, self, self._fill)
        self.call_after_refresh(self._show_history)

    def on_resize(self) -> None:
        self._pause_feeds()
        self.call_after_refresh(self._show_facts)

    @while_mounted
    def _show_facts(self) -> None:
        line = self.query_one("#facts", FrameLine)
        line.tell(facts_of(self.message, self._body_fact(), line.room))

    async def _fill(self) -> None:
        """Fills the tabs of the body and opens the one that shows it best, unless the user has chosen another
        meanwhile."""
        self.contents = await asyncio.to_thread(read_contents, self.message)
        self._show_facts()
        self.refresh_bindings()
        if self.contents.parsed is None and self.open_tab == "json":
            self.open_tab = "text"
        self._open(self.open_tab)
        self._focus_contents()

    def _body_fact(self) -> str:
        if self.contents is None:
            return f"{size(len(self.message.stored.body))} as stored"
        problem = f", {self.contents.problem}" if self.contents.problem else ""
        return size(len(self.contents.body)) + problem

    # --- what happened to it -----------------------------------------------------------------------------------------

    def make_feeds(self) -> Sequence[Feed]:
        """One feed for each of _ASKING_TABS that the message has."""
        feeds = [self.feed(self._refresh_tracks), self.feed(self._refresh_trace)]
        return [*feeds, self.feed(self._refresh_history, every=_HISTORY_EVERY)] if self._has_failed else feeds

    def interval_s(self) -> float | None:
        return super().interval_s() if self.open_tab in _ASKING_TABS else None

    def _pause_feeds(self) -> None:
        for feed, tab in zip(self.feeds, _ASKING_TABS, strict=False):
            is_seen = self.open_tab == tab or (tab == "history" and self.has_class("-wide"))
            feed.pause(self.paused or self._suspended or not is_seen)

    def shown_feeds(self) -> list[Feed]:
        return [feed for feed, tab in zip(self.feeds, _ASKING_TABS, strict=False) if tab == self.open_tab]

    async def _refresh_tracks(self, feed: Feed) -> None:
        self._brokers = self._brokers or await feed.ask(messages.read_brokers, self.message)
        found = await feed.ask(lookup.tracks, self.message)
        topic = self.message.stored.topic
        self._show_absence("no-groups", None if found else f"No group consumes {topic}, or has an offset in it.")
        self.tracks.set_rows((track.group, track) for track in found)

    async def _refresh_trace(self, feed: Feed) -> None:
        self._brokers = self._brokers or await feed.ask(messages.read_brokers, self.message)
        found = await feed.ask(messages.read_trace, self.message)
        self._show_absence("no-trace", found.absence)
        self.trace.set_rows((str(at), step) for at, step in enumerate(found.steps))

    def _show_absence(self, id: str, why: str | None) -> None:
        """Shows why a tab has no rows; ``why`` is None if it has some."""
        line = self.query_one(f"#{id}", Static)
        line.update(literal(why or ""))
        line.display = why is not None

    async def _refresh_history(self, feed: Feed) -> None:
        self._copies = await feed.ask(read_copies, self.message)
        self._show_history()

    @while_mounted
    def _show_history(self) -> None:
        if not self._has_failed:
            return
        shown = history_lines(self.message, self._copies)
        for lines in (*self.query("#copies").results(Lines), self.side):
            lines.show(shown)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """Opens a group that has the message. Producer groups have no screen."""
        found: Track | TraceStep = event.row
        if found.group is None or (isinstance(found, TraceStep) and not found.is_of_consumer):
            self.dashboard.say(f"{found.group or 'this'} is not a consumer group")
            return
        self.dashboard.open_thing(GroupFacts(found.group, self._brokers, None))

    def selected(self) -> dict[str, str]:
        return {"TOPIC": self.message.stored.topic, "ID": self.message.message_id}

    # --- keys --------------------------------------------------------------------------------------------------------

    def action_tab(self, tab: str) -> None:
        self._chosen_tab = tab
        self._open(tab)
        self._focus_contents()

    def on_tabbed_content_tab_activated(self) -> None:
        """Arrows leave the focus on the line of tabs, for the next arrow."""
        if isinstance(self.focused, Tabs):
            self._chosen_tab = self.tabs.active
        self._open(self.tabs.active)

    def _focus_contents(self) -> None:
        for widget in self.tabs.get_pane(self.open_tab).children:
            if widget.focusable:
                widget.focus()

    def _open(self, tab: str) -> None:
        self.open_tab = self.tabs.active = tab
        pane = self.tabs.get_pane(tab)
        if not pane.children:
            pane.mount_all(self._contents(tab))
        self.set_class(tab == "history", "-history")  # or it would be shown twice
        self._pause_feeds()
        self.show_frame()

    async def action_step(self, rows: int) -> None:
        """Shows another message of the list, on the tab that the user has chosen."""
        found: FoundMessage | None = None if self._table is None else self._table.step(rows)
        if found is None:
            self.dashboard.say("the list ends here")
            return
        tab = self._chosen_tab
        if tab == "history" and group_in_topic(found.stored.topic) is None:
            tab = None
        await self.app.switch_screen(MessageScreen(found, self._table, tab=tab))

    def rows_text(self) -> str:
        table = self._table
        return "" if table is None else f"message {table.cursor_at + 1:,} of {table.shown_count:,}"

    def action_fold(self) -> None:
        """Folds the text of the tab, if it has any, or unfolds it."""
        for lines in self.tabs.get_pane(self.open_tab).query(Lines):
            lines.wrap(not lines.is_wrapped)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.message.message_id)
        self.dashboard.say(f"copied {self.message.message_id}")

    def action_copy_body(self) -> None:
        """Copies the body to the terminal's clipboard, if programs may write to it."""
        assert self.contents is not None
        self.app.copy_to_clipboard(self.contents.body.decode("utf-8", "backslashreplace"))
        self.dashboard.say("copied the body")

    def action_export(self) -> None:
        assert self.contents is not None
        name = f"{self.message.stored.message_id}.body"
        if self.app.is_web:
            self.app.deliver_binary(io.BytesIO(self.contents.body), save_filename=name)
            return
        path = Path.cwd() / name
        try:
            with path.open("xb") as file:
                file.write(self.contents.body)
        except OSError as error:
            self.dashboard.say(f"{path}: {error.strerror}", is_error=True)
        else:
            self.dashboard.say(f"saved {path}")

    def action_pager(self) -> None:
        """Opens the body in the user's pager. The dashboard comes back when the pager ends."""
        assert self.contents is not None
        try:
            setting = EffectiveSettings({}).setting("pager")
            pager = program_words(setting.value.strip() or _PAGER_DEFAULT, setting.source)
        except UsageError as error:
            self.dashboard.say(str(error), is_error=True)
            return
        with tempfile.NamedTemporaryFile(prefix="rmqadmin-", suffix=".body") as file:
            file.write(self.contents.body)
            file.flush()
            try:
                with self.app.suspend():
                    status = run_in_terminal([*pager, file.name])
            except OSError as error:
                self.dashboard.say(f"{pager[0]}: {error.strerror}", is_error=True)
            else:
                if status > 0:
                    self.dashboard.say(f"{pager[0]} ended with status {status}", is_error=True)

    def filtered_table(self) -> RowTable | None:
        return {"groups": self.tracks, "trace": self.trace}.get(self.open_tab)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in _BODY_ACTIONS and self.contents is None:
            return False
        if action == "export":
            return True
        if action == "pager" and self.app.is_web:  # a page has no terminal to give away
            return False
        if action == "step":
            return self._table is not None
        if action == "tab" and parameters == ("history",):
            return self._has_failed
        return super().check_action(action, parameters)


def _body_lines(contents: Contents, tab: str) -> Widget:
    """The widget of one of the tabs of the body."""
    match tab:
        case "text":
            return Lines(contents.text, id="body-text")
        case "hex":
            count = min(hex_line_count(contents.body), LINES_MAX + 1)
            return Lines([hex_line(contents.body, at) for at in range(count)])
    if contents.parsed is None:
        return Lines([why_no_tree(contents.body)])
    return JsonTree(contents.parsed)
