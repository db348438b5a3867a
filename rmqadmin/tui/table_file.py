"""Saves the rows of a table in a file: the shown rows, in their order, with full values in the formats of `--output
csv` and `jsonl`. Sparklines are left out."""

from __future__ import annotations

import csv
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
    columns = [(at, column) for at, column in enumerate(rows.columns) if column.kind is not Shape.TREND]
    lacking = [_lacking(line) for line in rows.shown]
    names = [*(column.name for _, column in columns), *([LACKING] if any(lacking) else [])]
    records = [
        [*(_value(line, at, column) for at, column in columns), *([without] if any(lacking) else [])]
        for line, without in zip(rows.shown, lacking, strict=True)
    ]
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            if path.suffix == ".csv":
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(names)
                for record in records:
                    cells = [machine_text(value, column) for value, (_, column) in zip(record, columns, strict=False)]
                    writer.writerow([*cells, *record[len(columns) :]])
            else:
                told = (dict(zip(names, record, strict=True)) for record in records)
                file.writelines(f"{json.dumps(one, ensure_ascii=False)}\n" for one in told)
    except FileExistsError:
        raise UsageError(f"{path} exists already and is not replaced") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    return len(records)


def _value(line: Line, at: int, column: Column) -> Any:
    """The value as it was read, or as text if that is not a plain value. None if it is not known (yet)."""
    if column.part not in line.parts:
        return None
    value = column.of(line.parts[column.part])
    return value if value is None or isinstance(value, str | int | float) else line.texts[at]


def _lacking(line: Line) -> str:
    return ", ".join(sorted({name for part in line.parts.values() for name in getattr(part, "lacking", ())}))
