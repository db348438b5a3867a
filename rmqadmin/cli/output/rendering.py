"""One result as text, in one of ten formats, and the only writer of standard output.

``json``, ``jsonl`` and ``tsv`` are the contract that scripts may rely on; ``table`` and ``wide`` are for people and may
change (``core.tables`` lays them out); ``mqadmin`` is Apache's text. Text from a server is never parsed as markup, and
its control characters never reach a terminal unescaped.
"""

import codecs
import io
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import msgspec

from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.asked_columns import AS_USUAL, AskedColumns, Look
from rmqadmin.cli.output.output_format import DOCUMENTS, Format, wants_color
from rmqadmin.core.results import DOCUMENT_VERSION, Result, ResultColumn, Row, columns, line_of
from rmqadmin.core.tables.layout import Layout, TableView, summary_lines
from rmqadmin.core.terminal_text import printable
from rmqadmin.core.units import machine_text
from rmqproto.errors import UsageError

WIDTH_DEFAULT = 80
"""Columns, for a terminal that does not say its width."""

_WHOLE = DOCUMENTS | {Format.MQADMIN}
"""Formats that show all rows at once."""


def table_view(format: Format, has_color: bool, terminal: TextIO | None) -> TableView:
    """How tables are shown: fitted to a terminal, but at full width elsewhere and in ``wide``. ``wide`` also shows
    points in time where a table shows ages."""
    if format is Format.WIDE:
        return TableView(has_color=has_color)
    return TableView(None if terminal is None else terminal_width(terminal), time.time_ns() // 1_000_000, has_color)


def terminal_width(terminal: TextIO) -> int:
    """COLUMNS, else what the terminal says, else 80."""
    from_environment = os.environ.get("COLUMNS", "")
    if from_environment.isdecimal() and int(from_environment) > 0:
        return int(from_environment)
    try:
        return os.get_terminal_size(terminal.fileno()).columns or WIDTH_DEFAULT
    except (OSError, ValueError):
        return WIDTH_DEFAULT


def render(
    result: Result, command: str, format: Format, *, one_line: bool = False, view: TableView | None = None
) -> str:
    """A result as text, ending with a newline unless empty. UsageError for a format that the result does not
    support."""
    return "".join(pieces(result, command, format, view or table_view(format, False, None), one_line=one_line))


def pieces(
    result: Result,
    command: str,
    format: Format,
    view: TableView,
    *,
    one_line: bool = False,
    asked: AskedColumns = AS_USUAL,
    before: Result | None = None,
) -> Iterator[str]:
    """The text of ``render`` in parts of whole lines: each row as soon as it is known, if the format allows that.
    ``before``: an earlier answer; a table shows what has changed since."""
    if format in _WHOLE and result.is_endless():
        hint = f"These show each row as it comes: {', '.join(each for each in Format if each not in _WHOLE)}."
        raise UsageError(f"{format} shows all rows at once, but these have no end", hint=hint)
    match format:
        case Format.TABLE | Format.WIDE:
            yield from _table(result, format, view, asked, before)
        case Format.JSON:
            encoded = msgspec.json.encode(_document(result, command))
            yield (encoded if one_line else msgspec.json.format(encoded, indent=2)).decode() + "\n"
        case Format.JSONL:
            yield from _json_lines(result, command, one_line=one_line)
        case Format.YAML:
            import yaml  # 12 ms

            plain = msgspec.to_builtins(_document(result, command), str_keys=True)  # as in JSON
            yield yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, explicit_start=True)
        case Format.CSV:
            yield from _csv(result, asked)
        case Format.TSV:
            yield from _tsv(result, asked)
        case Format.NAME:
            yield from _names(result)
        case Format.SCHEMA:
            yield schema([result.__class__])
        case Format.MQADMIN:
            text = result.mqadmin_text()
            if text is None:
                hint = "Use another format, for example --output table."
                raise UsageError(f"mqadmin prints nothing for this answer of {command}", hint=hint)
            yield text


# --- documents: json, jsonl, yaml ------------------------------------------------------------------------------------


def _document(result: Result, command: str) -> dict[str, Any]:
    items = list(result.rows())  # the summary may be known only after the last row
    summary = result.summary()
    head: dict[str, Any] = {"_command": command, "_version": DOCUMENT_VERSION}
    return head | ({} if summary is None else {"summary": summary}) | {"items": items}


def _json_lines(result: Result, command: str, *, one_line: bool) -> Iterator[str]:
    """One line per row; under ``--watch``, one line per tick, so that a reader can tell ticks apart."""
    if one_line:
        yield msgspec.json.encode(_document(result, command)).decode() + "\n"
        return
    for rows in result.batches():
        yield b"".join(line_of(row, command) for row in rows).decode()


# --- columns: csv, tsv, name -----------------------------------------------------------------------------------------


def _csv(result: Result, asked: AskedColumns) -> Iterator[str]:
    import csv  # 0.7 ms

    found = asked.of(result.row_type)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if asked.has_header:
        writer.writerow([column.title for column in found])
    for rows in result.batches():
        writer.writerows([_cell(row, column) for column in found] for row in rows)
        yield out.getvalue()
        out.seek(out.truncate(0))


_TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _tsv(result: Result, asked: AskedColumns) -> Iterator[str]:
    found = asked.of(result.row_type)
    if asked.has_header:
        yield "\t".join(column.title for column in found) + "\n"
    for rows in result.batches():
        lines = ("\t".join(_cell(row, column).translate(_TSV_ESCAPES) for column in found) for row in rows)
        yield "".join(line + "\n" for line in lines)


def _names(result: Result) -> Iterator[str]:
    """Each distinct row key, its parts joined by a slash; a sparse one is left out where it is unknown."""
    keys = [column for column in columns(result.row_type) if column.is_key]
    assert keys, f"{result.row_type.__name__} marks no field as its key"
    seen: set[str] = set()
    for rows in result.batches():
        parts = ([text for one in keys if (text := _cell(row, one)) or not one.is_sparse] for row in rows)
        names = ["/".join(part).translate(_TSV_ESCAPES) for part in parts]
        new = [name for name in dict.fromkeys(names) if name not in seen]
        seen.update(new)
        yield "".join(name + "\n" for name in new)


def _cell(row: Row, column: ResultColumn) -> str:
    return machine_text(getattr(row, column.name, None), column)


def schema(result_types: Sequence[type[Result]]) -> str:
    """The fields of a command's answers. No server is asked."""
    lines = []
    for result_type in result_types:
        if len(result_types) > 1:
            lines.append("# " + (result_type.__doc__ or "").partition("\n")[0])
        found = columns(result_type.row_type)
        lines += [f"{column.name}\t{column.type_name}\t{column.description}" for column in found]
    return "".join(line + "\n" for line in lines)


# --- tables ----------------------------------------------------------------------------------------------------------


def shown_columns(result: Result, rows: Sequence[Row], format: Format) -> list[ResultColumn]:
    """The columns of a table. Wide columns are shown only if asked for or if they tell rows apart; sparse ones only if
    a row has a value."""

    def values(column: ResultColumn) -> set[Any]:
        return {getattr(row, column.name) for row in rows}

    return [
        column
        for column in columns(result.row_type)
        if (format is Format.WIDE or not column.is_wide or (column.is_apart and len(values(column)) > 1))
        and (not column.is_sparse or any(getattr(row, column.name) is not None for row in rows))
    ]


def _table(
    result: Result, format: Format, view: TableView, asked: AskedColumns, before: Result | None
) -> Iterator[str]:
    """The table in lines, laid out by the first rows available; later rows keep to that layout. Totals
    of no rows have no headings above them."""
    cards = result.cards(view.width, view.now_ms) if asked.chosen is None else None
    if cards is not None:
        yield from cards
        return
    if before is not None and before.__class__ is not result.__class__:
        before = None  # another kind of answer: nothing in it can be compared
    layout: Layout | None = None
    for rows in result.batches():
        if rows and layout is None:
            layout = _layout(result, rows, format, view, asked, before)
            yield layout.head() if asked.has_header else ""
        if layout is not None:
            yield "".join(map(layout.line, rows))
    summary = result.summary()
    if layout is None and (summary is None or asked.chosen is not None):
        layout = _layout(result, [], format, view, asked, before)
        yield layout.head() if asked.has_header else ""
    if layout is not None:
        yield from layout.reasons()
    if summary is not None:
        told = [column for column in columns(summary.__class__) if format is Format.WIDE or not column.is_wide]
        yield "" if layout is None else "\n"
        yield "".join(summary_lines(told, summary, view, None if before is None else before.summary()))
    if format is not Format.WIDE:
        yield from result.lines_below(view.width)
    if layout is not None:
        yield from layout.foot()


def _layout(
    result: Result,
    rows: Sequence[Row],
    format: Format,
    view: TableView,
    asked: AskedColumns,
    before: Result | None,
) -> Layout:
    is_chosen = asked.chosen is not None
    found = asked.of(result.row_type) if is_chosen else shown_columns(result, rows, format)
    earlier = None if before is None else before.rows()
    return Layout(found, rows, view, is_live=result.is_live(), keeps_all=is_chosen, before=earlier)


# --- standard output ------------------------------------------------------------------------------------------------


def write(
    result: Result,
    command: str,
    look: Look,
    *,
    one_line: bool = False,
    with_pager: bool = False,
    before: Result | None = None,
) -> None:
    """Writes a result to standard output, each part as it comes. ``one_line``: a JSON document takes one line, for
    ``--watch``. ``with_pager``: output longer than the terminal goes through a pager. ``before``: the answer before
    this one; a table that is redrawn in place shows what has changed since."""
    on_terminal = sys.stdout.isatty()
    raw = result.raw()
    if raw is not None and look.picked is not None:
        raise UsageError("bytes have no fields", hint="Leave out --json, or the option that asks for the bytes.")
    if raw is not None and look.asked != AS_USUAL:
        raise UsageError("bytes have no columns", hint="Leave out --columns and --no-header, or what asks for bytes.")
    if raw is not None and not on_terminal:
        _write_bytes(raw)
        return
    view = table_view(look.format, wants_color(look.color, sys.stdout), sys.stdout if on_terminal else None)
    if not diagnostics.draws_in_place(sys.stdout):
        before = None
    if raw is not None:
        texts = _escaped(raw)
    elif look.picked is not None:
        texts = look.picked.texts(result, is_pretty=on_terminal and not one_line)
    else:
        texts = pieces(result, command, look.format, view, one_line=one_line, asked=look.asked, before=before)
    if with_pager and on_terminal and not result.is_live():
        from rmqadmin.cli.output.pager import page

        page(texts)
        return
    for text in texts:
        sys.stdout.write(text)
        sys.stdout.flush()
        if not text:
            _check_reader()


def _check_reader() -> None:
    """BrokenPipeError if the reader of standard output went away. A write would notice, but `--follow` into `head` may
    write nothing for a long time."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # not a file
        return
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError


def _write_bytes(parts: Iterator[bytes]) -> None:
    sys.stdout.flush()
    for part in parts:
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        if not part:
            _check_reader()


def _escaped(parts: Iterator[bytes]) -> Iterator[str]:
    """The parts made safe for a terminal, so that their bytes cannot control it."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    for part in parts:
        lines = decoder.decode(part).split("\n")
        yield "\n".join(printable(line.replace("\t", "    ")) for line in lines)
    yield printable(decoder.decode(b"", final=True))
