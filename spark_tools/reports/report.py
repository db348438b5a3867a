"""Makes one report: reads, asks Spark, and gives back an Arrow table, totals and what to draw.

from spark_tools.reports.report import make_report

report = make_report(spark, "verify", {"nameServer": "127.0.0.1:9876"}, topics=["orders"])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_tools.reports import queries
from spark_tools.reports.picture import Chart

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

REPORTS = ("topics", "trace", "deadletters", "verify")
OF_MESSAGES = ("topics", "verify")
"""Those that read messages; the others read a table."""
CHECKS = ("duplicates", "gaps", "order")
ROWS_MAX = 1000
"""More rows than that are counted in the totals, and not listed."""
LINES_MAX = 8
"""Of a picture with a line for each topic."""


@dataclass(frozen=True, slots=True)
class Report:
    """``table`` has the rows, with times as timestamps."""

    table: pa.Table
    totals: dict[str, Any] = field(default_factory=dict)
    chart: Chart | None = None


def make_report(
    spark: SparkSession,
    name: str,
    place: Mapping[str, str],
    *,
    topics: Sequence[str] = (),
    groups: Sequence[str] = (),
    times: Mapping[str, str] = {},
    ledger: str | None = None,
    by: str = "id",
    checks: Sequence[str] = CHECKS,
) -> Report:
    """``place``: options of the source that say what to read and how to reach it; ``times``: those that limit it.
    ``groups`` and ``ledger`` are for dead letters, ``by`` (id or key) and ``checks`` for verify."""
    from spark_tools.replay.spark_engine import run_spark

    reader = spark.read.format("rocketmq").options(**_asked(name, place, topics, groups, times, ledger))
    view = queries.TABLE
    if name in OF_MESSAGES:
        view, reader = queries.MESSAGES, reader.schema(queries.MESSAGE_SCHEMA)

    def ask() -> Report:
        frame = reader.load().persist()
        try:
            frame.createOrReplaceTempView(view)
            if name == "verify":
                return verified(spark, by, checks)
            return {"topics": _of_topics, "trace": _of_traces, "deadletters": _of_letters}[name](spark)
        finally:
            frame.unpersist()

    return run_spark(ask)


def check_place(name: str, place: Mapping[str, str], *, topics: Sequence[str] = (), groups: Sequence[str] = ()) -> None:
    """The errors that need no Spark: of a store, a cluster, a topic or a group that is not there."""
    from spark_tools.partitions import plan_read
    from spark_tools.source_options import parse_read_options
    from spark_tools.tables.table_reader import TableReader

    options = parse_read_options(_asked(name, place, topics, groups, {}, None))
    if name in OF_MESSAGES:
        plan_read(options)
    else:
        TableReader(options, []).partitions()


def _asked(
    name: str,
    place: Mapping[str, str],
    topics: Sequence[str],
    groups: Sequence[str],
    times: Mapping[str, str],
    ledger: str | None,
) -> dict[str, str]:
    """The options of the source."""
    asked, chosen = {**place, **times}, "subscribe"
    if name in OF_MESSAGES:
        asked["startingOffsetsByTimestampStrategy"] = "latest"  # of a quiet queue there is nothing
        if not topics and "nameServer" in place:
            asked["subscribePattern"] = ".*"
    elif name == "trace":
        asked["table"] = "traces"
    else:
        asked["table"], chosen = "deadletters", "group"
        if ledger is not None:
            asked["ledger"] = ledger
    if names := groups if chosen == "group" else topics:
        asked[chosen] = ",".join(names)
    return asked


def _of_topics(spark: SparkSession) -> Report:
    table = spark.sql(queries.TOPICS).toArrow()
    most = [row["topic"] for row in table.to_pylist()[:LINES_MAX]]
    lines: dict[str, list[tuple[Any, float]]] = {topic: [] for topic in most}
    for row in spark.sql(queries.HOURS).collect():
        if row.topic in lines:
            lines[row.topic].append((row.hour, row.messages))
    chart = Chart("Messages by hour", "messages", lines=lines)
    return Report(table, {"messages": sum(table["messages"].to_pylist()), "topics": len(table)}, chart)


def _of_traces(spark: SparkSession) -> Report:
    table = spark.sql(queries.TRACES).toArrow()
    bars = {
        f"{row['topic'] or '?'}\n{row['group']}": {
            name: row[f"latency_{name}_ms"] or 0 for name in ("p50", "p95", "p99")
        }
        for row in table.to_pylist()
        if row["group"] is not None
    }
    return Report(table, _first(spark.sql(queries.TRACE_TOTALS)), Chart("Latency", "ms", bars=bars))


def _of_letters(spark: SparkSession) -> Report:
    table = spark.sql(queries.LETTERS).toArrow()
    bars: dict[str, dict[str, float]] = {}
    for row in table.to_pylist()[: 2 * LINES_MAX]:
        label = f"{row['group']}\n{row['cause'] or row['tags'] or row['origin_topic']}"
        bars.setdefault(label, {"letters": 0})["letters"] += row["letters"]
    totals = {name: sum(table[name].to_pylist()) for name in ("letters", "again")}
    return Report(table, totals, Chart("Dead letters by cause", "letters", bars=bars))


def verified(spark: SparkSession, by: str, checks: Sequence[str]) -> Report:
    """What is wrong with the messages of the view ``queries.MESSAGES``."""
    found = {name: spark.sql(queries.CHECKS[name].format(identity=queries.IDENTITIES[by])) for name in checks}
    counts = {name: found[name].count() if name in found else None for name in CHECKS}
    listed: DataFrame | None = None
    for frame in found.values():
        part = frame.orderBy("topic", "subject").limit(ROWS_MAX)
        listed = part if listed is None else listed.unionByName(part)
    assert listed is not None
    bars: dict[str, dict[str, float]] = {}
    for name, frame in found.items():
        for row in frame.groupBy("topic").count().collect():
            bars.setdefault(row["topic"], dict.fromkeys(checks, 0))[name] = row["count"]
    totals = {"messages": spark.table(queries.MESSAGES).count(), **counts}
    return Report(listed.toArrow(), totals, Chart("What verify found", "findings", bars=bars))


def _first(frame: DataFrame) -> dict[str, Any]:
    row = frame.first()
    return {} if row is None else row.asDict()
