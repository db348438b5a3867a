"""Saves the rows of a table in a file: the shown rows, in their order, with full values in the formats of `--output
csv` and `jsonl`. Sparklines are left out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from rmqadmin.core.results import Shape
from rmqadmin.core.units import machine_text
from rmqadmin.tui.widgets.tables.columns import Column
from rmqadmin.tui.widgets.tables.rows import Line, Rows
from rmqproto.errors import UsageError

LACKING = "lacking"
"""The last field, present if any sum lacks a broker: the names of the brokers missing from the row's sums."""


def write_table(path: Path, rows: Rows) -> int:
    """Writes the file and returns the number of rows. UsageError if the file exists, cannot be written, or has another
    ending."""
    if path.suffix not in (".csv", ".jsonl"):
        raise UsageError(f"{path} must end in .csv or .jsonl")
    text = _csv(rows) if path.suffix == ".csv" else _jsonl(rows)
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists already and is not replaced") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    return len(rows.shown)


def _csv(rows: Rows) -> str:
    out, columns, has_lacking = io.StringIO(), _columns(rows), _has_lacking(rows)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(column.name for _, column in columns), *([LACKING] if has_lacking else [])])
    for line in rows.shown:
        cells = [machine_text(_value(line, at, column), column) for at, column in columns]
        writer.writerow([*cells, *([_lacking(line)] if has_lacking else [])])
    return out.getvalue()


def _jsonl(rows: Rows) -> str:
    columns, has_lacking = _columns(rows), _has_lacking(rows)
    found = []
    for line in rows.shown:
        record = {column.name: _value(line, at, column) for at, column in columns}
        found.append(json.dumps({**record, LACKING: _lacking(line)} if has_lacking else record, ensure_ascii=False))
    return "".join(f"{record}\n" for record in found)


def _columns(rows: Rows) -> list[tuple[int, Column]]:
    return [(at, column) for at, column in enumerate(rows.columns) if column.kind is not Shape.TREND]


def _value(line: Line, at: int, column: Column) -> Any:
    """The value as it was read, or as text if that is not a plain value. None if it is not known (yet)."""
    if column.part not in line.parts:
        return None
    value = column.of(line.parts[column.part])
    return value if value is None or isinstance(value, str | int | float) else line.texts[at]


def _lacking(line: Line) -> str:
    return ", ".join(sorted({name for part in line.parts.values() for name in getattr(part, "lacking", ())}))


def _has_lacking(rows: Rows) -> bool:
    return any(map(_lacking, rows.shown))
