"""``spark-report`` in one Spark session: rows, totals, files and exit statuses."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

from rmqadmin.core.exit_codes import ExitCode
from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from spark_tools.reports import queries
from spark_tools.reports.report import CHECKS, verified
from spark_tools.session import SessionOptions, spark_session
from tests.rmqadmin.commands.replay.test_spark_tables import GROUP, ORIGIN, TOPIC, fill, make, send
from tests.rmqadmin.conftest import Ran, Rmqadmin
from tests.spark_tools.spark.replay_driver import QUICK_JVM
from tests.support.servers import Server, standalone

pytestmark = pytest.mark.spark

ORDERS, LOST = "ReportOrders", "ReportLost"


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session(SessionOptions(master="local[2]", settings=QUICK_JVM)) as session:
        yield session


@pytest.fixture(autouse=True)
def _in_one_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can have only one session."""

    @contextmanager
    def same(*_: object) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr("spark_tools.session.spark_session", same)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("reported")
    settings = ("--set", "traceTopicEnable=true", "--set", "transactionCheckInterval=3600000")
    with standalone(directory, *settings) as running, AdminClient(running.namesrv_addr) as admin:
        fill(admin, running)
        make(admin, running, ORDERS, 2)
        make(admin, running, LOST)
        for key, queue_id in (("a", 0), ("a", 1), ("b c b", 1), ("b", 1)):
            send(admin, running, ORDERS, queue_id, key=key, TAGS="paid", UNIQ_KEY=f"ID{key}{queue_id}")
        send(admin, running, ORDERS, 0, UNIQ_KEY="IDa0")
        admin.create_group(running.broker_addr, SubscriptionGroupConfig(group_name="Other"))
        yield running


def totals(ran: Ran) -> dict[str, int]:
    return {name: count for name, count in ran.document["summary"].items() if count is not None}


def test_topics(rmqadmin: Rmqadmin, server: Server, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    parquet, picture = tmp_path / "files/topics.parquet", tmp_path / "topics.png"
    ran = rmqadmin(
        "-o", "json", "spark-report", "topics", "--topic", ORDERS, "--topic", TOPIC, "--parquet", str(parquet),
        "--picture", str(picture), status=0)  # fmt: skip
    first, second = ran.items
    assert (first["topic"], first["messages"], first["queues"], first["queue_skew"]) == (ORDERS, 5, 2, 1.2)
    assert (first["tags"], first["top_tags"]) == (1, "paid 4, (none) 1")
    assert (first["keys"], first["top_key_messages"]) == (3, 2)
    assert first["size_p50_bytes"] <= first["size_max_bytes"] < first["size_bytes"]
    assert first["peak_hour_ms"] <= first["newest_ms"] < first["peak_hour_ms"] + 7_200_000
    assert (second["topic"], second["messages"], second["keys"]) == (TOPIC, 5, 0)
    assert totals(ran) == {"messages": 10, "topics": 2}
    rows = pq.read_table(parquet).to_pylist()
    assert [(row["topic"], row["messages"]) for row in rows] == [(ORDERS, 5), (TOPIC, 5)]
    assert picture.read_bytes().startswith(b"\x89PNG")
    quiet = rmqadmin("-o", "json", "spark-report", "topics", "--topic", ORDERS, "--from", f"@{first['newest_ms'] + 1}")
    assert (quiet.status, quiet.items) == (0, []), "a queue without a message that late is no error"


def test_a_topic_without_messages_is_no_row(rmqadmin: Rmqadmin, tmp_path: Path) -> None:
    picture = tmp_path / "nothing.svg"
    ran = rmqadmin("-o", "json", "spark-report", "topics", "--topic", LOST, "--picture", str(picture))
    assert (ran.status, ran.items) == (0, []), ran.err
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("topics", "--topic", "NoSuch"), "there is no topic NoSuch"),
        (("deadletters", "--group", "NoSuch"), "there is no group NoSuch"),
        (("verify", "--store", "/no/such"), "/no/such holds no commitlog directory"),
    ],
)
def test_what_is_not_there_is_said_before_spark_starts(
    rmqadmin: Rmqadmin, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], why: str
) -> None:
    """A start takes ten seconds, on a busy machine a minute."""
    monkeypatch.setattr("spark_tools.session.spark_session", None)
    ran = rmqadmin("spark-report", *words)
    assert ran.status != 0
    assert why in ran.err
    assert "starting Spark" not in ran.err


def test_trace(rmqadmin: Rmqadmin, server: Server, tmp_path: Path) -> None:
    picture = tmp_path / "trace.pdf"
    ran = rmqadmin("-o", "json", "spark-report", "trace", "--picture", str(picture))
    (row,) = ran.items
    assert (row["topic"], row["group"], row["sent"], row["failed_sends"]) == (TOPIC, GROUP, 2, 1)
    assert (row["consumed"], row["missing"], row["retries"], row["latency_p50_ms"]) == (1, 1, 1, 700)
    assert totals(ran) == {"traced": 3, "sent": 2, "missing": 1}
    assert picture.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("is_live", [True, False])
def test_dead_letters_by_cause(rmqadmin: Rmqadmin, server: Server, is_live: bool) -> None:
    place = () if is_live else ("--store", str(server.store_dir))
    ran = rmqadmin("-o", "json", "spark-report", "deadletters", "--group", GROUP, *place, status=0)
    by_cause = {row["cause"]: row for row in ran.items}
    assert by_cause.keys() == {"no such account", None}
    known = by_cause["no such account"]
    assert (known["group"], known["origin_topic"], known["letters"], known["again"]) == (GROUP, ORIGIN, 1, 0)
    assert known["first_failure_ms"] <= known["newest_ms"]
    assert by_cause[None]["again"] == 1
    assert totals(ran) == {"letters": 2, "again": 1}


def test_verify_ends_with_1_if_it_finds_anything(rmqadmin: Rmqadmin, server: Server) -> None:
    ran = rmqadmin("-o", "json", "spark-report", "verify", "--topic", ORDERS)
    assert ran.status == ExitCode.REFUSED.value, ran.err
    assert "verify found 1 duplicate, 1 key out of order" in ran.err
    assert [(row["check"], row["subject"], row["count"]) for row in ran.items] == [
        ("duplicates", "IDa0", 1), ("order", "a", 1),
    ]  # fmt: skip
    assert ran.items[1]["detail"] == "in queues broker-a:0, broker-a:1"
    by_key = rmqadmin("-o", "json", "spark-report", "verify", "--topic", ORDERS, "--by", "key", "--check", "duplicates")
    assert [(row["subject"], row["count"]) for row in by_key.items] == [("a", 1), ("b", 1)]
    good = rmqadmin("-o", "json", "spark-report", "verify", "--topic", TOPIC, "--store", str(server.store_dir))
    assert (good.status, good.items) == (0, []), good.err
    assert totals(good) == {"messages": 5, "duplicates": 0, "gaps": 0, "order": 0}


def test_gaps_and_what_was_stored_late(spark: Any) -> None:
    born = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        ("T", "b", 0, offset, 10, born + timedelta(seconds=at), born, f"id{offset}", None, "k", {})
        for offset, at in ((3, 0), (4, 2), (7, 1), (8, 3))
    ]
    spark.createDataFrame(rows, queries.MESSAGE_SCHEMA).createOrReplaceTempView(queries.MESSAGES)
    report = verified(spark, "id", CHECKS)
    assert [(row["check"], row["subject"], row["count"], row["detail"]) for row in report.table.to_pylist()] == [
        ("gaps", "b:0", 2, "offsets 5 to 6"), ("order", "k", 1, "stored after a younger one at b:0:7"),
    ]  # fmt: skip
    assert report.totals == {"messages": 4, "duplicates": 0, "gaps": 1, "order": 1}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("lag",), "REPORT lag is none of topics, trace, deadletters, verify"),
        (("topics", "--group", "G"), "--group has no meaning with topics"),
        (("verify", "--check", "lost"), "--check lost is none of duplicates, gaps, order"),
        (("verify", "--by", "body"), "--by body is none of id, key"),
        (("topics", "--picture", "topics.doc"), "topics.doc is no picture"),
        (("topics", "--parquet", "/"), "/ cannot be written"),
        (("topics", "--picture", "/dev/null/topics.png"), "/dev/null/topics.png cannot be written"),
    ],
)
def test_usage_errors(rmqadmin: Rmqadmin, words: tuple[str, ...], why: str) -> None:
    ran = rmqadmin("spark-report", *words)
    assert ran.status == ExitCode.USAGE.value
    assert why in ran.err


def test_a_picture_needs_matplotlib(rmqadmin: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ran = rmqadmin("spark-report", "topics", "--picture", "topics.png", err="matplotlib is not installed")
    assert "rmqadmin[spark]" in ran.err
