"""``--columns NAMES`` and ``--no-header``: which columns the formats with columns show, and whether with their head.

The names are those of ``--output schema``, as in ``--json FIELDS``, which is the same choice for JSON.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from rmqadmin.cli.output.output_format import COLUMNED, Color, Format
from rmqadmin.core.names import did_you_mean
from rmqadmin.core.results import Result, ResultColumn, Row, columns
from rmqproto.errors import UsageError


class PickedFields(msgspec.Struct, frozen=True):
    """``jq``: a program that takes the array; None shows the array."""

    names: tuple[str, ...]
    jq: str | None = None

    def texts(self, result: Result, *, is_pretty: bool) -> Iterator[str]:
        """The output in lines. ``is_pretty``: for a person, with each object over several lines."""
        items = [{name: getattr(row, name, None) for name in self.names} for row in result.rows()]
        array = msgspec.json.encode(items)
        if self.jq is None:
            yield _laid_out(array, is_pretty=is_pretty)
            return
        for value in _run_jq(self.jq, array):
            yield _text_of(value, is_pretty=is_pretty)


def pick_fields(text: str, jq: str | None, result_types: Sequence[type[Result]]) -> PickedFields:
    """Parses the fields and the program. UsageError for a field that no answer of the command has, and for an invalid
    program."""
    known = field_names(result_types)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        problem = f"there is no field {unknown[0]!r}" if unknown else "no field is named"
        raise UsageError(f"--json: {problem}", hint=fields_hint(result_types))
    if jq is not None:
        _compiled(jq)
    return PickedFields(names, jq)


def field_names(result_types: Sequence[type[Result]]) -> list[str]:
    return list(dict.fromkeys(column.name for kind in result_types for column in columns(kind.row_type)))


def fields_hint(result_types: Sequence[type[Result]]) -> str:
    return f"The fields are {', '.join(field_names(result_types))}."


def _compiled(program: str) -> Any:
    try:
        import jq  # 13 ms
    except ImportError:
        hint = "pip install 'rmqadmin[jq]', or pipe what --json writes into the program jq."
        raise UsageError("--jq needs the package jq, which is not installed", hint=hint) from None
    try:
        return jq.compile(program)
    except ValueError as error:
        raise UsageError(f"--jq: {_first_words(error)}") from None


def _run_jq(program: str, array: bytes) -> Iterator[Any]:
    try:
        yield from _compiled(program).input_text(array.decode())
    except ValueError as error:
        raise UsageError(f"--jq: {_first_words(error)}") from None


def _first_words(error: ValueError) -> str:
    """The message without the lines that draw where the error is."""
    return str(error).removeprefix("jq: error: ").splitlines()[0]


def _text_of(value: Any, *, is_pretty: bool) -> str:
    """A text value as it is, nothing for null, and anything else as JSON."""
    if isinstance(value, str):
        return value + "\n"
    return "\n" if value is None else _laid_out(msgspec.json.encode(value), is_pretty=is_pretty)


def _laid_out(data: bytes, *, is_pretty: bool) -> str:
    return (msgspec.json.format(data, indent=2) if is_pretty else data).decode() + "\n"


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
    names = [name if name in known else _by_heading(name, known.values()) for name in names]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        problem = f"there is no column {unknown[0]!r}" if unknown else "no column is named"
        raise UsageError(f"--columns: {problem}", hint=columns_hint(result_types, *unknown[:1]))
    return AskedColumns(tuple(known[name] for name in names), has_header)


def _by_heading(name: str, known: Iterable[ResultColumn]) -> str:
    """The field whose heading in tables is ``name``; ``name`` itself if there is none."""
    folded = name.casefold()
    return next((column.name for column in known if folded in (column.name, column.heading.casefold())), name)


def columns_hint(result_types: Sequence[type[Result]], unknown: str = "") -> str:
    """The names of the columns, after the one that ``unknown`` may have meant."""
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
