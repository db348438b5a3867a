"""Runs what ``docs/spark-replay.md``, ``spark-archive.md``, ``spark.md`` and ``spark-write.md`` show, in
order and in one Spark session: commands, a user function, and Python."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import Fresh, topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqadmin.core.exit_codes import ExitCode
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.names import dlq_topic, retry_topic
from rmqreplay.run import following
from spark_tools import session
from spark_tools.archive import archive_run
from spark_tools.replay import entry
from spark_tools.replay.spark_engine import SparkEngine
from spark_tools.session import SessionOptions, spark_session
from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqadmin.pages.page_lines import ROOT, command_lines, run_line
from tests.spark_tools.spark.replay_driver import QUICK_JVM
from tests.support.servers import Server, until

pytestmark = pytest.mark.spark

PAGE, DATA_PAGE, WRITE_PAGE = "docs/spark-replay.md", "docs/spark.md", "docs/spark-write.md"
ARCHIVE_PAGE = "docs/spark-archive.md"
COUNT = 12


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session(SessionOptions(master="local[2]", settings=QUICK_JVM)) as running:
        yield running


@pytest.fixture
def in_one_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes commands use the session that exists instead of starting one, because a process can have only one."""

    @contextmanager
    def same(*_: object) -> Iterator[Any]:
        yield spark

    for module in (entry, archive_run, session):
        monkeypatch.setattr(module, "spark_session", same)


@pytest.fixture
def names(server: Server, admin: AdminClient, fresh: Fresh) -> dict[str, str]:
    """Maps the page's names to a group with dead letters, half of them paid for, and to topics to send them to.
    ``_origin``, which is not on the page, is the topic they came from."""
    group, origin, invoices = fresh("PageGroup"), fresh("PageOrigin"), fresh("PageInvoices")
    topics = (origin, invoices, dlq_topic(group), retry_topic(group))
    for topic in topics:
        admin.create_topic(server.broker_addr, topic_config(topic))
    until(lambda: set(topics) <= set(admin.topic_list()))
    for number in range(COUNT):
        body = b'{"number":%d,"paid":%s}' % (number, b"false" if number % 2 else b"true")
        letter = Message(dlq_topic(group), body, properties={"RETRY_TOPIC": origin})
        admin.send_message(server.broker_addr, MessageQueue(letter.topic, "broker-a", 0), letter)
    return {
        "billing": group, "_origin": origin, "_retry": retry_topic(group), "invoices": invoices,
        "127.0.0.1:9876": server.namesrv_addr, "/var/lib/rocketmq/store": str(server.store_dir),
    }  # fmt: skip


def numbers(server: Server, topic: str) -> list[int]:
    with AdminClient(server.namesrv_addr) as admin:
        pulled = admin.pull_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), 0)
    return sorted(json.loads(message.body)["number"] for message in pulled.messages)


def python_block(with_word: str, names: dict[str, str], page: str = PAGE) -> str:
    """The page's Python block that contains this word, with this test's names."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    (text,) = (block for block in blocks if with_word in block)
    for written, meant in names.items():
        text = text.replace(written, meant)
    return str(text)


@pytest.mark.usefixtures("in_one_session")
def test_the_commands_of_the_page(
    rmqadmin: Rmqadmin, server: Server, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second command is interrupted the first time, and the third finishes its work."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    plan, execute, resume = command_lines(PAGE)
    run_line(rmqadmin, plan, names, monkeypatch)
    assert numbers(server, names["_retry"]) == []
    (job,) = (path.name for path in tmp_path.glob("state/rmqadmin/replay/DLQ-*"))
    (written,) = re.findall(r"--job (\S+)", execute)
    assert re.fullmatch(r"DLQ-billing-\d{8}T\d{6}\.\d{3}Z", written)
    with monkeypatch.context() as patch:
        patch.setattr(SparkEngine, "run", _interrupted)
        run_line(rmqadmin, f"{execute} exit status {ExitCode.INTERRUPTED.value}", {written: job}, monkeypatch)
    run_line(rmqadmin, resume, {}, monkeypatch)
    assert numbers(server, names["_retry"]) == list(range(COUNT))

    run_line(rmqadmin, plan, {**names, "--dlq": "--no-skip-redriven --dlq"}, monkeypatch)
    (again,) = {path.name for path in tmp_path.glob("state/rmqadmin/replay/DLQ-*")} - {job}
    run_line(rmqadmin, execute, {written: again}, monkeypatch)
    assert numbers(server, names["_retry"]) == sorted([*range(COUNT)] * 2)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("in_one_session")
def test_the_function_of_the_page(
    rmqadmin: Rmqadmin, server: Server, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fixes.py").write_text(python_block("def only_paid", names))
    assert "--transform fixes:only_paid" in python_block("def only_paid", names)
    to = ("--to", f"topic:{names['invoices']}", "--ledger", "ledger", "--execute", "--yes")
    rmqadmin("spark-replay", "--dlq", names["billing"], "--transform", "fixes:only_paid", *to, status=0)
    assert numbers(server, names["invoices"]) == list(range(0, COUNT, 2))


@pytest.mark.usefixtures("in_one_session")
def test_the_replay_from_python(
    server: Server, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    exec(python_block("from spark_tools.replay.entry import replay", names), {})
    assert capsys.readouterr().out.startswith(f"{COUNT} AuditResult(expected={COUNT}, found={COUNT}, missing=0")
    assert numbers(server, names["_retry"]) == list(range(COUNT))


@pytest.mark.usefixtures("in_one_session")
def test_the_archive_of_the_page(
    rmqadmin: Rmqadmin, server: Server, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meant = {**names, "orders": names["_origin"], "/data/archive": str(tmp_path / "archive")}
    queue = MessageQueue(names["_origin"], "broker-a", 0)
    with AdminClient(server.namesrv_addr) as admin:
        for number in range(COUNT):
            admin.send_message(server.broker_addr, queue, Message(queue.topic, b'{"number":%d}' % number))
    once, again, *_ = command_lines(ARCHIVE_PAGE)
    run_line(rmqadmin, once, meant, monkeypatch)
    run_line(rmqadmin, again, meant, monkeypatch)
    ran = rmqadmin(
        "-o", "json", "spark-archive", "--topic", queue.topic, "--archive", meant["/data/archive"], "--check", status=0
    )
    wanted = {"start_offset": 0, "end_offset": COUNT, "new": 0, "waiting": 0, "missing": None, "left_s": None}
    assert [wanted == {name: row[name] for name in wanted} for row in ran.items] == [True]
    assert (ran.document["summary"]["messages"], ran.document["summary"]["archived"]) == (0, COUNT)

    def end(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(following, "follow", partial(following.follow, sleep=end))
    where = ("--archive", meant["/data/archive"], "--to", f"topic:{names['invoices']}", "--ledger", str(tmp_path / "l"))
    ran = rmqadmin("spark-replay", *where, "--job", "move", "--follow", "--execute", "--yes")
    assert ran.status == ExitCode.INTERRUPTED
    assert f"move.0: {COUNT} messages sent" in ran.err
    assert "everything is sent; looking for more every 30 s" in ran.err
    assert numbers(server, names["invoices"]) == list(range(COUNT))
    ran = rmqadmin("spark-replay", "--archive", str(tmp_path), "--to", "same")
    assert ran.status == ExitCode.USAGE
    assert f"--archive {tmp_path} holds no archive" in ran.err


def test_the_data_source_from_python(
    spark: Any, server: Server, names: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [(bytearray(b'{"number":%d}' % number),) for number in range(3)]
    known = {"spark": spark, "df": spark.createDataFrame(rows, "body binary")}
    exec(python_block("spark.read.format", names, DATA_PAGE), known)
    exec(python_block("df.write.format", names, WRITE_PAGE), known)
    assert numbers(server, names["invoices"]) == [0, 1, 2]
    assert re.search(rf"{names['_origin']} *\| *(NULL)? *\| *{COUNT} *\|", capfd.readouterr().out)
