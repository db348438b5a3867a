"""Dead letters: how many each group has, and since when; and the messages of a topic, a queue or a dead-letter topic,
newest first, one window at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import attrgetter
from time import monotonic
from typing import Any, ClassVar

import msgspec
from textual.binding import BindingType

from rmqadmin.core.health.finding import Subject, SubjectKind
from rmqadmin.core.messages.body_text import one_line
from rmqadmin.core.messages.dead_letters import place_of, redriven_before
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import at_least, count, moment
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.memory.readings import Depth
from rmqadmin.tui.refresh import REFRESH_DEADLINE_S, Feed
from rmqadmin.tui.screens.marked_messages import MarkedMessagesScreen
from rmqadmin.tui.screens.row_parts import state_column
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.sources import messages
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.messages import Window
from rmqadmin.tui.sources.scan import Scan
from rmqadmin.tui.until_closed import begin, until_closed
from rmqadmin.tui.widgets.tables.columns import MINOR, NAME_READABLE, NUMBERS, VITAL, Column
from rmqadmin.tui.widgets.tables.marked_table import MarkedTable
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ProtocolError, RocketMQError, StorageError
from rmqproto.message import properties as props
from rmqproto.names import DLQ_PREFIX, group_in_topic
from rmqproto.times import TimeRange


class DeadLettersScreen(TableScreen):
    NOUN = ("group with dead letters", "groups with dead letters")
    NONE = "no dead letters"
    KEEPS_LOST_ROWS = True
    step = "Dead letters"
    file_name = "dead-letters"
    REMEMBERS_FILTER = True
    JUDGED_KIND = SubjectKind.DEAD_LETTERS
    HAS_DETAIL = True

    def columns(self) -> list[Column]:
        def number(name: str, field: str, **how: Any) -> Column:
            return Column(name=name, part=NUMBERS, value=attrgetter(f"letters.{field}"), **how)

        return [
            Column(name="group", value=group_in_topic, importance=VITAL, readable_width=NAME_READABLE),
            number("depth_count", "depth_count", words="depth", is_number=True, is_sum=True),
            number("left_count", "left_count", words="left", is_number=True, is_sum=True, importance=VITAL),
            number("oldest_ms", "oldest_ms", is_time=True, is_sum=True, importance=VITAL),
            number("newest_ms", "newest_ms", is_time=True),
            number("oldest_at", "oldest_ms", form=moment, importance=MINOR),
            number("newest_at", "newest_ms", form=moment, importance=MINOR),
            state_column(40),
        ]

    def selected(self) -> dict[str, str]:
        key = self.table.cursor_key
        return {} if key is None else {"GROUP": key}

    def read_rows(self, client: DashboardClient) -> Found[str]:
        return messages.read_dead_letter_groups(client, self.dashboard.memory)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, str]) -> Mapping[str, Depth]:
        return messages.read_depths(client, self.dashboard.memory, rows)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        self.app.push_screen(MessagesScreen(event.row))


_UNMARKED = "their marks were taken away"

PREVIEW_SIZE_MAX_BYTES = 600
"""How much of a body is shown: a line of a wide terminal, at three bytes a character."""


MARKED_MAX = 10_000
"""How many messages ``a`` marks at most."""

REDRIVEN_ASKED_EVERY_S = 10.0
"""How often the ledgers are asked which letters were redriven, while the list stays the same."""


class LetterMark(msgspec.Struct, frozen=True):
    """What is known of a dead letter apart from its message."""

    is_redriven: bool


class Marking(msgspec.Struct, eq=False):
    """A search for messages to mark. ``left_out_count`` messages match but were redriven before."""

    scan: Scan
    left_out_count: int = 0

    def told(self, marked_count: int) -> str:
        """The outcome, in words."""
        scan = self.scan
        left_out = f", {self.left_out_count:,} redriven before are left out" if self.left_out_count else ""
        missed = [*scan.problems, *([] if scan.is_finished else [scan.stopped or ""])]
        return f"{marked_count:,} marked{left_out}" + (f"; not all were looked at: {missed[0]}" if missed else "")


def message_columns(*, of_dead_letters: bool = False) -> list[Column]:
    """The columns of lists of messages. Dead letters also show their origin and how often they were tried."""
    origin = [
        Column(name="retries", value=lambda message: message.stored.reconsume_times, is_number=True, importance=VITAL),
        Column(name="origin_topic", value=lambda message: message.properties.get(props.RETRY_TOPIC)),
        Column(
            name="redriven", part=NUMBERS, value=lambda letter: "yes" if letter.is_redriven else None,
            mark=lambda letter: Mark.DIM, is_sparse=True, importance=VITAL,
        ),
    ]  # fmt: skip
    return [
        Column(name="stored_ms", value=_stored_ms, is_time=True, importance=VITAL),
        Column(name="stored_at", value=_stored_ms, form=moment, importance=MINOR),
        Column(name="born_at", value=lambda message: message.stored.born_timestamp_ms, form=moment, importance=MINOR),
        *(origin if of_dead_letters else []),
        Column(name="keys", value=lambda message: message.properties.get(props.KEYS), width_max=40, importance=VITAL),
        Column(name="tag", value=lambda message: message.properties.get(props.TAGS), width_max=24),
        Column(name="broker_name", importance=MINOR),
        Column(name="queue_id", value=lambda message: message.stored.queue_id, is_number=True),
        Column(name="queue_offset", value=lambda message: message.stored.queue_offset, is_number=True),
        Column(name="size_bytes", value=lambda message: len(message.stored.body), is_number=True, importance=MINOR),
        Column(name="message_id", is_name=True, shape=Shape.ID, importance=MINOR),
        Column(name="body", value=body_preview, shape=Shape.PROSE, importance=VITAL, readable_width=40),
    ]


def body_preview(message: FoundMessage) -> str | None:
    """The beginning of a body, or why it cannot be unpacked."""
    try:
        return one_line(message.stored.beginning_of_body(PREVIEW_SIZE_MAX_BYTES)) or None
    except ProtocolError as error:
        return f"({error})"


def _stored_ms(message: FoundMessage) -> int:
    return message.stored.store_timestamp_ms


class MessagesScreen(MarkedMessagesScreen):
    """``[`` and ``]`` go to older and newer messages. Each refresh reads the newest window again."""

    file_name = "messages"
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("before", "older", "Older"),
        bound("after", "newer", "Newer"),
        bound("next_part", "app.focus_next", shown=False),
    ]

    def __init__(self, topic: str, queue: MessageQueue | None = None, *, step: str | None = None):
        self._topic, self._queue = topic, queue
        super().__init__()
        name = topic.removeprefix(DLQ_PREFIX)
        self.step = step or (name if queue is None else f"{queue.broker_name} queue {queue.queue_id}")
        self._window_number = 0
        """How many windows of newer messages come before the shown one."""
        self._window: Window | None = None
        self._redriven: set[str] = set()
        """Keys of the letters of the window that were redriven before."""
        self._redriven_of: tuple[Collection[str], float] = ((), 0.0)
        """The letters that this was last asked for, and when, by ``monotonic``."""
        self._marking: Marking | None = None

    @property
    def topic(self) -> str:
        return self._topic

    def subject(self) -> Subject | None:
        return Subject(SubjectKind.DEAD_LETTERS, self._topic[len(DLQ_PREFIX) :]) if self.is_of_dead_letters else None

    def columns(self) -> list[Column]:
        return message_columns(of_dead_letters=self.is_of_dead_letters)

    def read_rows(self, client: DashboardClient) -> Found[FoundMessage]:
        memory = self.dashboard.memory
        self._window = messages.read_window(client, memory, self._topic, self._queue, self._window_number)
        cut_short = [self._window.cut_short] if self._window.cut_short else []
        found = self._window.found
        unknown = []
        if self.is_of_dead_letters:
            try:
                self._look_for_redriven(client, found.rows)
            except StorageError as error:
                unknown = [f"not known what was redriven: {error}"]
        return Found(found.rows, found.lacks, [*found.problems, *cut_short, *unknown])

    # --- dead letters that were redriven before ----------------------------------------------------------------------

    def _look_for_redriven(self, client: DashboardClient, letters: Mapping[str, FoundMessage]) -> None:
        """Asks the ledgers which letters were redriven, if that is due. Called in a thread."""
        keys, now_s = list(letters), monotonic()
        before, asked_s = self._redriven_of
        if keys != before or now_s - asked_s >= REDRIVEN_ASKED_EVERY_S:
            places = redriven_before(client, letters.values())
            self._redriven = {key for key, letter in letters.items() if place_of(letter) in places}
            self._redriven_of = keys, now_s

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, FoundMessage]) -> Mapping[str, LetterMark]:
        self.table.left_out = self._redriven
        return {key: LetterMark(key in self._redriven) for key in rows} if self.is_of_dead_letters else {}

    def _redriven_now(self, is_done: bool) -> None:
        super()._redriven_now(is_done)
        self._redriven_of = (), 0.0
        self.action_refresh_now()

    # --- all that match ----------------------------------------------------------------------------------------------

    def on_marked_table_all_marked(self, event: MarkedTable.AllMarked) -> None:
        """Looks for the messages that the list does not have: it only has the newest."""
        if event.is_off:
            self._stop_marking()
        elif self._window is not None and self._window.total_count > len(self._window.found.rows):
            scan = Scan(self._topic, self._would_be_marked, TimeRange(None, None), matches_max=MARKED_MAX)
            marking = self._marking = Marking(scan)
            begin(
                self, until_closed, self, self._mark_all, marking, group="mark all", exclusive=True, exit_on_error=False
            )
        elif event.left_out_count:
            self.dashboard.say(f"{event.left_out_count:,} redriven before are left out")

    def _would_be_marked(self, message: FoundMessage) -> bool:
        """Whether a message is in this list and passes its filter. Called in a thread."""
        queue = self._queue
        is_here = queue is None or (queue.broker_name, queue.queue_id) == (message.broker_name, message.stored.queue_id)
        return is_here and self.table.model.would_pass(message)

    async def _mark_all(self, marking: Marking) -> None:
        """Marks messages as they are found. Leaves out dead letters that were redriven before, as the list does."""
        feed, scan = self.feed(lambda feed: self._mark_found(feed, marking)), marking.scan
        try:
            await self._mark_found(feed, marking)
        except RocketMQError as error:
            scan.stop(str(error))
        finally:
            feed.stop()
            if self._marking is marking:
                self._marking = None
        if scan.stopped != _UNMARKED:
            is_short = not scan.is_finished or bool(scan.problems)
            self.dashboard.say(marking.told(len(self.table.marked)), is_error=is_short)
        self.show_frame()

    async def _mark_found(self, feed: Feed, marking: Marking) -> None:
        scan, seen = marking.scan, set[str]()
        while scan.stopped is None:
            feed.client.begin(REFRESH_DEADLINE_S)
            await feed.ask(scan.step)
            if scan.stopped == _UNMARKED:
                break
            found = {key: one for key, one in scan.found.items() if key not in seen}
            seen |= found.keys()
            if self.is_of_dead_letters and found:
                sent = await feed.ask(redriven_before, found.values())
                marking.left_out_count += len(sent)
                found = {key: one for key, one in found.items() if place_of(one) not in sent}
            self.table.add_marks(found)
            self.show_frame()

    def _stop_marking(self) -> None:
        if self._marking is not None:
            self._marking.scan.stop(_UNMARKED)
            self._marking = None

    def rows_text(self) -> str:
        if self._marking is not None:
            return f"marking, {self._marking.scan.scanned_count:,} looked at"
        if self._window is None:
            return super().rows_text()
        total = at_least(count(self._window.total_count)) if self.lacks else count(self._window.total_count)
        behind = f" behind {self._window.newer_count:,} newer ones" if self._window.newer_count else ""
        return f"{super().rows_text()} of {total}{behind}"

    def action_older(self) -> None:
        if self._window is not None:
            self._window_number = min(self._window_number + 1, self._window.last_number)
            self.action_refresh_now()

    def action_newer(self) -> None:
        self._window_number = max(0, self._window_number - 1)
        self.action_refresh_now()
