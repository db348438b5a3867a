"""The columns of the tables on the opening screen."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import BY_GRADE, Mark
from rmqadmin.core.tables.sparkline import sparkline
from rmqadmin.core.units import clock
from rmqadmin.tui.widgets.tables.columns import NUMBERS, VITAL, Column

if TYPE_CHECKING:
    from rmqadmin.tui.memory.changes import ChangeSeen

LINE_WIDTH, SHORT_LINE_WIDTH = 60, 24
"""Widths of the sparklines of brokers, and of groups, which are read less often."""

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
