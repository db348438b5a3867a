"""Plans and waves as Spark jobs: read the ranges, filter, and pass the rows to the sink. A dry run and a real run use
the same query; they differ only in whether the sink sends."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError, UsageError
from rmqproto.filters.message_conditions import compile_pattern, has_pattern, has_texts, parse_values
from rmqproto.filters.sql92 import compile_sql92
from rmqproto.filters.subscription import ALL, parse_tags
from rmqproto.message.properties import TAGS
from rmqproto.message.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK
from rmqproto.wire.whole_types import whole
from rmqreplay.ledger.letters import Place
from rmqreplay.plans.plan import Plan, Selection, Source
from rmqreplay.run.engine import Failure, TaskReport, WaveSpec, failure, merge_reports
from rmqreplay.sending.delivery import IN_FLIGHT_DEFAULT, Rejected
from rmqreplay.sending.redrive import damaged_at_origin
from rmqreplay.source.archive_manifest import covering, is_archive, load_manifest
from rmqreplay.source.live import PLAIN, ClusterAccess
from rmqreplay.source.offset_ranges import OffsetRange, OffsetSet, hulls
from rmqreplay.source.queue_ranges import nested
from spark_tools.part_reader import parts_frame
from spark_tools.partitions import plan_read
from spark_tools.read_rules import RowFilter
from spark_tools.replay.sink import COLUMNS, REPORT_SCHEMA, WaveSink
from spark_tools.schema import ddl
from spark_tools.source_options import access_options, parse_read_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession


T = TypeVar("T")

_PYTHON_ERROR = re.compile(r"[A-Za-z]\w*(Error|Exception|Interrupt|Iteration)(: |$)")
"""The last line of a Python traceback: its class has no package, while a Java class has one."""


_CAUSE = "Caused by: "
_OUR_ERRORS = ("rmqproto.errors.", "rmqreplay.", "spark_tools.")
_PLACE = ("topic", "brokerName", "queueId", "queueOffset")
ARCHIVE_DDL = ddl(corrupt=True) + ", date date"
"""An archive as Spark reads it: the columns of the source, and the date of the store time by which files lie."""
TASK_OFFSETS = 1000
"""So many successive messages of an archived queue go to one task."""


class SparkJobError(RocketMQError):
    """A Spark job failed. The message is that of our own error, or Spark's first line."""


class SparkEngine:
    """Runs the Spark jobs of one replay over one session."""

    def __init__(self, spark: SparkSession, partitions: int, access: ClusterAccess = PLAIN):
        self._spark = spark
        self._partitions = partitions
        self._access = access.apart()
        self.open_cluster = access.cluster
        self.in_flight = IN_FLIGHT_DEFAULT
        # Executors on other machines reach the permit service at the driver's address.
        self.permit_host = spark.sparkContext.getConf().get("spark.driver.host", "127.0.0.1")

    def read(self, plan: Plan, ranges: Sequence[OffsetRange]) -> DataFrame:
        """The selected messages of the ranges' hull; offsets between two ranges of a queue are dropped by the sink.

        The read is planned here and done in a step of the query. The data source is used only with SQL of the user on a
        live cluster: Spark pushes the SQL's conditions on topics, tags, times and numbers down to it, so that fewer
        rows are made. On store files the SQL must not drop damaged rows, and Spark pushes down no condition that lets
        these pass."""
        if plan.source.path is not None and is_archive(plan.source.path):
            return _filtered(self._archived(plan, plan.source.path, ranges), plan.selection)
        options: dict[str, str] = {
            **source_options(plan.source), **range_options(ranges), "minPartitions": str(self._partitions),
            "decompress": "true" if needs_plain_body(plan) else "false", "tags": plan.selection.tags,
            "pushFilters": self._spark.conf.get("spark.sql.python.filterPushdown.enabled") or "false",
        }  # fmt: skip
        if plan.keep_order:
            options |= {"minPartitions": "0"} | ({"mode": "index"} if plan.source.path is not None else {})
        if plan.selection.sql92:
            options["sql92"] = plan.selection.sql92
        if plan.source.path is not None:
            options["onCorrupt"] = "column"
        if plan.source.name_server is not None:
            options |= access_options(self._access)
        if plan.selection.where is not None and plan.source.path is None:
            frame = self._spark.read.format("rocketmq").options(**options).load()
        else:
            read = parse_read_options(options)
            frame = parts_frame(
                self._spark, plan_read(read).parts, read, row_filters(plan.selection),
                corrupt=read.on_corrupt == "column",
            )  # fmt: skip
        return _filtered(frame, plan.selection)

    def _archived(self, plan: Plan, root: str, ranges: Sequence[OffsetRange]) -> DataFrame:
        """The rows of an archive, in tasks that get the same ones on every attempt. What brokers and the reader of
        store files filter is filtered here."""
        from pyspark.sql import functions as f

        frame = archived_frame(self._spark, root, hulls(ranges)).where(places_condition(hulls(ranges)))
        tags, sql92 = plan.selection.tags, plan.selection.sql92
        if (tags, sql92) != (ALL, None):
            fits = f.udf(partial(_fits, tags, sql92), "boolean", useArrow=False)
            frame = frame.where(f.col("corrupt").isNotNull() | fits("properties"))
        spread = [*_PLACE[:3]] if plan.keep_order else [*_PLACE[:3], f.expr(f"queueOffset div {TASK_OFFSETS}")]
        return frame.repartition(self._partitions, *spread).sortWithinPartitions(*_PLACE)

    def _whole(self, plan: Plan) -> DataFrame:
        """The selected messages of the plan that are not damaged."""
        frame = self.read(plan, plan.ranges)
        return frame.where("corrupt is null") if "corrupt" in frame.columns else frame

    def run(self, plan: Plan, ranges: Sequence[OffsetRange], spec: WaveSpec) -> TaskReport:
        """Runs one wave. Returns when every task has succeeded; SparkJobError otherwise."""
        if not ranges:
            return TaskReport()
        frame = self.read(plan, ranges)
        _refuse_chance(frame)
        rows = _sink_rows(frame, plan)
        reported = run_spark(rows.mapInArrow(WaveSink(spec, self._access), REPORT_SCHEMA).collect)
        return merge_reports([msgspec.json.decode(row["report"], type=whole(TaskReport)) for row in reported])

    def write_files(self, plan: Plan, ranges: Sequence[OffsetRange], excluded: OffsetSet, directory: str) -> TaskReport:
        frame = self.read(plan, ranges)
        frame = told_plain(frame) if needs_plain_body(plan) else frame
        _refuse_chance(frame)
        unnamed = " or (corrupt is not null and topic = '')" if "corrupt" in frame.columns else ""
        frame = frame.where(places_condition(ranges) + unnamed)
        if excluded.count:
            frame = frame.where(f"not ({places_condition(list(excluded))})")
        run_spark(lambda: frame.write.mode("overwrite").parquet(directory))
        written = self._spark.read.parquet(directory)
        if not unnamed:
            return TaskReport(stored=run_spark(written.count))
        stored = run_spark(written.where("corrupt is null").count)
        damaged = run_spark(written.where("corrupt is not null").select(*_PLACE, "corrupt").collect)
        return TaskReport(stored=stored, failures=[_damage(row) for row in damaged])

    def first_places(self, plan: Plan, limit: int, excluded: OffsetSet | None = None) -> OffsetSet:
        """The first ``limit`` selected messages by store time, of those that are not ``excluded``."""
        frame = self._whole(plan).select("storeTimestamp", *_PLACE)
        if excluded is not None and excluded.count:
            frame = frame.where(f"not ({places_condition(list(excluded))})")
        rows = run_spark(lambda: frame.orderBy("storeTimestamp", *_PLACE).limit(limit).collect())
        return OffsetSet.of_offsets(map(_place, rows))

    def duplicates(self, plan: Plan) -> OffsetSet:
        """The selected messages that ``plan.dedup`` leaves out: all but the first or the last of equal ones."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        keys = {
            "id": "msgId", "key": "keys", "body": "sha2(body, 256)",
            "origin-id": "coalesce(properties['ORIGIN_MESSAGE_ID'], offsetMsgId)",
        }  # fmt: skip
        order = ["storeTimestamp", *_PLACE]
        by = [f.col(name).desc() if plan.dedup_keep == "last" else f.col(name).asc() for name in order]
        frame = self._whole(plan).withColumn("_key", f.expr(keys[plan.dedup or "id"]))
        ranked = frame.where("_key is not null").select(*order, "_key").withColumn(
            "_rank", f.row_number().over(Window.partitionBy("_key").orderBy(*by))
        )  # fmt: skip
        rows = run_spark(lambda: ranked.where("_rank > 1").select(*order[1:]).collect())
        return OffsetSet.of_offsets(map(_place, rows))


def archived_frame(spark: SparkSession, root: str, ranges: Sequence[OffsetRange]) -> DataFrame:
    """The archived messages of the ranges, and others of the same files. StorageError for a file that is missing.
    Spark compares checksums only if it is told to; without them it reads most changes of a byte as data."""
    paths = [os.path.join(root, file.path) for file in covering(load_manifest(root), list(ranges))]
    frame = spark.read.schema(ARCHIVE_DDL).options(
        **{"basePath": root, "parquet.page.verify-checksum.enabled": "true"}
    )  # fmt: skip
    return frame.parquet(*paths).drop("date") if paths else spark.createDataFrame([], ddl(corrupt=True))


def _place(row: Row) -> Place:
    return MessageQueue(row["topic"], row["brokerName"], row["queueId"]), row["queueOffset"]


def _damage(row: Row) -> Failure:
    reason = damaged_at_origin(row["corrupt"])
    if not row["topic"]:
        return Failure("", -1, "", 0, reason)
    return failure(Rejected(_place(row), "", 0, reason))


def _fits(tags: str, sql92: str | None, properties: Mapping[str, str]) -> bool:
    """Whether a broker would hand out a message with these properties."""
    return _parsed(tags).matches(properties.get(TAGS)) and (sql92 is None or _compiled(sql92)(properties))


_parsed, _compiled = cache(parse_tags), cache(compile_sql92)


def row_filters(selection: Selection) -> list[RowFilter]:
    """The conditions of the selection that can be checked on a record before it is a row. Spark checks all of them
    again."""
    found = []
    for operator, time_ms in ((">=", selection.start_time_ms), ("<", selection.end_time_ms)):
        if time_ms is not None:
            found.append(RowFilter("storeTimestamp", operator, (time_ms * 1000,)))
    if selection.reconsume_times_min:
        found.append(RowFilter("reconsumeTimes", ">=", (selection.reconsume_times_min,)))
    return found


def source_options(source: Source) -> dict[str, str]:
    """The source as options of the ``rocketmq`` data source."""
    if source.path is not None:
        return {"path": source.path, "brokerName": source.broker_name or ""}
    return {"nameServer": source.name_server or ""}


def range_options(ranges: Sequence[OffsetRange]) -> dict[str, str]:
    """The ranges as numbers in the source's options, so that nothing is left to resolve."""
    by_queue = {each.queue: each for each in hulls(ranges)}
    assign = {topic: {name: [*ids] for name, ids in brokers.items()} for topic, brokers in nested(by_queue).items()}
    starts = nested({queue: each.start for queue, each in by_queue.items()})
    ends = nested({queue: each.end for queue, each in by_queue.items()})
    return {"assign": json.dumps(assign), "startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends)}


def needs_plain_body(plan: Plan) -> bool:
    """Whether an expression or a function uses the body. Otherwise the stored bytes are passed on unchanged."""
    where, body = plan.selection.where or "", plan.transform.body_expression or ""
    looks = bool(body or plan.selection.json_values or plan.selection.body_pattern)
    looks = looks or plan.transform.function is not None
    return looks or plan.dedup == "body" or "body" in where.lower()


def _filtered(frame: DataFrame, selection: Selection) -> DataFrame:
    """The rows that hold, and every damaged one: no filter can tell whether it matters, so the sink rejects it."""
    from pyspark.sql import functions as f

    damaged = f.col("corrupt").isNotNull() if "corrupt" in frame.columns else None
    for holds in _conditions(selection):
        frame = frame.where(holds if damaged is None else holds | damaged)
    if selection.where is not None:
        with _sql_of("--where"):
            holds = f.expr(selection.where)
            frame = frame.where(holds if damaged is None else holds | damaged)
    return frame


def _conditions(selection: Selection) -> Iterator[Column]:
    from pyspark.sql import functions as f

    if selection.start_time_ms is not None:
        yield f.col("storeTimestamp") >= f.timestamp_millis(f.lit(selection.start_time_ms))
    if selection.end_time_ms is not None:
        yield f.col("storeTimestamp") < f.timestamp_millis(f.lit(selection.end_time_ms))
    for key in selection.keys:
        yield f.array_contains(f.split("keys", " "), key)
    for name, value in selection.properties.items():
        yield f.col("properties")[name] == value
    if selection.reconsume_times_min:
        yield f.col("reconsumeTimes") >= selection.reconsume_times_min
    if selection.ids:
        ids = [*selection.ids]
        yield f.col("msgId").isin(ids) | f.col("offsetMsgId").isin(ids)
    if selection.json_values:
        # Spark's get_json_object treats numbers, duplicate names and text behind the end differently.
        yield f.udf(partial(has_texts, parse_values(selection.json_values)), "boolean", useArrow=False)("body")
    if selection.body_pattern:
        yield f.udf(partial(has_pattern, compile_pattern(selection.body_pattern)), "boolean", useArrow=False)("body")


@contextmanager
def _sql_of(option: str) -> Iterator[None]:
    """Turns an error in the SQL of an option into a UsageError that names the option."""
    try:
        yield
    except Exception as error:  # Spark's parser has its own classes; the text helps the user
        raise UsageError(f"{option}: {str(error).strip().splitlines()[0]}") from None


def _sink_rows(frame: DataFrame, plan: Plan) -> DataFrame:
    from pyspark.sql import functions as f

    if "corrupt" not in frame.columns:
        frame = frame.withColumn("corrupt", f.lit(None).cast("string"))
    if plan.transform.body_expression is not None:
        with _sql_of("--body-expr"):
            frame = frame.withColumn("body", f.expr(plan.transform.body_expression).cast("binary"))
    return (told_plain(frame) if needs_plain_body(plan) else frame).select(*COLUMNS)


def told_plain(frame: DataFrame) -> DataFrame:
    """The frame, whose bodies were decompressed unless they are damaged, with a sysFlag that says so."""
    from pyspark.sql import functions as f

    plain = f.col("sysFlag").bitwiseAND(f.lit(~(COMPRESSED | COMPRESSION_TYPE_MASK)))
    if "corrupt" in frame.columns:
        plain = f.when(f.col("corrupt").isNull(), plain).otherwise(f.col("sysFlag"))
    return frame.withColumn("sysFlag", plain)


def places_condition(ranges: Sequence[OffsetRange]) -> str:
    """SQL that holds for the messages of the ranges."""
    terms = [
        f"(topic = {_quoted(each.queue.topic)} and brokerName = {_quoted(each.queue.broker_name)} "
        f"and queueId = {each.queue.queue_id} and queueOffset >= {each.start} and queueOffset < {each.end})"
        for each in ranges
    ]
    return " or ".join(terms) or "false"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _refuse_chance(frame: DataFrame) -> None:
    """UsageError for a filter or transform whose result may differ on the next attempt."""
    from pyspark.errors import AnalysisException

    session = frame.sparkSession
    try:
        session.range(2).lateralJoin(frame)  # Spark refuses it for a plan that depends on chance
    except AnalysisException as error:
        if "NON_DETERMINISTIC" not in (error.getCondition() or ""):
            raise
        is_fixed = False
    else:
        (plan,) = session.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=frame).collect()
        is_fixed = not any(name in plan[0].lower() for name in ("current_timestamp(", "current_date(", "now("))
    if not is_fixed:
        raise UsageError(
            "a filter that depends on chance or on the time of day would choose other messages on the next attempt",
            hint="write numbers instead of rand(), now() and current_timestamp()",
        )


def run_spark(action: Callable[[], T]) -> T:
    """The action's result. SparkJobError with one line of text for any error of Spark."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return action()
    except (PySparkException, Py4JError) as error:
        raise SparkJobError(first_cause(str(error))) from None


def first_cause(text: str) -> str:
    """One line from a Python traceback inside a Java one: the text of our own error, else the error that ended the
    Python worker, else Spark's and what caused it, such as a full disk."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(_OUR_ERRORS) and ": " in line]
    if ours:
        return ours[-1].partition(": ")[2]
    pythons = [line for line in lines if _PYTHON_ERROR.match(line)]
    if pythons:
        return pythons[-1]
    javas = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    first = (javas or lines or ["Spark failed without saying why"])[0]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return f"{first} ({causes[-1]})" if causes and causes[-1] not in first else first
