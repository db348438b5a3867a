"""``dlq ls``, ``show`` and ``redrive`` against a running broker, and at a terminal of 80 columns."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pexpect
import pytest

from rmqadmin.commands.message import dead_letters
from rmqadmin.core import audit_trail
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqreplay.ledger.ledger import Begin, FenceLine, Ledger
from rmqreplay.plans.plan import load_plan
from rmqreplay.run.entry import open_jobs
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.servers import Fresh, Server, topic_config, until

COUNT = 6


@dataclass
class Dead:
    """Six dead letters of a fresh group, the empty topic they came from, and the group's empty retry topic."""

    server: Server
    group: str
    origin: str

    @property
    def retry(self) -> str:
        return f"%RETRY%{self.group}"

    def redriven(self, topic: str = "") -> list[int]:
        with AdminClient(self.server.namesrv_addr) as admin:
            queue = MessageQueue(topic or self.retry, "broker-a", 0)
            messages = admin.pull_message(self.server.broker_addr, queue, 0).messages
        return sorted(json.loads(message.body)["number"] for message in messages)


def make_topic(server: Server, topic: str) -> None:
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic))
        until(lambda: topic in admin.topic_list())


@pytest.fixture
def dead(server: Server, admin: AdminClient, fresh: Fresh) -> Dead:
    made = Dead(server, fresh("DlqGroup"), fresh("DlqOrigin"))
    dlq = f"%DLQ%{made.group}"
    for topic in (dlq, made.origin, made.retry):
        make_topic(server, topic)
    for number in range(COUNT):
        body = json.dumps({"number": number, "kind": "odd" if number % 2 else "even"}).encode()
        properties = {"RETRY_TOPIC": made.origin, "REPLAY_ROUND": "2" if number == 5 else "0"}
        message = Message(dlq, body, tags=f"T{number}", keys=f"k{number}", properties=properties)
        admin.send_message(server.broker_addr, MessageQueue(dlq, "broker-a", 0), message)
    return made


def test_ls_shows_who_has_how_many_since_when(rmqadmin: Rmqadmin, dead: Dead, fresh) -> None:
    (row,) = rmqadmin("-o", "json", "dlq", "ls", dead.group).items
    assert (row["group"], row["messages"], row["error"]) == (dead.group, COUNT, None)
    assert row["oldest_ms"] <= row["newest_ms"] <= time.time() * 1000 + 1000
    listed = rmqadmin("-o", "json", "dlq", "ls").items
    assert row in listed
    assert [each["messages"] for each in listed] == sorted((each["messages"] for each in listed), reverse=True)
    empty = fresh("EmptyDlq")
    make_topic(dead.server, f"%DLQ%{empty}")
    assert empty not in rmqadmin("-o", "name", "dlq", "ls").out.split()
    assert empty in rmqadmin("-o", "name", "dlq", "ls", "--all").out.split()
    ran = rmqadmin("dlq", "ls", "NobodyHasIt")
    assert (ran.status, "has no dead letters" in ran.err) == (5, True)


def test_a_topic_that_its_broker_deleted_has_no_dead_letters(rmqadmin: Rmqadmin, dead: Dead) -> None:
    """A name server may still name it, and one such group must not make the list of all a failure."""
    with AdminClient(dead.server.namesrv_addr) as admin:
        admin.delete_topic_in_broker(dead.server.broker_addr, f"%DLQ%{dead.group}")
        ran = rmqadmin("-o", "json", "dlq", "ls", dead.group)
        admin.delete_topic_in_namesrv(admin.namesrv_addrs[0], f"%DLQ%{dead.group}")
    (row,) = ran.items
    assert (ran.status, row["messages"], row["left"], row["error"]) == (0, 0, 0, None), ran.err


def test_show_takes_the_conditions_of_redrive(rmqadmin: Rmqadmin, dead: Dead) -> None:
    rows = rmqadmin("-o", "json", "dlq", "show", dead.group).items
    assert [json.loads(row["body"])["number"] for row in rows] == list(range(COUNT))
    assert {row["origin_topic"] for row in rows} == {dead.origin}
    assert [row["redrives"] for row in rows] == [0, 0, 0, 0, 0, 2]
    for conditions, numbers in (
        (["--tag", "T1 || T4"], [1, 4]),
        (["--key", "k3"], [3]),
        (["--jsonpath", "$.kind=even"], [0, 2, 4]),
        (["--grep", "(?i)KIND.*EV", "--sql92", "KEYS <> 'k2'"], [0, 4]),
        (["--property", "REPLAY_ROUND=2"], [5]),
        (["--sql92", "REPLAY_ROUND = '0' AND KEYS <> 'k1'", "--tag", "T1 || T2 || T5"], [2]),
        (["--id", rows[2]["message_id"], "--id", rows[4]["offset_message_id"]], [2, 4]),
        (["--from", "-1h", "--jsonpath", "$.number=0"], [0]),
    ):
        found = rmqadmin("-o", "json", "dlq", "show", dead.group, *conditions).items
        assert [json.loads(row["body"])["number"] for row in found] == numbers
    limited = rmqadmin("-o", "json", "dlq", "show", dead.group, "--limit", "2")
    assert (len(limited.items), "there are more" in limited.err) == (2, True)
    assert "there are more" not in rmqadmin("dlq", "show", dead.group, "--limit", str(COUNT)).err


def test_a_dry_run_comes_first_and_its_job_sends_what_it_showed(rmqadmin: Rmqadmin, dead: Dead) -> None:
    """A second redrive sends no message again."""
    dry = rmqadmin("-o", "json", "dlq", "redrive", dead.group, "--jsonpath", "$.kind=odd", "--job", "odd")
    assert (dry.status, dead.redriven()) == (0, [])
    assert dry.document["summary"]["selected"] == 3
    assert f"reading {COUNT} messages of 1 queue\n" in dry.err
    assert "to send: rmqadmin dlq redrive --execute --job odd" in dry.err
    done = rmqadmin("-o", "json", "dlq", "redrive", "--execute", "--job", "odd")
    assert (done.status, dead.redriven()) == (0, [1, 3, 5])
    summary = done.document["summary"]
    assert (summary["stored"], summary["audited"], summary["missing"], summary["doubled"]) == (3, 3, 0, 0)
    rest = rmqadmin("-o", "json", "dlq", "redrive", dead.group, "--execute")
    assert (rest.document["summary"]["stored"], rest.document["summary"]["excluded"]) == (3, 3)
    assert dead.redriven() == list(range(COUNT))


def test_letters_that_cannot_be_read_are_opened_when_told_to(rmqadmin: Rmqadmin, dead: Dead) -> None:
    dlq = f"%DLQ%{dead.group}"
    with AdminClient(dead.server.namesrv_addr) as admin:
        admin.create_topic(dead.server.broker_addr, topic_config(dlq, perm=2))
        until(lambda: all(each.perm == 2 for each in admin.topic_route(dlq).queue_datas))
    for command in ("show", "redrive"):
        refused = rmqadmin("dlq", command, dead.group)
        assert (refused.status, "redrives take --open-dlq" in refused.err) == (2, True)
    ran = rmqadmin("dlq", "redrive", dead.group, "--open-dlq")
    assert (ran.status, f"{dlq} is readable now (perm 6)" in ran.err) == (0, True), ran.err
    assert rmqadmin("dlq", "show", dead.group).status == 0
    assert rmqadmin("dlq", "redrive", "--open-dlq").status == 2


def test_without_a_group_and_an_open_job_nothing_is_selected(
    rmqadmin: Rmqadmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forgotten group used to be answered by the question which job should be resumed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    rmqadmin("dlq", "redrive", status=2, err="error: nothing is selected, and no job is open in ")


def test_dry_run_wins_over_execute(rmqadmin: Rmqadmin, dead: Dead) -> None:
    assert rmqadmin("dlq", "redrive", dead.group, "--execute", "--dry-run").status == 0
    assert dead.redriven() == []


def test_to_a_topic_and_to_the_group_alone(rmqadmin: Rmqadmin, dead: Dead) -> None:
    other = f"{dead.origin}Other"
    missing = rmqadmin("dlq", "redrive", dead.group, "--to", f"topic:{other}")
    assert (missing.status, f"{other} does not exist" in missing.err) == (5, True)
    make_topic(dead.server, other)
    for to, topic in ((["--to", f"topic:{other}"], other), (["--to", "group"], dead.retry), ([], dead.retry)):
        before = dead.redriven(topic)
        ran = rmqadmin("dlq", "redrive", dead.group, *to, "--no-skip-redriven", "--execute")
        assert (ran.status, dead.redriven(topic)) == (0, sorted([*before, *range(COUNT)])), ran.err
        told = f"nobody of {dead.group} reads {dead.retry} now"
        assert (told in ran.err) == (topic == dead.retry)
    with AdminClient(dead.server.namesrv_addr) as admin:
        admin.update_consumer_offset(dead.server.broker_addr, dead.group, dead.retry, 0, 0)
    assert "nobody of" not in rmqadmin("dlq", "redrive", dead.group, "--no-skip-redriven").err
    assert dead.redriven(dead.origin) == []


def test_a_group_without_a_retry_topic(rmqadmin: Rmqadmin, dead: Dead) -> None:
    with AdminClient(dead.server.namesrv_addr) as admin:
        admin.delete_topic_in_broker(dead.server.broker_addr, dead.retry)
        admin.delete_topic_in_namesrv(admin.namesrv_addrs[0], dead.retry)
    ran = rmqadmin("dlq", "redrive", dead.group)
    assert (ran.status, "no consumer of the group has been connected" in ran.err) == (5, True), ran.err
    assert "--to same sends to the origin topic" in ran.err


def test_the_name_of_the_topic_is_not_the_groups(rmqadmin: Rmqadmin, dead: Dead) -> None:
    """`%DLQ%billing` was looked for as a group, and had no dead letters."""
    for words in (
        ["dlq", "ls"],
        ["dlq", "show"],
        ["dlq", "redrive"],
        ["check", "dlq", "-g"],
        *([["spark-replay", "--dlq"]] if importlib.util.find_spec("pyspark") else []),
    ):
        for prefix in ("%DLQ%", "%RETRY%"):
            ran = rmqadmin(*words, f"{prefix}{dead.group}")
            assert ran.status in (2, 3), (words, ran)
            assert dead.group in (ran.err + ran.out).replace(f"{prefix}{dead.group}", ""), (words, ran)


def test_a_file_is_no_target_of_this_command(rmqadmin: Rmqadmin, dead: Dead) -> None:
    ran = rmqadmin("dlq", "redrive", dead.group, "--to", "file:/tmp/x", status=2, err="it writes no file")
    assert "--set-property" not in ran.err


def test_other_groups_that_get_them_again_are_named_and_need_a_yes(rmqadmin: Rmqadmin, dead: Dead) -> None:
    """The default was to send to the origin topic: groups that had no failure got everything twice."""
    others = [f"{dead.group}Audit", f"{dead.group}Fraud"]
    with AdminClient(dead.server.namesrv_addr) as admin:
        for group in (*others, dead.group):
            admin.create_group(dead.server.broker_addr, SubscriptionGroupConfig(group_name=group))
            admin.update_consumer_offset(dead.server.broker_addr, group, dead.origin, 0, 0)
    named = f"{', '.join(others)} get these messages again, not only {dead.group}"
    for to in ("same", f"topic:{dead.origin}"):
        words = ("-o", "json", "dlq", "redrive", dead.group, "--to", to)
        dry = rmqadmin(*words, "--limit", "2", "--job", f"again-{len(to)}")
        assert (dry.status, named in dry.err) == (0, True), dry.err
        assert dry.document["summary"]["groups_again"] == ", ".join(others)
        for more in (("--execute", "--limit", "2"), ("--execute", "--job", f"again-{len(to)}")):
            refused = rmqadmin(*(words if "--limit" in more else words[:4]), *more)
            assert (refused.status, named in refused.err, "--yes" in refused.err) == (2, True, True), refused.err
    assert dead.redriven(dead.origin) == []
    assert rmqadmin("dlq", "redrive", "--execute", "--job", "again-4", "--yes").status == 0
    assert dead.redriven(dead.origin) == [0, 1]
    assert rmqadmin("dlq", "redrive", dead.group, "--execute").status == 0, "to the group alone"
    assert dead.redriven() == [2, 3, 4, 5]


def test_an_orderly_group_is_refused_with_the_reason(rmqadmin: Rmqadmin, dead: Dead) -> None:
    with AdminClient(dead.server.namesrv_addr) as admin:
        config = SubscriptionGroupConfig(group_name=dead.group, consume_message_orderly=True)
        admin.create_group(dead.server.broker_addr, config)
    ran = rmqadmin("dlq", "redrive", dead.group, "--execute", status=2, err=f"group {dead.group} consumes orderly")
    assert "--to same sends to the origin topic" in ran.err
    assert dead.redriven() == []
    assert rmqadmin("dlq", "redrive", dead.group, "--execute", "--to", "same").status == 0
    assert dead.redriven(dead.origin) == list(range(COUNT))


def test_a_limit_goes_on_where_the_last_one_stopped(rmqadmin: Rmqadmin, dead: Dead) -> None:
    """The second selected the same ones, and excluded them all."""
    words = ("-o", "json", "dlq", "redrive", dead.group, "--limit", "4", "--execute")
    found = [rmqadmin(*words).document["summary"] for _ in range(3)]
    assert [(each["selected"], each["stored"], each["excluded"]) for each in found] == [(4, 4, 0), (2, 2, 0), (0, 0, 6)]
    assert dead.redriven() == list(range(COUNT))
    assert "1 of 1 waves done" in rmqadmin(*words[2:-3], "--limit", "1", "--execute").err
    assert found[2]["redriven_by"] == ", ".join(sorted(f"{one['job']} {one['stored']}" for one in found[:2]))


def test_the_log_of_changes_does_not_tell_which_letters_were_wanted(rmqadmin: Rmqadmin, dead: Dead) -> None:
    """Conditions quote what stands in messages, such as a customer's number."""
    conditions = (
        "--tag", "T3", "--key", "k3", "--jsonpath", "$.kind=odd", "--grep", "(?i)KIND.*OD", "--sql92", "KEYS <> 'k2'",
        "--property", "REPLAY_ROUND=0",
    )  # fmt: skip
    assert rmqadmin("dlq", "redrive", dead.group, *conditions, "--to", "same", "--execute", "--yes").status == 0
    assert dead.redriven(dead.origin) == [3]
    (begin, *_) = [json.loads(line) for line in audit_trail.log_path().read_text().splitlines()]
    given = set(conditions[::2])
    assert {name: begin["arguments"][name] for name in given} == dict.fromkeys(given, "(not written down)")
    told = audit_trail.log_path().read_text()
    assert [text for text in conditions[3::2] if text in told] == []


def test_rejected_letters_are_named_and_end_with_a_failure(rmqadmin: Rmqadmin, dead: Dead) -> None:
    ran = rmqadmin("-o", "json", "dlq", "redrive", dead.group, "--max-redrives", "2", "--execute")
    assert (ran.status, dead.redriven()) == (1, [0, 1, 2, 3, 4])
    (failure,) = Path(ran.document["summary"]["failures_file"]).read_text().splitlines()
    assert "redriven 2 times" in failure


@pytest.mark.slow
def test_an_interrupted_job_is_found_by_its_selection(rmqadmin: Rmqadmin, dead: Dead) -> None:
    dry = rmqadmin("-o", "json", "dlq", "redrive", dead.group, "--tag", "T1", "--job", "cut")
    directory = dry.document["summary"]["directory"]
    plan = load_plan(directory)
    assert plan is not None
    from rmqreplay.sending.target import read_fences
    from rmqreplay.source.live import LiveCluster

    with LiveCluster(dead.server.namesrv_addr) as cluster, Ledger(directory) as ledger:
        ledger.append(Begin(plan.identity, 1))
        ledger.append(FenceLine(0, read_fences(cluster, [dead.retry])))
    wrong = rmqadmin("dlq", "redrive", dead.group, "--tag", "T2", "--resume")
    assert (wrong.status, "open are: cut" in wrong.err) == (2, True)
    assert "to continue: rmqadmin dlq redrive --resume --job cut" in wrong.err
    done = rmqadmin("dlq", "redrive", dead.group, "--tag", "T1", "--resume")
    assert (done.status, dead.redriven()) == (0, [1]), done.err
    assert open_jobs(str(Path(directory).parent)) == []


def test_very_many_are_proposed_to_spark(rmqadmin: Rmqadmin, dead: Dead, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark accepts the same job."""
    monkeypatch.setattr(dead_letters, "SPARK_IS_FASTER_MESSAGES", COUNT - 1)
    rmqadmin("dlq", "redrive", dead.group, "--job", "many", err="faster: rmqadmin spark-replay --execute --job many")
    monkeypatch.setattr(dead_letters, "SPARK_IS_FASTER_MESSAGES", COUNT)
    assert "spark-replay" not in rmqadmin("dlq", "redrive", dead.group, "--job", "few").err


@pytest.mark.parametrize("argument", ["--jsonpath", "--property", "--grep"])
def test_conditions_that_are_none_are_refused(rmqadmin: Rmqadmin, dead: Dead, argument: str) -> None:
    for text in ("word(", "=x("):
        assert rmqadmin("dlq", "show", dead.group, argument, text).status == 2
    assert rmqadmin("dlq", "show", dead.group, "--json", "kind=odd").status == 2


@pytest.mark.parametrize("command", ["show", "redrive"])
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--tag", ""], "names no tag"),
        (["--tag", " || "], "names no tag"),
        (["--property", "a=1", "--property", "a=2"], "cannot be both '1' and '2'"),
        (["--jsonpath", "$.kind=odd", "--jsonpath", "$.kind=even"], "cannot be both 'odd' and 'even'"),
    ],
)
def test_conditions_that_would_choose_others_than_they_say_are_refused(
    rmqadmin: Rmqadmin, dead: Dead, command: str, words: list[str], problem: str
) -> None:
    """An empty variable in ``--tag "$TAG"`` showed nothing and redrove everything; of two values the last one
    counted."""
    ran = rmqadmin("dlq", command, dead.group, *words)
    assert (ran.status, problem in ran.err) == (2, True), ran.err


def test_a_name_in_a_path_may_hold_an_equals_sign(rmqadmin: Rmqadmin, dead: Dead) -> None:
    ran = rmqadmin("dlq", "show", dead.group, "--jsonpath", "$['a=b']=c")
    assert (ran.status, f"none of the dead letters of {dead.group} fits" in ran.err) == (5, True)
    assert len(rmqadmin("-o", "json", "dlq", "show", dead.group, "--jsonpath", "$['kind']=odd").items) == COUNT // 2


def test_a_letter_that_does_not_say_where_it_came_from_stays_where_it_is(rmqadmin: Rmqadmin, dead: Dead) -> None:
    """It was sent to the dead letters again, and so could be redriven without end."""
    dlq = f"%DLQ%{dead.group}"
    with AdminClient(dead.server.namesrv_addr) as admin:
        admin.send_message(dead.server.broker_addr, MessageQueue(dlq, "broker-a", 0), Message(dlq, b"whose?"))
        ran = rmqadmin("-o", "json", "dlq", "redrive", dead.group, "--to", "same", "--execute")
        assert (ran.status, dead.redriven(dead.origin)) == (1, list(range(COUNT)))
        assert admin.max_offset(dead.server.broker_addr, dlq, 0) == COUNT + 1
    (failure,) = Path(ran.document["summary"]["failures_file"]).read_text().splitlines()
    assert "nothing in it says which topic it was first sent to" in failure


@pytest.mark.slow
def test_at_a_terminal_of_80_columns(dead: Dead, tmp_path: Path) -> None:
    """The program shows the plan and asks for the group's name, and no line is longer than the terminal."""
    env = {
        "PATH": "/usr/bin:/bin", "TERM": "xterm", "NAMESRV_ADDR": dead.server.namesrv_addr, "NO_COLOR": "1",
        "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path),
        "COLUMNS": "80", "RMQADMIN_PAGER": "cat",
    }  # fmt: skip

    def spawn(*words: str) -> pexpect.spawn[str]:
        return pexpect.spawn(
            sys.executable, ["-m", "rmqadmin", "dlq", *words], env=env, dimensions=(40, 80), timeout=60,
            encoding="utf-8", cwd=str(Path(__file__).parents[4]), use_poll=True,
        )  # fmt: skip

    def said(child: pexpect.spawn[str], expected_status: int) -> str:
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == expected_status, child.before
        return child.before or ""

    for words in (["ls"], ["show", dead.group, "--limit", "2"], ["redrive", dead.group]):
        lines = said(spawn(*words), 0).splitlines()
        tables = [line for line in lines if not line.startswith(("rmqadmin: ", "Target: "))]
        assert tables
        assert max(map(len, tables)) <= 80
    child = spawn("redrive", dead.group, "--execute", "--job", "asked")
    child.expect(f"This sends {COUNT} messages to {dead.retry}")
    child.expect(f"Type {dead.group} to go on: ")
    child.sendline("no")
    assert "nothing was changed" in said(child, 1)
    assert dead.redriven() == []
    child = spawn("redrive", "--execute", "--job", "asked")
    child.expect(f"Type {dead.group} to go on: ")
    child.sendline(dead.group)
    said(child, 0)
    assert dead.redriven() == list(range(COUNT))
