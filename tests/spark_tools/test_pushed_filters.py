"""Filters as Spark pushes them down: the reader returns every row that matches, and few others."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from spark_tools.partitions import plan_read
from spark_tools.source import FilteringReader
from spark_tools.source_options import parse_read_options
from tests.rmqserver.store import golden

COLUMNS = ["topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "storeSize", "tags"]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(golden.unpack("clean", tmp_path_factory.mktemp("store")))


def read(store: str, *filters: Filter, **options: str) -> list[Row]:
    parsed = parse_read_options({"path": store, "pushFilters": "true", **options})
    reader = FilteringReader(parsed, COLUMNS, plan_read(parsed))
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark is to check all of them again"
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["queueId"], row["queueOffset"]))


@pytest.fixture(scope="module")
def everything(store: str) -> list[Row]:
    return read(store)


@pytest.mark.parametrize("mode", ["scan", "index"])
@pytest.mark.parametrize(
    ("filters", "holds"),
    [
        ([EqualTo(("topic",), "NormalTopic")], lambda row: row["topic"] == "NormalTopic"),
        ([In(("topic",), ["NormalTopic", "OrderTopic"])], lambda row: row["topic"] in ("NormalTopic", "OrderTopic")),
        ([EqualTo(("brokerName",), "elsewhere")], lambda row: False),
        ([In(("queueId",), [1, 2])], lambda row: row["queueId"] in (1, 2)),
        (
            [GreaterThan(("queueOffset",), 2), LessThanOrEqual(("queueOffset",), 4)],
            lambda row: 2 < row["queueOffset"] <= 4,
        ),
        (
            [GreaterThanOrEqual(("storeSize",), 200), LessThan(("storeSize",), 260)],
            lambda row: 200 <= row["storeSize"] < 260,
        ),
        ([In(("tags",), ["TagA", "TagB", None])], lambda row: row["tags"] in ("TagA", "TagB")),
    ],
)  # fmt: skip
def test_exactly_the_rows_that_match_are_read(
    store: str, mode: str, filters: list[Filter], holds: Callable[[Row], bool]
) -> None:
    assert read(store, *filters, mode=mode) == [row for row in read(store, mode=mode) if holds(row)]


def test_times_are_compared_to_the_millisecond_in_any_zone(store: str, everything: list[Row]) -> None:
    edge = sorted(row["storeTimestamp"] for row in everything)[len(everything) // 2]
    before = [row for row in everything if row["storeTimestamp"] < edge]
    after = [row for row in everything if row["storeTimestamp"] >= edge]
    assert before
    assert after
    elsewhere = edge.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert read(store, LessThan(("storeTimestamp",), elsewhere)) == before
    assert read(store, GreaterThanOrEqual(("storeTimestamp",), edge.astimezone(UTC))) == after


def test_what_cannot_be_judged_here_is_left_to_spark(store: str, everything: list[Row]) -> None:
    unknown = [
        IsNotNull(("tags",)), Not(EqualTo(("queueId",), 1)), EqualTo(("brokerName", "nested"), "x"),
        LessThan(("storeTimestamp",), datetime(2020, 1, 1)), EqualTo(("properties",), {}),
    ]  # fmt: skip
    assert read(store, *unknown) == everything


def test_a_damaged_record_is_not_filtered_away(store: str, tmp_path: Path) -> None:
    """The fields of a damaged record cannot be trusted, so no filter on them may drop it."""
    from rmqproto.errors import StorageError

    directory = golden.unpack("clean", tmp_path)
    log = sorted((directory / "commitlog").iterdir())[0]
    with open(log, "r+b") as file:
        file.seek(84)
        file.write(b"\x7f")  # the length of the first body
    with pytest.raises(StorageError, match="its body length does not fit"):
        read(str(directory), EqualTo(("queueId",), 99), mode="scan", includeInternalTopics="true")
