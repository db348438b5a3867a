"""The only writer of standard output: one result in, one of ten formats out.

``json``, ``jsonl`` and ``tsv`` are the contract that scripts may rely on; ``table`` and ``wide`` are for people and may
change; ``mqadmin`` is Apache's text. Text that comes from a server is never parsed as markup, and its control
characters never reach a terminal as such.
"""

from __future__ import annotations

import io
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Literal, TextIO

import msgspec

from rmqadmin.results import Column, Result, Row, columns
from rmqproto.errors import UsageError

DOCUMENT_VERSION = 1
"""``_version`` of every document; a change that could break a script raises it and goes into the manual."""

COLUMN_GAP = "  "


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    CSV = "csv"
    TSV = "tsv"
    NAME = "name"
    SCHEMA = "schema"
    MQADMIN = "mqadmin"


class Color(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def parse_format(text: str, where: str) -> Format:
    """UsageError that names the choices. ``where`` says what held the text, for the message."""
    try:
        return Format(text.lower())
    except ValueError:
        raise UsageError(
            f"{where}: {text!r} is no output format", hint=f"The formats are {', '.join(Format)}."
        ) from None


def wants_color(color: Color, stream: TextIO) -> bool:
    """NO_COLOR, FORCE_COLOR and TERM=dumb as everywhere; ``--color`` beats them all."""
    if color is not Color.AUTO:
        return color is Color.ALWAYS
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def write(result: Result, command: str, format: Format, color: Color = Color.AUTO, *, one_line: bool = False) -> None:
    """Writes a result to standard output. ``one_line``: a JSON document takes one line, for ``--watch``."""
    with_color = wants_color(color, sys.stdout)
    if format in (Format.TABLE, Format.WIDE) and (with_color or sys.stdout.isatty()):
        _write_rich(result, format, with_color)
    else:
        sys.stdout.write(render(result, command, format, one_line=one_line))
        sys.stdout.flush()


def render(result: Result, command: str, format: Format, *, one_line: bool = False) -> str:
    """A result as text, ending with a newline unless empty. UsageError for a format the result has no form in."""
    match format:
        case Format.TABLE | Format.WIDE:
            return _table(result, shown_columns(result, format))
        case Format.JSON:
            encoded = msgspec.json.encode(_document(result, command))
            return (encoded if one_line else msgspec.json.format(encoded, indent=2)).decode() + "\n"
        case Format.JSONL:
            return _json_lines(result, command, one_line=one_line)
        case Format.YAML:
            return _yaml(_document(result, command))
        case Format.CSV:
            return _csv(result)
        case Format.TSV:
            return _tsv(result)
        case Format.NAME:
            return "".join(name + "\n" for name in _names(result))
        case Format.SCHEMA:
            return schema([result.__class__])
        case Format.MQADMIN:
            return _mqadmin(result, command)


def _mqadmin(result: Result, command: str) -> str:
    text = result.mqadmin_text()
    if text is None:
        hint = "Use another format, for example --output table."
        raise UsageError(f"mqadmin prints nothing for this answer of {command}", hint=hint)
    return text


# --- documents: json, jsonl, yaml ------------------------------------------------------------------------------------


def _document(result: Result, command: str) -> dict[str, Any]:
    document: dict[str, Any] = {"_command": command, "_version": DOCUMENT_VERSION}
    summary = result.summary()
    if summary is not None:
        document["summary"] = summary
    document["items"] = list(result.rows())
    return document


def _json_lines(result: Result, command: str, *, one_line: bool) -> str:
    """One line a row; under ``--watch``, one line a tick, so that a reader can tell ticks apart."""
    if one_line:
        return msgspec.json.encode(_document(result, command)).decode() + "\n"
    head = {"_command": command, "_version": DOCUMENT_VERSION}
    lines = (msgspec.json.encode({**head, **msgspec.structs.asdict(row)}) for row in result.rows())
    return "".join(line.decode() + "\n" for line in lines)


def _yaml(document: dict[str, Any]) -> str:
    import yaml  # 12 ms

    plain = msgspec.to_builtins(document)
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, explicit_start=True)


# --- columns: table, csv, tsv ----------------------------------------------------------------------------------------


def shown_columns(result: Result, format: Format) -> list[Column]:
    """What a table shows: wide columns only where asked for, sparse ones only where a row has them."""
    rows = result.rows()
    return [
        column
        for column in columns(result.row_type)
        if (format is Format.WIDE or not column.is_wide)
        and (not column.is_sparse or any(getattr(row, column.name) is not None for row in rows))
    ]


def cell(row: Row, column: Column) -> str:
    """The text of one field, the same in tables, csv and tsv: unknown is empty, times are ISO 8601."""
    value = getattr(row, column.name)
    if value is None:
        return ""
    if column.is_time:
        from rmqadmin.times import iso_local

        return iso_local(value)
    return _text(value)


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return str(value)
        case list():
            return "; ".join(_text(item) for item in value)
        case dict():
            return " ".join(f"{name}={_text(item)}" for name, item in value.items())
        case _:
            return str(value)


def _csv(result: Result) -> str:
    import csv

    found = columns(result.row_type)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.title for column in found])
    writer.writerows([cell(row, column) for column in found] for row in result.rows())
    return out.getvalue()


_TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _tsv(result: Result) -> str:
    found = columns(result.row_type)
    lines = ["\t".join(column.title for column in found)]
    lines += ["\t".join(cell(row, column).translate(_TSV_ESCAPES) for column in found) for row in result.rows()]
    return "\n".join(lines) + "\n"


def _names(result: Result) -> Iterable[str]:
    """Each row's key once, its parts joined by a slash."""
    keys = [column for column in columns(result.row_type) if column.is_key]
    assert keys, f"{result.row_type.__name__} marks no field as its key"
    names = ("/".join(cell(row, column) for column in keys).translate(_TSV_ESCAPES) for row in result.rows())
    return dict.fromkeys(names)


def schema(result_types: Sequence[type[Result]]) -> str:
    """The fields of a command's answers, without asking anybody."""
    lines = []
    for result_type in result_types:
        if len(result_types) > 1:
            lines.append("# " + (result_type.__doc__ or "").partition("\n")[0])
        found = columns(result_type.row_type)
        lines += [f"{column.name}\t{column.type_name}\t{column.description}" for column in found]
    return "".join(line + "\n" for line in lines)


# --- tables ----------------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """Control characters (and halves of surrogate pairs) as escapes, so that a message key cannot drive a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def display_width(text: str) -> int:
    """Terminal cells, without Rich's table of widths (45 ms): wide East Asian characters take two, marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _table(result: Result, shown: list[Column]) -> str:
    """Columns two spaces apart, numbers to the right; what people see on a terminal, without its width and colours."""
    grid = [[column.title.upper() for column in shown]]
    grid += [[printable(cell(row, column)) for column in shown] for row in result.rows()]
    widths = [max(display_width(line[at]) for line in grid) for at in range(len(shown))]
    lines = []
    for texts in grid:
        cells = []
        for text, width, column in zip(texts, widths, shown, strict=True):
            gap = " " * (width - display_width(text))
            cells.append(gap + text if column.is_number else text + gap)
        lines.append(COLUMN_GAP.join(cells).rstrip())
    return "".join(line + "\n" for line in [*lines, *_summary_lines(result)])


def _summary_lines(result: Result) -> list[str]:
    summary = result.summary()
    if summary is None:
        return []
    known = [column for column in columns(summary.__class__) if getattr(summary, column.name) is not None]
    return ["", *(f"{column.title}: {printable(cell(summary, column))}" for column in known)]


def _write_rich(result: Result, format: Format, with_color: bool) -> None:
    """The same table as wide as the terminal: long cells are folded, nothing is cut off."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colors: Literal["auto"] | None = "auto" if with_color else None
    console = Console(
        file=sys.stdout, markup=False, highlight=False, emoji=False, color_system=colors, force_terminal=with_color
    )
    table = Table(box=SIMPLE_HEAD if with_color else None, pad_edge=False, header_style="bold", show_edge=False)
    shown = shown_columns(result, format)
    for column in shown:
        justify = "right" if column.is_number else "left"
        table.add_column(Text(column.title.upper()), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in result.rows():
        table.add_row(*(Text(printable(cell(row, column))) for column in shown))
    console.print(table)
    for line in _summary_lines(result):
        console.print(Text(line))
