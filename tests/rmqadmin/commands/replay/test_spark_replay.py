"""The command's flags, exit status and output, without Spark: ``replay`` is replaced by a function that records its
call or ends as told. ``tests/spark_tools/spark/test_redrive_command.py`` runs the whole command."""

import io
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.support.servers import topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqadmin.cli import run_progress
from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ConnectError, NotFoundError
from rmqreplay.ledger.audit import AuditResult
from rmqreplay.ledger.ledger import Begin, Ledger
from rmqreplay.plans.plan import Plan, Selection, Source, TargetRule, Transform
from rmqreplay.plans.request import ReplayRequest
from rmqreplay.run.consumers import CanaryReport
from rmqreplay.run.entry import ReplayOutcome, Runner
from rmqreplay.run.job import FailuresExceeded, PlanConflict, ReplayProgress, ReplayResult, RunOptions
from rmqreplay.source.offset_ranges import OffsetRange
from spark_tools.replay import entry
from spark_tools.replay.spark_engine import SparkJobError
from spark_tools.session import SessionOptions
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.servers import Server, until

PLAN = Plan(
    job="billing-1", created_ms=1, source=Source(name_server="h:1"),
    ranges=[OffsetRange(MessageQueue("%DLQ%billing", "broker-a", 0), 3, 10)],
    target=TargetRule(kind="same", topics=["bills", "invoices"]),
    shown={
        "selected": 7, "size_bytes": 700, "excluded": 2, "duplicates": 1, "topics": {"bills": 3, "invoices": 4},
        "tags": {"": 7}, "groups": ["accounts", "billing"], "would_reject": 1,
        "reject_reasons": {"its body is empty": 1},
    },
)  # fmt: skip
Replay = Callable[..., ReplayOutcome]


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments that ``replay`` was called with."""
    seen: dict[str, Any] = {}

    def record(request: ReplayRequest | None, runner: Runner, **how: Any) -> ReplayOutcome:
        seen.update(how, request=request, runner=runner)
        return ReplayOutcome(PLAN, "/ledgers/billing-1")

    monkeypatch.setattr(entry, "replay", record)
    return seen


def ends_with(monkeypatch: pytest.MonkeyPatch, end: ReplayResult | BaseException) -> None:
    def replay(request: ReplayRequest | None, runner: Runner, **how: Any) -> ReplayOutcome:
        if isinstance(end, BaseException):
            raise end
        return ReplayOutcome(PLAN, "/ledgers/billing-1", end)

    monkeypatch.setattr(entry, "replay", replay)


def test_nothing_is_sent_unless_told_to_and_the_plan_is_shown(run: Rmqadmin, replayed: dict[str, Any]) -> None:
    ran = run("-o", "json", "spark-replay", "-n", "h:1", "--dlq", "billing", "--rate", "2", status=0)
    assert (replayed["execute"], replayed["resume"], replayed["job"]) == (False, False, None)
    assert "rmqadmin spark-replay --execute --job billing-1" in ran.err
    totals = ran.document["summary"]
    assert totals | {
        "executed": False, "selected": 7, "excluded": 2, "duplicates": 1, "topics": "bills 3, invoices 4",
        "groups": "accounts, billing", "would_reject": 1, "reject_reasons": "its body is empty 1", "estimated_s": 3.5,
    } == totals  # fmt: skip
    assert [(row["start_offset"], row["end_offset"]) for row in ran.items] == [(3, 10)]


def test_dry_run_wins_over_execute(run: Rmqadmin, replayed: dict[str, Any]) -> None:
    assert run("spark-replay", "-n", "h:1", "--dlq", "billing", "--execute", "--dry-run").status == 0
    assert replayed["execute"] is False


def test_every_flag_reaches_the_request(run: Rmqadmin, replayed: dict[str, Any], tmp_path) -> None:
    """``--no-audit`` and ``--no-skip-redriven`` used to be in the manual but not recognised. Of repeatable options only
    the first used to count, so more was selected than asked for."""
    (tmp_path / "ids").write_text("id-1\n\nid-2\n")
    run(
        "spark-replay", "-n", "h:1", "-ak", "me", "-sk", "hush", "--topic", "T", "--topic", "U", "--dlq", "billing",
        "--queue", "broker-a:1", "--from", "@1000000000000", "--to-time", "@1000000001000", "--limit", "9",
        "--tag", "a || b", "--key", "k", "--key", "l", "--property", "p=1", "--property", "q=2",
        "--where", "queueId = 0", "--min-reconsume", "2",
        "--ids", str(tmp_path / "ids"), "--set-property", "status=again", "--set-property", "by=me",
        "--unset-property", "old", "--set-tag", "t",
        "--body-expr", "body", "--new-ids", "--max-redrives", "5", "--to", "group", "--order", "queue",
        "--dedup", "key", "--dedup-keep", "last", "--no-skip-redriven", "--wave", "100", "--job", "mine",
        "--ledger", "/ledgers", "--rate", "50", "--byte-rate", "1000", "--max-failures", "3", "--no-audit",
        "--park-topic", "parked", "--canary", "8", "--canary-wait", "5",
        "--delay-level", "2", "--at-least-once",
        "--sample", "2", "--master", "spark://h:7077", "--cores", "3", "--driver-memory", "2g", "--java-home", "/java",
        "--spark-conf", "spark.x=y", "--spark-log", "/log", "--execute", status=0)  # fmt: skip
    request, runner = replayed["request"], replayed["runner"]
    credentials = request.credentials
    assert credentials.access_key == "me"
    assert request == ReplayRequest(
        name_server="h:1", topics=["T", "U"], dlq_group="billing", queues=["broker-a:1"], start_ms=1000000000000,
        end_ms=1000000001000, start_text="@1000000000000", end_text="@1000000001000", limit=9,
        selection=Selection(
            tags="a || b", keys=["k", "l"], properties={"p": "1", "q": "2"}, where="queueId = 0", reconsume_times_min=2,
            ids=["id-1", "id-2"],
        ),
        transform=Transform(
            set_properties={"status": "again", "by": "me"}, unset_properties=["old"], set_tag="t",
            body_expression="body", new_ids=True, redrives_max=5,
            park_topic="parked", delay_level=2,
        ),
        to="group", keep_order=True, dedup="key", dedup_keep="last", skip_redriven=False, wave_messages=100,
        canary=8, at_least_once=True,
        command=request.command, credentials=credentials, client=request.client,
    )  # fmt: skip
    assert (replayed["execute"], replayed["resume"], replayed["job"]) == (True, False, "mine")
    assert (runner.ledger_root, runner.sample) == ("/ledgers", 2)
    assert runner.run == RunOptions(
        rate=50, byte_rate=1000, failures_max=3, canary_wait_s=5, audit=False, credentials=credentials,
        client=request.client,
    )  # fmt: skip
    assert replayed["session"] == SessionOptions(
        master="spark://h:7077", cores=3, driver_memory="2g", java_home="/java", log_path="/log",
        settings={"spark.x": "y"},
    )  # fmt: skip


@pytest.mark.parametrize("words", [["-sk", "hush"], ["-sk=hush"], ["--secret-key=hush"], ["--secret", "hush"]])
def test_no_key_is_written_into_the_plan(run: Rmqadmin, replayed: dict[str, Any], monkeypatch, words) -> None:
    words = ["spark-replay", "-n", "h:1", "--dlq", "billing", "-ak", "whoami", *words]
    monkeypatch.setattr(sys, "argv", ["rmqadmin", *words])
    assert run(*words).status == 0
    command = replayed["request"].command
    assert command.startswith("rmqadmin spark-replay -n h:1 --dlq billing -ak *** ")
    assert "hush" not in command


def test_a_store_is_read_and_the_name_server_says_where_to_send(run: Rmqadmin, replayed: dict[str, Any]) -> None:
    assert run("spark-replay", "--store", "/s", "-n", "h:1", "--topic", "T", "--to", "topic:X").status == 0
    request = replayed["request"]
    assert (request.name_server, request.path, request.target_name_server) == (None, "/s", "h:1")
    assert run("spark-replay", "--store", "/s", "--topic", "T", "--to", "file:/out").status == 0
    assert replayed["request"].target_name_server is None


def test_a_wave_at_a_rate_is_ten_seconds_of_it(run: Rmqadmin, replayed: dict[str, Any]) -> None:
    """After a crash a job searches one wave again, so a slow job must not have a wave of an hour."""
    for words, count in (([], 50_000), (["--rate", "20"], 200), (["--rate", "0.1"], 1), (["--rate", "1e6"], 50_000)):
        assert run("spark-replay", "-n", "h:1", "--dlq", "billing", *words).status == 0
        assert replayed["request"].wave_messages == count


def test_a_function_is_looked_for_where_the_command_runs(run: Rmqadmin, replayed, tmp_path, monkeypatch) -> None:
    (tmp_path / "fixes.py").write_text("def mend(batch):\n    return batch\n")
    monkeypatch.chdir(tmp_path)
    assert run("spark-replay", "-n", "h:1", "--dlq", "g", "--transform", "fixes:mend").status == 0
    function = replayed["request"].transform.function
    assert (function.name, function.source) == ("fixes:mend", "def mend(batch):\n    return batch\n")


@pytest.mark.parametrize(("text", "count", "share"), [("0", 0, None), ("7", 7, None), ("2.5%", None, 0.025)])
def test_failures_are_allowed_by_number_or_by_share(run: Rmqadmin, replayed, text, count, share) -> None:
    assert run("spark-replay", "-n", "h:1", "--dlq", "g", "--max-failures", text).status == 0
    assert (replayed["runner"].run.failures_max, replayed["runner"].run.failures_share_max) == (count, share)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


GOOD_CANARY, BAD_CANARY = CanaryReport({"g": 0}), CanaryReport({"g": 3}, {"g": 1})


@pytest.mark.parametrize(
    ("report", "typed", "status"),
    [(GOOD_CANARY, None, 0), (BAD_CANARY, None, 1), (GOOD_CANARY, "no", 1), (BAD_CANARY, "billing", 0)],
)
def test_after_a_canary_a_person_is_asked_and_a_script_is_stopped(
    run: Rmqadmin, monkeypatch, report, typed, status
) -> None:
    def replay(request: ReplayRequest | None, runner: Runner, **how: Any) -> ReplayOutcome:
        runner.hooks.on_plan(PLAN)
        if not runner.hooks.on_canary(report):
            raise FailuresExceeded("the canary's messages were not taken")
        return ReplayOutcome(PLAN, "/ledgers/billing-1", ReplayResult("billing-1", 7))

    monkeypatch.setattr(entry, "replay", replay)
    if typed is not None:
        monkeypatch.setattr(sys, "stdin", Terminal(f"{typed}\n"))
    ran = run("spark-replay", "-n", "h:1", "--dlq", "billing", "--execute", "--canary", "9", status=status)
    assert f"the canary was sent: {report}" in ran.err
    assert ("Type billing to go on" in ran.err) == (typed is not None)


def test_dead_letters_are_opened_when_told_to(run: Rmqadmin, replayed, server: Server, fresh) -> None:
    """Old brokers make dead-letter topics that can only be written. The queue counts stay unchanged."""
    group = fresh("ClosedGroup")
    dlq = f"%DLQ%{group}"
    command = ["spark-replay", "-n", server.namesrv_addr, "--dlq", group, "--open-dlq"]
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(dlq, 3, perm=2))
        until(lambda: dlq in admin.topic_list())
        run(*command, "--dry-run", err="is not made readable")
        assert admin.topic_config(server.broker_addr, dlq).perm == 2
        run(*command, status=0, err=f"{dlq} is readable now (perm 6) on {server.broker_addr}")
        opened = admin.topic_config(server.broker_addr, dlq)
        assert (opened.perm, opened.read_queue_nums) == (6, 3)
        assert "readable now" not in run(*command).err, "once is enough"


def test_resume_needs_no_selection(run: Rmqadmin, replayed: dict[str, Any]) -> None:
    assert run("spark-replay", "--resume", "--job", "billing-1").status == 0
    assert (replayed["request"], replayed["resume"], replayed["job"]) == (None, True, "billing-1")


GOOD = AuditResult(expected=7, found=7)


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        (ReplayResult("billing-1", 7, audit=GOOD), 0, ""),
        (ReplayResult("billing-1", 6, rejected=1, failures_path="/f.jsonl"), 1, "1 message rejected: /f.jsonl"),
        (
            ReplayResult("billing-1", 7, audit=AuditResult(expected=7, found=6, missing=1)),
            1,
            "the audit found 1 missing, 0 doubled",
        ),
        (ReplayResult("billing-1", 7, audit=AuditResult(expected=7, found=7, doubled=2)), 1, "2 doubled"),
        (SparkJobError("the worker died"), 1, "the worker died"),
        (PlanConflict("another plan"), 2, "another plan"),
        (ConnectError("no way", address="h:1"), 3, "no way"),
        (NotFoundError("nothing is selected"), 5, "nothing is selected"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_how_a_job_ended_is_the_exit_status(run: Rmqadmin, monkeypatch, end, status, said) -> None:
    ends_with(monkeypatch, end)
    run("spark-replay", "-n", "h:1", "--dlq", "billing", "--execute", "--yes", status=status, err=said)


def test_what_can_be_gone_on_with_and_where_spark_wrote_is_said(run: Rmqadmin, monkeypatch, tmp_path) -> None:
    (tmp_path / "billing-1").mkdir()
    with Ledger(str(tmp_path / "billing-1")) as ledger:
        ledger.append(Begin("identity", 1))
    error = SparkJobError("the worker died")
    error.add_note("Spark's output is in /tmp/log")
    for end in (error, KeyboardInterrupt()):
        ends_with(monkeypatch, end)
        said = run("spark-replay", "-n", "h:1", "--dlq", "g", "--execute", "--ledger", str(tmp_path)).err
        assert f"to continue: rmqadmin spark-replay --resume --job billing-1 --ledger {tmp_path}" in said
        assert ("Spark's output is in /tmp/log" in said) == (end is error)


def test_the_line_that_continues_a_job_repeats_its_limits(run: Rmqadmin, monkeypatch, tmp_path) -> None:
    """A job at 60 messages a second went on at full speed: its plan does not keep the limits of a run."""
    for name in (PLAN.job, "other"):
        (tmp_path / name).mkdir()
        with Ledger(str(tmp_path / name)) as ledger:
            ledger.append(Begin("identity", 1))

    def fail(_: Any, runner: Runner, **__: Any) -> ReplayOutcome:
        runner.hooks.on_plan(PLAN)
        raise SparkJobError("the worker died")

    monkeypatch.setattr(entry, "replay", fail)
    where = ("spark-replay", "-n", "h:1", "--dlq", "g", "--execute", "--ledger", str(tmp_path))
    lines = run(*where, "--rate", "60", "--byte-rate", "1e7").err.splitlines()
    ends = [
        line.partition(f" --ledger {tmp_path}")[2]
        for name in (PLAN.job, "other")
        for line in lines
        if f"--job {name} " in line
    ]
    assert ends == [" --rate 60 --byte-rate 10000000", ""]


def test_what_only_plans_names_no_other_job(run: Rmqadmin, monkeypatch, tmp_path) -> None:
    """Each wrong value of a selection was followed by the advice to continue a job that has nothing to do with it."""

    def fail(*_: Any, **__: Any) -> ReplayOutcome:
        raise NotFoundError("nothing is selected")

    monkeypatch.setattr(entry, "replay", fail)
    with Ledger(str(tmp_path / "cut")) as ledger:
        ledger.append(Begin(PLAN.identity, 1, {}, []))
    where = ("spark-replay", "--dlq", "billing", "-n", "h:1", "--ledger", str(tmp_path))
    assert "--resume --job cut" not in run(*where).err
    assert "--resume --job cut" not in run(*where, "--execute", "--dry-run").err
    assert "--resume --job cut" in run(*where, "--execute").err


def test_progress_is_plain_lines_and_only_when_something_moved(run: Rmqadmin, monkeypatch) -> None:
    """A resumed job: an earlier run delivered two of its nine messages, and had sent two more of the wave that it left
    open."""
    monkeypatch.setattr(run_progress, "INTERVAL_S", -1.0)
    monkeypatch.setattr("rmqadmin.cli.run_progress.time.monotonic", itertools.count(100).__next__)

    def replay(request: ReplayRequest | None, runner: Runner, **how: Any) -> ReplayOutcome:
        runner.hooks.on_plan(msgspec.structs.replace(PLAN, shown={**PLAN.shown, "selected": 9}))
        for wave, granted in ((0, 1), (0, 1), (0, 2), (1, 5), (1, 5)):
            runner.hooks.on_progress(ReplayProgress(wave, 1, granted, delivered=2, found=2 if wave else 0))
        return ReplayOutcome(PLAN, "/ledgers/billing-1", ReplayResult("billing-1", 7))

    monkeypatch.setattr(entry, "replay", replay)
    ran = run("-o", "json", "spark-replay", "--resume", "--job", "billing-1")
    assert ran.err.splitlines() == [
        "rmqadmin: accounts gets these messages again, not only billing; --to group reaches it alone.",
        "rmqadmin: 0 of 1 waves done, 1 of 7 messages sent, 1/s, 6 s left",
        "rmqadmin: 0 of 1 waves done, 2 of 7 messages sent, 0/s, 10 s left",
        "rmqadmin: 1 of 1 waves done, 5 of 5 messages sent, 3/s",
    ]
    assert json.loads(ran.out)["summary"]["delivered"] == 7


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--property", "novalue"], "is not of the form NAME=VALUE"),
        (["--order", "topic"], "only the order within a queue"),
        (["--ids", "/no/such/file"], "--ids"),
        (["--from", "whenever"], "whenever"),
        (["--max-failures", "many"], "neither a number"),
        (["--max-failures", "101%"], "neither a number"),
        (["--transform", "nosuchmodule_:f"], "there is no module"),
        (["--sql92"], "sql92"),
        (["--open-dlq", "--store", "/s"], "--open-dlq is for"),
    ],
)
def test_what_is_no_value_is_a_usage_error(run: Rmqadmin, replayed: dict[str, Any], words, said) -> None:
    run("spark-replay", "-n", "h:1", "--dlq", "billing", *words, status=2, err=said)
    assert not replayed
