"""Searches a topic by message id, unique key or key, or by a condition, for which it reads the messages one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static

from rmqadmin.core.units import short_moment
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.literal import literal
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.marked_messages import MarkedMessagesScreen
from rmqadmin.tui.screens.messages import message_columns
from rmqadmin.tui.sources import messages
from rmqadmin.tui.sources.messages import SEARCH_COUNT
from rmqadmin.tui.sources.scan import SCAN_MAX_S, SCAN_WINDOW, Scan, parse_question
from rmqadmin.tui.widgets.inputs import CompactInput, enter
from rmqadmin.tui.widgets.tables.columns import Column
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.times import RANGE, TimeRange, parse_range

SEARCH_DEADLINE_S = SCAN_MAX_S + 5.0
"""A look-up in the index may read many cold files. A scan ends by itself earlier."""

_WANTED_HINT = "or tag: key: prop:NAME= body: json:PATH= sql92:"

_HELP = "an id, a key, tag:T, key:K, prop:NAME=V, body:T, json:PATH=V, sql92:EXPRESSION"

_INPUTS = ("topic", "wanted", "window")


class QuestionInput(CompactInput):
    """An input of the question. Letters are text in it, not keys, so it says how to ask and leave while it has the
    focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        enter("Ask"),
        Binding("tab", "app.focus_next", "Next field", priority=True),
        Binding("escape", "screen.leave_line", "Leave the line"),
    ]


class Asked(msgspec.Struct, frozen=True):
    """A question. ``scan`` is None for an id or key, which the index finds."""

    topic: str
    wanted: str
    window_text: str
    between: TimeRange | None
    scan: Scan | None


class SearchScreen(MarkedMessagesScreen):
    """Three lines to fill in; Enter in the second or third asks. Results stay until the next question."""

    step = "Search"
    file_name = "search"
    AUTO_FOCUS = "#topic"
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("hold", word="Stop, go on", shown=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._question: Asked | None = None
        self._found_count: int | None = None

    def columns(self) -> list[Column]:
        return message_columns()

    @property
    def topic(self) -> str:
        return "" if self._question is None else self._question.topic

    def body(self) -> Iterable[Widget]:
        with Horizontal(id="question"):
            yield Static(literal("topic "), classes="label")
            yield QuestionInput(id="topic")
            yield Static(literal(" id or key "), classes="label")
            yield QuestionInput(id="wanted", placeholder=_WANTED_HINT)
            yield Static(literal(" stored "), classes="label")
            yield QuestionInput(id="window", placeholder=f"scan {SCAN_WINDOW}")
        yield from super().body()

    # --- asking ------------------------------------------------------------------------------------------------------

    def make_feeds(self) -> Sequence[Feed]:
        feed = self.feed(self._refresh, deadline_s=SEARCH_DEADLINE_S)
        feed.pause(True)
        if self._question is not None:  # Enter came first
            feed.want(although_paused=True)
        return [feed]

    def _pause_feeds(self) -> None:
        """Does nothing: this screen only asks on request."""

    def interval_s(self) -> None:
        """None: this screen only asks on request."""

    def action_leave_line(self) -> None:
        self.set_focus(self.table)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        values = {name: self.query_one(f"#{name}", Input).value.strip() for name in _INPUTS}
        missing = next((name for name in ("topic", "wanted") if not values[name]), None)
        if event.input.id == "topic" or missing:
            self.set_focus(self.query_one(f"#{missing or 'wanted'}", Input))
            return
        try:
            asked = self._read_question(values["topic"], values["wanted"], values["window"])
        except UsageError as error:
            self.dashboard.say(f"{error} {error.hint or ''}", is_error=True)
            return
        self._stop("something else was asked for")
        self._question, self._found_count = asked, None
        self.table.set_rows(())
        self.table.clear_marks()
        self.set_focus(self.table)
        self.refresh_bindings()
        self.action_refresh_now()

    def _read_question(self, topic: str, wanted: str, window: str) -> Asked:
        """Parses the question. UsageError if it makes no sense."""
        matches = parse_question(wanted)
        if matches is not None:
            window = window or SCAN_WINDOW
        now_ms, remarks = self.now_ms(), list[str]()
        between = parse_range(window, now_ms, remarks.append) if window else None
        if between is not None and remarks:  # it could have been meant otherwise
            ends = (between.begin_ms, between.end_ms)
            window = RANGE.join("" if end_ms is None else short_moment(end_ms, now_ms) for end_ms in ends)
        if matches is None or between is None:
            return Asked(topic, wanted, window, between, None)
        return Asked(topic, wanted, window, between, Scan(topic, matches, between))

    async def _refresh(self, feed: Feed) -> None:
        asked = self._question
        assert asked is not None
        if asked.scan is None:
            found = await feed.ask(messages.search, asked.topic, asked.wanted, asked.between)
            self._found_count = len(found.rows)
            self.table.set_rows(found.rows.items())
        else:
            await self._scan(feed, asked.scan)
        self.show_frame()

    async def _scan(self, feed: Feed, scan: Scan) -> None:
        """Runs a scan and shows what was found after each step."""
        try:
            while scan.stopped is None:
                shown_count = len(scan.found)
                await feed.ask(scan.step)
                feed.problems = scan.problems
                if self._question is None or self._question.scan is not scan:
                    return
                if len(scan.found) != shown_count:
                    self.table.set_rows(messages.newest_first(scan.found.values()).items())
                self.show_frame()
        except RocketMQError:
            scan.stop("of an error")
            raise
        finally:
            self.refresh_bindings()

    # --- keys --------------------------------------------------------------------------------------------------------

    def action_refresh_now(self) -> None:
        if self._question is not None:
            super().action_refresh_now()

    async def action_back(self) -> Any:
        """Stops looking. The question is opened by the key of this screen: what is typed next may be another key."""
        self._stop("you went back")

    def opened_by_key(self) -> None:
        """Goes to the question: its text is typed next."""
        self.set_focus(self.query_one("#topic" if self._question is None else "#wanted", Input))

    def action_hold(self) -> None:
        """Stops looking, or looks on."""
        if self._question is None or self._question.scan is None:
            return
        if self._question.scan.stopped is None:
            self._stop("you stopped it")
        else:
            self._question.scan.go_on()
            self.refresh_bindings()
            self.action_refresh_now()

    def _stop(self, reason: str) -> None:
        if self._question is not None and self._question.scan is not None:
            self._question.scan.stop(reason)
            self.show_frame()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        scan = self._question.scan if self._question is not None else None
        if action == "hold":
            return scan is not None and (scan.stopped is None or not scan.is_finished)
        if action == "back":
            return True
        return super().check_action(action, parameters)

    @property
    def is_known(self) -> bool:
        """True: the table shows what was found, nothing else."""
        return True

    def why_empty(self) -> str:
        asked = self._question
        if asked is None:
            return _HELP
        if any(feed.error for feed in self.feeds):
            return "unknown"
        if asked.scan is not None and asked.scan.stopped is not None and not asked.scan.is_finished:
            return "nothing of what was read matches: . reads on"
        if asked.scan is not None and asked.scan.problems:
            return "nothing of what could be read matches"
        is_done = self._found_count is not None if asked.scan is None else asked.scan.stopped is not None
        return "nothing matches" if is_done else ""

    # --- the status line ---------------------------------------------------------------------------------------------

    def rows_text(self) -> str:
        asked = self._question
        if asked is None:
            return "Enter asks"
        within = f", stored {asked.window_text}" if asked.window_text else ""
        is_known = asked.scan is not None or self._found_count is not None
        rows = super().rows_text() if is_known else self.NOUN[1]
        return f"{self._progress(asked)}: {rows} of {asked.topic} with {asked.wanted}{within}"

    def _progress(self, asked: Asked) -> str:
        if asked.scan is not None:
            return asked.scan.summary()
        if self._found_count is None:
            return "unknown" if any(feed.error for feed in self.feeds) else "asking the index …"
        more = self._found_count >= SEARCH_COUNT
        reason = f"at most {SEARCH_COUNT} are asked for at each broker" if more else "the index has no more"
        return f"matched {self._found_count:,}, stopped because {reason}"
