"""Translates Spark's filters: they decide which partitions need not be read, or only in part, and which single records
are dropped. Spark checks every filter again on the rows that it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from rmqreplay.source.offset_ranges import OffsetRange
from spark_tools.partitions import Part, ScanPart
from spark_tools.read_rules import NUMBERS, TEXTS, RowFilter


def keep_range(part: Part, filters: Sequence[Filter]) -> Part | None:
    """The part, or the piece of it in which the filters can hold; None if there is none."""
    if isinstance(part, ScanPart):
        return _keep_scan(part, filters)
    wanted: OffsetRange | None = part if isinstance(part, OffsetRange) else part.range
    for each in filters:
        wanted = _narrow(wanted, each) if wanted is not None else None
    if wanted is None or wanted.count <= 0:
        return None
    return wanted if isinstance(part, OffsetRange) else replace(part, range=wanted)


def _keep_scan(part: ScanPart, filters: Sequence[Filter]) -> ScanPart | None:
    for each in filters:
        values = _values(each, "topic")
        if values is not None:
            topics = frozenset(values) if part.topics is None else part.topics & frozenset(values)
            part = replace(part, topics=topics)
        names = _values(each, "brokerName")
        if names is not None and part.broker_name not in names:
            return None
    return part if part.topics is None or part.topics else None


def _narrow(wanted: OffsetRange, each: Filter) -> OffsetRange | None:
    queue = wanted.queue
    for column, own in (("topic", queue.topic), ("brokerName", queue.broker_name), ("queueId", queue.queue_id)):
        values = _values(each, column)
        if values is not None and own not in values:
            return None
    if not isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
        return wanted
    if each.attribute != ("queueOffset",) or not isinstance(each.value, int):
        return wanted
    start, end = wanted.start, wanted.end
    if isinstance(each, EqualTo | GreaterThanOrEqual):
        start = max(start, each.value)
    elif isinstance(each, GreaterThan):
        start = max(start, each.value + 1)
    if isinstance(each, EqualTo | LessThanOrEqual):
        end = min(end, each.value + 1)
    elif isinstance(each, LessThan):
        end = min(end, each.value)
    return OffsetRange(queue, start, max(start, end))


def row_filters(filters: Sequence[Filter]) -> list[RowFilter]:
    """The filters that can be checked on a record before it is a row. Only Spark checks the others."""
    found = []
    for each in filters:
        if not isinstance(each, EqualTo | In | LessThan | LessThanOrEqual | GreaterThan | GreaterThanOrEqual):
            continue
        column = each.attribute[0] if len(each.attribute) == 1 else ""
        raw = each.value if isinstance(each, In) else [each.value]
        if column in TEXTS and isinstance(each, EqualTo | In):
            found.append(RowFilter(column, "in", tuple(value for value in raw if isinstance(value, str))))
        elif column in NUMBERS and all(_number(value) is not None for value in raw):
            found.append(RowFilter(column, _OPERATORS.get(type(each), "in"), tuple(map(_number, raw))))
    return found


_OPERATORS: dict[type[Filter], str] = {
    LessThan: "<", LessThanOrEqual: "<=", GreaterThan: ">", GreaterThanOrEqual: ">=",
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _number(value: Any) -> int | None:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // timedelta(microseconds=1)
    return value if isinstance(value, int) else None


def _values(each: Filter, column: str) -> list[Any] | None:
    """The values that an = or IN filter allows in a column; None if the filter does not restrict it."""
    if isinstance(each, EqualTo) and each.attribute == (column,):
        return [each.value]
    if isinstance(each, In) and each.attribute == (column,):
        return list(each.value)
    return None
