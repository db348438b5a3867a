"""``--columns NAMES`` and ``--no-header``: which columns the formats with columns show, and whether with their head.

The names are those of ``--output schema``, as in ``--json FIELDS``, which is the same choice for JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.cli.output.output_format import COLUMNED, Color, Format
from rmqadmin.core.results import Result, ResultColumn, Row, columns
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqadmin.cli.output.picked_fields import PickedFields


class AskedColumns(msgspec.Struct, frozen=True):
    """``chosen``: these columns in this order; None for those that the format shows by itself. A command may have
    several answers: a chosen column of another answer is there, and empty, so that scripts find each in its place."""

    chosen: tuple[ResultColumn, ...] | None = None
    has_header: bool = True

    def of(self, row_type: type[Row]) -> tuple[ResultColumn, ...]:
        """The columns of a format that shows all of them unless some are chosen."""
        own = columns(row_type)
        if self.chosen is None:
            return own
        by_name = {column.name: column for column in own}
        return tuple(by_name.get(column.name, column) for column in self.chosen)


AS_USUAL = AskedColumns()


def ask_columns(
    text: str | None, format: Format, result_types: Sequence[type[Result]], *, has_header: bool
) -> AskedColumns:
    """Parses the options; ``text`` is None without ``--columns``. UsageError for a column that no answer of the command
    has, and for a format without columns."""
    if format not in COLUMNED:
        option = "--no-header" if text is None else "--columns"
        hint = "--json FIELDS chooses the fields of JSON." if text is not None else "Leave it out."
        formats = ", ".join(each for each in Format if each in COLUMNED)
        raise UsageError(f"{option} is for the formats {formats}, not for {format}", hint=hint)
    if text is None:
        return AskedColumns(has_header=has_header)
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    known = {column.name: column for kind in reversed(result_types) for column in columns(kind.row_type)}
    names = [name if name in known else _by_heading(name, known) for name in names]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        problem = f"there is no column {unknown[0]!r}" if unknown else "no column is named"
        raise UsageError(f"--columns: {problem}", hint=columns_hint(result_types, *unknown[:1]))
    return AskedColumns(tuple(known[name] for name in names), has_header)


def _by_heading(name: str, known: Iterable[str]) -> str:
    """The field whose heading in tables is ``name``; ``name`` itself if there is none."""
    from rmqadmin.core.tables.headings import words

    folded = name.casefold()
    return next((field for field in known if folded in (field, words(field).casefold())), name)


def columns_hint(result_types: Sequence[type[Result]], unknown: str = "") -> str:
    """The names of the columns, after the one that ``unknown`` may have meant."""
    from rmqadmin.cli.output.picked_fields import field_names  # neither is needed without a mistake
    from rmqadmin.core.names import did_you_mean

    known = field_names(result_types)
    listed = f"The columns are {', '.join(known)}."
    meant = did_you_mean(unknown, known) if unknown else None
    return listed if meant is None else f"{meant} {listed}"


class Look(msgspec.Struct, frozen=True):
    """``asked``: the columns to show, and whether with their head. ``picked``: shows these fields instead of the
    format."""

    format: Format
    color: Color = Color.AUTO
    asked: AskedColumns = AS_USUAL
    picked: PickedFields | None = None
