"""``spark-report``: reports over a cluster or a store, by Spark. ``spark_tools.reports`` makes them; this module has
the options, the columns and the files."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Texts
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.cli.options.message_options import StoredSince
from rmqadmin.cli.options.replay_options import Before, Ledger, SparkOptions
from rmqadmin.cli.replay_run import session_options
from rmqadmin.cli.run_progress import StageLines
from rmqadmin.core.files import state_dir
from rmqadmin.core.results import TIME, FoundRows, R, Row, doc
from rmqproto.errors import StorageError, UsageError
from rmqproto.times import time_range
from rmqproto.wording import counted

if TYPE_CHECKING:
    from spark_tools.reports.report import Report


class TopicReportRow(Row, frozen=True):
    topic: Annotated[str, doc("topic", key=True)]
    messages: Annotated[int, doc("messages stored", vital=True)]
    size_bytes: Annotated[int, doc("bytes of their records")]
    size_p50_bytes: Annotated[int, doc("half of the records are at most so large", wide=True)]
    size_p99_bytes: Annotated[int, doc("99 of 100 records are at most so large", wide=True)]
    size_max_bytes: Annotated[int, doc("the largest record", minor=True)]
    oldest_ms: Annotated[int | None, TIME, doc("when the oldest was stored", minor=True)]
    newest_ms: Annotated[int | None, TIME, doc("when the newest was stored")]
    messages_tps: Annotated[float | None, doc("messages a second, from the oldest to the newest")]
    peak_hour_ms: Annotated[int | None, TIME, doc("the hour with the most messages")]
    peak_hour_messages: Annotated[int, doc("how many these are", minor=True)]
    hour_skew: Annotated[float, doc("that hour against the mean of all hours that have messages")]
    queues: Annotated[int, doc("queues with messages", minor=True)]
    queue_skew: Annotated[float, doc("the fullest queue against their mean")]
    tags: Annotated[int, doc("different tags", minor=True)]
    top_tags: Annotated[str | None, doc("the five most frequent, with counts")]
    keys: Annotated[int, doc("different keys", minor=True)]
    top_key: Annotated[str | None, doc("the most frequent")]
    top_key_messages: Annotated[int | None, doc("messages that have it", minor=True)]


class TraceReportRow(Row, frozen=True):
    topic: Annotated[str | None, doc("topic; unknown where the sends were not traced", key=True)]
    group: Annotated[str | None, doc("consumer group; null where none reported", key=True)]
    sent: Annotated[int | None, doc("sends that succeeded")]
    failed_sends: Annotated[int | None, doc("sends that failed", minor=True)]
    consumed: Annotated[int, doc("messages consumed with success")]
    missing: Annotated[int | None, doc("sent, and not reported as consumed by the group", vital=True)]
    retries: Annotated[int, doc("deliveries after the first")]
    latency_p50_ms: Annotated[int | None, doc("from the send to the delivery: half took at most so long")]
    latency_p95_ms: Annotated[int | None, doc("95 of 100 took at most so long", minor=True)]
    latency_p99_ms: Annotated[int | None, doc("99 of 100 took at most so long")]
    latency_max_ms: Annotated[int | None, doc("the longest")]
    cost_p50_ms: Annotated[int | None, doc("how long consuming takes: half take at most so long")]
    cost_max_ms: Annotated[int | None, doc("the longest", minor=True)]


class LetterReportRow(Row, frozen=True):
    group: Annotated[str, doc("consumer group that gave up", key=True)]
    origin_topic: Annotated[str, doc("topic that the messages were sent to", key=True)]
    cause: Annotated[str | None, doc("what the application says in a property, its first line", key=True)]
    tags: Annotated[str | None, doc("tag", key=True)]
    letters: Annotated[int, doc("dead letters", vital=True)]
    again: Annotated[int, doc("those that failed again after a redrive")]
    redriven: Annotated[int | None, doc("those that were redriven since, by the ledgers")]
    first_failure_ms: Annotated[int | None, TIME, doc("when the first of them failed first")]
    newest_ms: Annotated[int | None, TIME, doc("when the newest was stored")]


class VerifyRow(Row, frozen=True):
    check: Annotated[str, doc("duplicates, gaps or order", key=True)]
    topic: Annotated[str, doc("topic", key=True)]
    subject: Annotated[str | None, doc("the id or key, or the queue", key=True)]
    count: Annotated[int, doc("copies beyond the first, missing offsets, or places out of order", vital=True)]
    detail: Annotated[str, doc("where")]


class ReportTotals(Row, frozen=True):
    messages: Annotated[int | None, doc("messages read", sparse=True)] = None
    topics: Annotated[int | None, doc("topics with messages", sparse=True)] = None
    traced: Annotated[int | None, doc("messages of which a client reported anything", sparse=True)] = None
    sent: Annotated[int | None, doc("sends that succeeded", sparse=True)] = None
    missing: Annotated[int | None, doc("of these, messages that no consumer reported as consumed", sparse=True)] = None
    letters: Annotated[int | None, doc("dead letters", sparse=True)] = None
    again: Annotated[int | None, doc("dead letters that failed again after a redrive", sparse=True)] = None
    duplicates: Annotated[int | None, doc("ids or keys that several messages of a topic have", sparse=True)] = None
    gaps: Annotated[int | None, doc("gaps between queue offsets", sparse=True)] = None
    order: Annotated[int | None, doc("keys whose messages are not in order", sparse=True)] = None


class _Reported(FoundRows[R], frozen=True):
    """The rows of one report, and its totals."""

    told: ReportTotals

    def summary(self) -> ReportTotals:
        return self.told


class TopicsReport(_Reported[TopicReportRow], frozen=True):
    """``topics``: topics, the largest first."""


class TraceReport(_Reported[TraceReportRow], frozen=True):
    """``trace``: topics and groups, those with most missing first."""


class LettersReport(_Reported[LetterReportRow], frozen=True):
    """``deadletters``: causes, the most frequent first."""


class VerifyReport(_Reported[VerifyRow], frozen=True):
    """``verify``: what was found; nothing if all is well."""

    def problem(self) -> str | None:
        told = self.told
        counts = (
            (told.duplicates, "duplicate", None), (told.gaps, "gap", None),
            (told.order, "key out of order", "keys out of order"),
        )  # fmt: skip
        found = [counted(count, word, plural) for count, word, plural in counts if count]
        return f"verify found {', '.join(found)}" if found else None


_KINDS: dict[str, type[_Reported[Any]]] = {
    "topics": TopicsReport, "trace": TraceReport, "deadletters": LettersReport, "verify": VerifyReport,
}  # fmt: skip


def spark_report(
    call: Call,
    report: Annotated[str, Value.NAME, argument("topics, trace, deadletters or verify.", metavar="REPORT")],
    spark: SparkOptions,
    store: Annotated[
        str | None, Value.FILE, option("--store", "A store directory, not a cluster.", metavar="DIR")
    ] = None,
    topics: Annotated[Texts, Value.TOPIC, option("--topic", "This topic only. Repeatable.")] = None,
    groups: Annotated[Texts, Value.GROUP, option("--group", "With deadletters: this group. Repeatable.")] = None,
    start: StoredSince = None,
    end: Before = None,
    by: Annotated[
        str, Value.NAME, option("--by", "With verify: what duplicates have in common.", metavar="id|key")
    ] = "id",
    checks: Annotated[
        Texts, Value.NAME, option("--check", "With verify: duplicates, gaps or order only. Repeatable.")
    ] = None,
    ledger: Ledger = None,
    parquet: Annotated[str | None, Value.FILE, option("--parquet", "Also write the rows as Parquet.")] = None,
    picture: Annotated[str | None, Value.FILE, option("--picture", "Also draw it: .png, .svg or .pdf.")] = None,
) -> TopicsReport | TraceReport | LettersReport | VerifyReport:
    """topics: rates, sizes, tags, keys, skew by hour and queue. trace: latency, retries, what was sent and not
    consumed. deadletters: by cause. verify: duplicates, gaps, order by key over queues; exit status 1 if there is any.
    Nothing is consumed. Needs pip install 'rmqadmin[spark]'.

      rmqadmin spark-report topics --from -1d --picture topics.png
      rmqadmin spark-report verify --topic OrderTopic --by key
      rmqadmin -o json spark-report deadletters --store /data/store --parquet letters.parquet
    """
    from spark_tools.reports.picture import check_picture, draw
    from spark_tools.reports.report import CHECKS, check_place, make_report
    from spark_tools.session import check_installed, spark_session

    _check(report, topics=topics, groups=groups, checks=checks, by=by)
    if picture is not None:
        check_picture(picture)
    for path in filter(None, (parquet, picture)):
        _check_place(path)
    check_installed()
    place = _place(call, store)
    check_place(report, place, topics=topics or (), groups=groups or ())
    between = time_range(start, end, call.now_ms(), "--from/--since", "--to-time/--until", tell=call.notice)
    times = {"startingTimestamp": between.begin_ms, "endingTimestamp": between.end_ms}
    own = state_dir() / "replay"  # of this machine, where tasks need not run
    if ledger is None and own.is_dir() and spark.master.startswith("local"):
        ledger = str(own)
    stage = StageLines()
    stage("starting Spark, which takes some seconds")
    try:
        with spark_session(replace(session_options(spark), is_short=True), stage) as session:
            stage("reading")
            made = make_report(
                session,
                report,
                place,
                topics=topics or (),
                groups=groups or (),
                times={name: str(ms) for name, ms in times.items() if ms is not None},
                ledger=ledger,
                by=by,
                checks=checks or CHECKS,
            )
    finally:
        stage.stop()
    _write(made, parquet)
    if picture is not None and made.chart is not None:
        try:
            Path(picture).parent.mkdir(parents=True, exist_ok=True)
            draw(made.chart, picture)
        except OSError as error:
            raise StorageError(f"cannot write {picture}: {error.strerror or error}") from None
    kind = _KINDS[report]
    rows = [msgspec.convert(_in_ms(row), kind.row_type) for row in made.table.to_pylist()]
    return kind(rows, ReportTotals(**made.totals))  # type: ignore[return-value]


def _check(report: str, *, topics: Texts, groups: Texts, checks: Texts, by: str) -> None:
    """UsageError for a word that is none of those meant, and for an option of another report."""
    from spark_tools.reports.report import CHECKS, REPORTS

    for name, value, known in (("REPORT", report, REPORTS), ("--by", by, ("id", "key"))):
        if value not in known:
            raise UsageError(f"{name} {value} is none of {', '.join(known)}")
    for value in checks or ():
        if value not in CHECKS:
            raise UsageError(f"--check {value} is none of {', '.join(CHECKS)}")
    unmeant = {
        "--topic": bool(topics) and report in ("trace", "deadletters"),
        "--group": bool(groups) and report != "deadletters",
        "--check": bool(checks) and report != "verify",
        "--by": by != "id" and report != "verify",
    }
    for name in (name for name, is_unmeant in unmeant.items() if is_unmeant):
        raise UsageError(f"{name} has no meaning with {report}")


def _check_place(path: str) -> None:
    """UsageError for a file that cannot be written: Spark would have worked for nothing."""
    there = [each for each in Path(path).absolute().parents if each.exists()]
    if Path(path).is_dir() or not there[0].is_dir() or not os.access(there[0], os.W_OK):
        raise UsageError(f"{path} cannot be written")


def _place(call: Call, store: str | None) -> dict[str, str]:
    """The options of the source that say what to read, and how it is reached."""
    if store is not None:
        return {"path": store}
    from rmqreplay.source.live import ClusterAccess
    from spark_tools.source_options import access_options

    return {"nameServer": ";".join(call.namesrv_addrs)} | access_options(ClusterAccess(**call.settings.access()))


def _write(made: Report, parquet: str | None) -> None:
    if parquet is None:
        return
    import pyarrow.parquet as pq

    try:
        Path(parquet).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(made.table, parquet)
    except OSError as error:
        raise StorageError(f"cannot write {parquet}: {error.strerror or error}") from None


def _in_ms(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its times in ms, under the names of the command's columns."""
    return {
        f"{name}_ms" if isinstance(value, datetime) else name: round(value.timestamp() * 1000)
        if isinstance(value, datetime)
        else value
        for name, value in row.items()
    }
