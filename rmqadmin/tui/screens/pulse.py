"""The opening screen: is all well? It shows brokers with the last minutes of their numbers, the groups furthest behind,
dead letters, problems and changes. Enter opens the cause of a line.

Modules that ask servers are imported after the first frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from rmqadmin.core.health.finding import Grade, Subject, SubjectKind
from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import BY_GRADE, Mark
from rmqadmin.core.tables.sparkline import sparkline
from rmqadmin.core.units import at_least, clock, elapsed, rate, unchanged_text
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.literal import literal
from rmqadmin.tui.memory.history import SAMPLES_MAX
from rmqadmin.tui.memory.wrong_list import Verdict, Wrong
from rmqadmin.tui.screens.base import STALE_AFTER_MIN_S, DashboardScreen
from rmqadmin.tui.screens.row_parts import LINE_WIDTH, of_subject
from rmqadmin.tui.until_closed import while_mounted
from rmqadmin.tui.widgets.detail import Detail, finding_lines
from rmqadmin.tui.widgets.plot import Form, Plot, whole
from rmqadmin.tui.widgets.tables.columns import NUMBERS, VITAL, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.names import DLQ_PREFIX
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqadmin.tui.memory.history import ChangeSeen
    from rmqadmin.tui.refresh import Feed
    from rmqadmin.tui.sampler import Sampler
    from rmqadmin.tui.screens.over_time import ReadRow
    from rmqadmin.tui.sources.groups import GroupFacts


BREAK_HEIGHT = 30
"""From so many lines on, parts are higher. Their heights never depend on how many rows there are, so nothing jumps."""

_PLOTS: dict[str, tuple[str, Form]] = {
    "in_tps": ("in/s", rate), "out_tps": ("out/s", rate), "lag_count": ("lag of all groups", whole),
}  # fmt: skip
"""Numbers of the whole cluster, side by side: the title of each, and how to format a value."""

_LISTED = {SubjectKind.BROKER_SET: "replicas", SubjectKind.NAME_SERVER: "nameservers"}
"""The place where all of a kind are listed that have no screen of their own."""


class PulseScreen(DashboardScreen):
    step = "Pulse"
    file_name = "pulse"
    AUTO_FOCUS = "#troubles"
    VERTICAL_BREAKPOINTS = [*DashboardScreen.VERTICAL_BREAKPOINTS, (BREAK_HEIGHT, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("next_part", "app.focus_next"),
        bound("plot"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.troubles = self._table("troubles", trouble_columns(), has_titles=False)
        self.brokers = self._table("brokers", broker_columns())
        self.worst = self._table("worst", worst_columns())
        self.changes = self._table("changes", change_columns(), has_titles=False)
        self.plots = Horizontal(*(Plot(id=field) for field in _PLOTS), id="plots")
        self._counted: tuple[int, int] | None = None
        """How many are broken, and worth a look, in the title on screen."""
        self._was_complete = False
        self._placed: str | None = None
        """Where the cursor of what is wrong was put; elsewhere, a person has moved it."""

    def _table(self, id: str, columns: Sequence[Column], *, has_titles: bool = True) -> RowTable:
        stale_after_s = STALE_AFTER_MIN_S if has_titles else None
        return self.table_of(columns, id=id, stale_after_s=stale_after_s, has_titles=has_titles)

    # --- the body ----------------------------------------------------------------------------------------------------

    def body(self) -> Iterable[Widget]:
        self.troubles.border_title, self.brokers.border_title = "Wrong", "Brokers"
        self.worst.border_title, self.changes.border_title = "Furthest behind", "Changes"
        with Horizontal(id="wrong"):
            yield self.troubles
            self.beside = Detail(id="why")
            self.beside.border_title = "Why, and what to do"
            yield self.beside
        yield self.plots
        with Horizontal(id="below"):
            yield Vertical(self.brokers, self.worst, id="numbers")
            yield self.changes

    def on_mount(self) -> None:
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

    @while_mounted
    def show_pulse(self) -> None:
        """Shows everything that the sampler has found so far."""
        sampler = self.dashboard.sampler
        if sampler is None or self._suspended:
            return
        self._show_numbers(sampler)
        self._show_words(sampler)
        for field, (title, form) in _PLOTS.items():
            values = sampler.pulse.cluster_values(field, SAMPLES_MAX)
            latest = form(values[-1] if values else None)
            told = at_least(latest) if sampler.pulse.is_part(field) else latest
            self.query_one(f"#{field}", Plot).show(title, values, form, latest=told)
        self.show_frame()

    def _show_numbers(self, sampler: Sampler) -> None:
        """Shows each part with the age of its reading."""
        pulse, unknown = sampler.pulse, "unknown" if sampler.error else "asking …"
        not_behind = "no group is behind" + (
            f", but unknown on {', '.join(pulse.groups.lacks)}" if pulse.groups.lacks else ""
        )
        for table, kind, lines, asked_s, none in (
            (self.brokers, SubjectKind.BROKER, pulse.brokers.lines(), sampler.brokers_s, "no broker"),
            (self.worst, SubjectKind.GROUP, pulse.groups.worst_lines(), sampler.groups_s, not_behind),
        ):
            was = f"{none} when last asked" if sampler.error else none
            table.say_when_empty(was if asked_s else unknown)
            marks = {key: BY_GRADE[found[0].grade] for key, found in pulse.findings(kind).items()}
            table.set_rows((key, JudgedName(key, marks.get(key))) for key in lines)
            table.put(NUMBERS, lines, asked_s=asked_s)

    def _show_words(self, sampler: Sampler) -> None:
        pulse, unknown = sampler.pulse, "unknown" if sampler.error else "asking …"
        verdict = pulse.verdict() if sampler.error is None else Verdict(f"unknown: {sampler.error}", Mark.BAD)
        self.troubles.say_when_empty(f"✔ {verdict.text}" if verdict.mark is Mark.GOOD else verdict.text)
        wrong = pulse.wrong()
        self.troubles.set_rows((one.key, one) for one in wrong)
        if not self._was_complete and self._placed in (None, self.troubles.cursor_key):
            self.troubles.action_first()  # what is found first is hardly the worst
            self._placed = self.troubles.cursor_key
        self._was_complete = self._was_complete or pulse.is_complete
        broken = sum(one.finding.grade is Grade.ERROR for one in wrong)
        if (counted_now := (broken, len(wrong) - broken)) != self._counted:
            self._counted = counted_now
            more = [f"  [$text-error]{broken} broken[/]"] * (broken > 0)
            more += [f"  [$text-warning]{len(wrong) - broken} to look at[/]"] * (len(wrong) > broken)
            self.troubles.border_title = "Wrong" + "".join(more)
        away_since_ms = self.dashboard.away_since_ms
        self.changes.say_when_empty(unchanged_text(pulse.since_ms) if pulse.is_complete else unknown)
        self.changes.set_rows(
            (str(change.number), LogLine(change, change.at_ms > away_since_ms)) for change in pulse.log.newest_first()
        )

    def detailed_table(self) -> RowTable:
        return self.troubles

    def show_detail(self, detail: Detail) -> None:
        """All of the finding under the cursor, and what to do about it."""
        one: Wrong | None = self.troubles.chosen
        if one is None:
            detail.show(())
            return
        name, since = one.finding.subject.name, elapsed(self.now_ms() - one.since_ms)
        head = Content.assemble(literal(name, "bold"), (f"  since {since}", "$text-muted"))
        keys = Content.assemble(("enter", "bold $text-accent"), "  goes to its cause")
        detail.show([head, *finding_lines([one.finding]), Content(""), keys])

    def rows_text(self) -> str:
        """How many dead letters there are, and how much has changed while the user was away."""
        sampler = self.dashboard.sampler
        if sampler is None or not sampler.pulse.is_complete:
            return ""
        news_count, away_since_ms = sampler.pulse.log.since(self.dashboard.away_since_ms), self.dashboard.away_since_ms
        news = f", {counted(news_count, 'change')} since {clock(away_since_ms)}" if news_count else ""
        return sampler.pulse.letters.text() + news

    # --- opening the cause -------------------------------------------------------------------------------------------

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        subject = self._subject(event.table, event.key, event.row)
        screen = None if subject is None else self._cause(subject)
        if screen is None:
            self.dashboard.say("this line has nothing more to show")
        else:
            self.app.push_screen(screen)

    def _subject(self, table: RowTable, key: str, row: Any) -> Subject | None:
        """The subject of a line, ``row``."""
        kinds: dict[RowTable, SubjectKind] = {
            self.brokers: SubjectKind.BROKER,
            self.worst: SubjectKind.GROUP,
        }
        if table in kinds:
            return Subject(kinds[table], key)
        found: Subject | None = row.finding.subject if table is self.troubles else row.change.subject
        return found

    def _chosen(self) -> Subject | None:
        """The subject of the line under the cursor."""
        table = self.focused
        if not isinstance(table, RowTable) or (key := table.cursor_key) is None:
            return None
        return self._subject(table, key, table.chosen)

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
        memory, name = self.dashboard.memory, subject.name
        if subject.kind is SubjectKind.GROUP and (facts := self._facts(name)) is not None:
            from rmqadmin.tui.sources.groups import read_group_row

            return lambda client: read_group_row(client, memory, facts)
        if subject.kind is SubjectKind.TOPIC:
            from rmqadmin.tui.sources.topics import read_topic_row

            return lambda client: read_topic_row(client, memory, name)
        return None

    def _facts(self, group: str) -> GroupFacts | None:
        """A group as the pulse knows it."""
        from rmqadmin.tui.sources.groups import facts_of

        lag = (self.dashboard.pulse.groups.lags or {}).get(group)
        return None if lag is None else facts_of(self.dashboard.memory, group, [*lag.broker_names, *lag.lacking])

    def _cause(self, subject: Subject) -> Screen[None] | None:
        """The screen that shows the cause."""
        from rmqadmin.tui.screens.messages import MessagesScreen
        from rmqadmin.tui.screens.things import list_of, screen_of

        if subject.kind is SubjectKind.BROKER and (seen := self.dashboard.memory.seen.get(subject.name)) is not None:
            return screen_of(seen.replica)
        if subject.kind in _LISTED:
            return list_of(_LISTED[subject.kind])
        if subject.kind is SubjectKind.GROUP and (facts := self._facts(subject.name)) is not None:
            return screen_of(facts)
        if subject.kind is SubjectKind.DEAD_LETTERS:
            return MessagesScreen(DLQ_PREFIX + subject.name)
        return screen_of(subject.name) if subject.kind is SubjectKind.TOPIC else None


SHORT_LINE_WIDTH = 24
"""Of the sparklines of groups, which are read less often."""

NAME_WIDTH_MAX = 24
"""For tables where the text about a name matters more than the name."""

_GROUPS_EVERY = 8
"""Groups are read less often than brokers, so their cells may be older."""


class JudgedName(msgspec.Struct, frozen=True):
    """``mark``: that of the worst that is wrong with what has that name."""

    name: str
    mark: Mark | None


class LogLine(msgspec.Struct, frozen=True):
    """``is_new`` if the change happened while the user was away."""

    change: ChangeSeen
    is_new: bool


def _line(field: str, width: int, *, top: float | None = None, every: float = 1) -> Column:
    """A sparkline of a number's last values, without a title."""
    form = lambda values: sparkline(values, width, top=top)  # noqa: E731
    return Column(name=field, words=" ", part=NUMBERS, form=form, shape=Shape.TREND, every=every)


def _number(field: str, *, words: str | None = None, every: float = 1, **more: Any) -> Column:
    return Column(name=field, words=words, part=NUMBERS, is_number=True, importance=VITAL, every=every, **more)


def _name(name: str, words: str) -> Column:
    return Column(name=name, words=words, value=lambda row: row.name, mark=lambda row: row.mark, importance=VITAL)


def broker_columns() -> list[Column]:
    return [
        _name("key", "broker"),
        _number("in_tps"),
        _line("in_line", LINE_WIDTH),
        _number("out_tps"),
        _line("out_line", LINE_WIDTH),
        _number("disk_ratio"),
        _line("disk_line", LINE_WIDTH, top=1.0),
        _number("put_ms", words="put p99"),
        _line("put_line", LINE_WIDTH),
    ]


def worst_columns() -> list[Column]:
    return [
        _name("group", "group"),
        _number("lag_ms", words="lag time", every=_GROUPS_EVERY, is_sum=True),
        _number("lag_count", every=_GROUPS_EVERY, is_sum=True, mark=lambda _: None),
        _line("lag_line", SHORT_LINE_WIDTH, every=_GROUPS_EVERY),
        Column(name="trend", part=NUMBERS, shape=Shape.PROSE, every=_GROUPS_EVERY, readable_width=24),
    ]


def trouble_columns() -> list[Column]:
    return [
        Column(
            name="name", words="wrong", value=attrgetter("finding.subject.name"), importance=VITAL,
            width_max=NAME_WIDTH_MAX,
        ),
        Column(
            name="text", words="what", value=attrgetter("finding.what"),
            mark=lambda line: BY_GRADE[line.finding.grade], shape=Shape.CLAUSES, importance=VITAL, readable_width=30,
        ),
        Column(name="since_ms", is_time=True),
    ]  # fmt: skip


def change_columns() -> list[Column]:
    return [
        Column(
            name="at_ms", words="changes", value=attrgetter("change.at_ms"), form=clock,
            mark=lambda line: Mark.NEW if line.is_new else None, importance=VITAL,
        ),
        Column(
            name="name", words="of", value=lambda line: line.change.subject and line.change.subject.name, is_name=True,
            importance=VITAL, width_max=NAME_WIDTH_MAX,
        ),
        Column(
            name="text", words="what", value=attrgetter("change.text"), mark=attrgetter("change.mark"),
            shape=Shape.PROSE, importance=VITAL, readable_width=30,
        ),
    ]  # fmt: skip
