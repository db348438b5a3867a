"""``msg cat`` on a running server: conditions, windows, formats, and the last line on standard error."""

import json
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin, Written
from tests.support.servers import Fresh, Server, topic_config, until

COUNT = 80


@dataclass
class Stored:
    """Eighty messages, alternating between two queues."""

    server: Server
    topic: str
    keys: list[str] = field(default_factory=list)

    def send(self, at: int) -> None:
        body = {"number": at, "kind": "refund" if at % 10 == 0 else "sale"}
        message = Message(
            self.topic, json.dumps(body).encode(), tags="rare" if at == 7 else "common", keys=f"k{at}",
            properties={"region": "eu" if at % 2 else "us", "price": str(at)},
        )  # fmt: skip
        with AdminClient(self.server.namesrv_addr) as admin:
            admin.send_message(self.server.broker_addr, MessageQueue(self.topic, "broker-a", at % 2), message)


@pytest.fixture(scope="module")
def stored(server: Server, fresh: Fresh) -> Stored:

    made = Stored(server, fresh("CatTopic"))
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(made.topic, 2))
        until(lambda: made.topic in admin.topic_list())
    for at in range(COUNT):
        made.send(at)
    return made


def numbers(rmqadmin: Rmqadmin, *args: str) -> list[int]:
    ran = rmqadmin("msg", "cat", *args, "-f", r"%s\n", status=0)
    return [json.loads(line)["number"] for line in ran.out.splitlines()]


@pytest.mark.parametrize(
    ("conditions", "expected", "said"),
    [
        ([], range(COUNT), "scanned 80, matched 80, stopped because the end was reached"),
        (["--tag", "rare || none"], [7], "scanned 80, matched 1, stopped because the end was reached"),
        (["--key", "k3"], [3], "scanned 80, matched 1,"),
        (["--property", "region=us", "--limit", "2"], [0, 2], "scanned 3, matched 2, stopped because --limit 2"),
        (["--sql92", "price BETWEEN 5 AND 8 AND region = 'eu'"], [5, 7], "scanned 80, matched 2,"),
        (["--grep", '(?i)"KIND": "ref'], range(0, COUNT, 10), "matched 8,"),
        (["--jsonpath", "$.kind=refund", "--jsonpath", "$.number=20"], [20], "matched 1,"),
        (["--queue", "1", "--limit", "3"], [1, 3, 5], "scanned 3, matched 3,"),
        (["--queue", "broker-a:0", "--limit", "2"], [0, 2], "scanned 2, matched 2,"),
        (["--tail", "3"], [77, 78, 79], "scanned 6, matched 3, stopped because --tail 3 was reached"),
        (["--tail", "2", "--tag", "rare"], [7], "matched 1, stopped because the end was reached"),
        (["--from", "-1h..now", "--limit", "1"], [0], "matched 1,"),
        (["--to", "-1h"], [], "scanned 0, matched 0, stopped because the end of that range was reached"),
        (["--from", "-1h", "--to", "now", "--grep", "nothing"], [], "matched 0,"),
    ],
)  # fmt: skip
def test_conditions_and_windows(
    rmqadmin: Rmqadmin, stored: Stored, conditions: list[str], expected: list[int], said: str
) -> None:
    assert numbers(rmqadmin, stored.topic, *conditions) == list(expected)
    assert said in rmqadmin("msg", "cat", stored.topic, *conditions, "-f", "").err


def test_a_format_string_is_all_that_is_written(written: Written, stored: Stored) -> None:
    out = written("msg", "cat", stored.topic, "--limit", "2", "-f", r"%t %p:%o %k %g %P{region} %S\x00\xff")
    sizes = [len('{"number": 0, "kind": "refund"}'), len('{"number": 1, "kind": "sale"}')]
    assert out == b"".join(
        f"{stored.topic} {at}:0 k{at} common {('us', 'eu')[at]} {sizes[at]}\0".encode() + b"\xff" for at in (0, 1)
    )


def test_a_closed_pipe_is_no_error_and_ends_the_reading(rmqadmin: Rmqadmin, stored: Stored) -> None:
    """``msg cat | head -1`` does not read the rest."""
    command = [sys.executable, "-m", "rmqadmin", "msg", "cat", stored.topic, "-n", stored.server.namesrv_addr]
    with subprocess.Popen(
        [*command, "-f", r"%s{hex}%s{hex}%s{hex}%s{hex}%s{hex}%s{hex}%s{hex}\n" * 100],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 141  # like any program that a closed pipe ends
    assert said.endswith("stopped because nobody reads on\n")
    assert "error" not in said
    assert said.count("\n") == 1


def test_rows_are_those_of_print_msg_and_a_document_has_the_summary(rmqadmin: Rmqadmin, stored: Stored) -> None:
    ran = rmqadmin("-o", "json", "msg", "cat", stored.topic, "--key", "k9")
    assert ran.document["summary"] == {
        "scanned": 80, "matched": 1, "unreadable": 0, "stopped_because": "the end was reached",
    }  # fmt: skip
    printed = rmqadmin("-o", "json", "printMsg", "-t", stored.topic, "--sql92", "price = 9").items
    assert ran.items == printed
    lines = rmqadmin("-o", "jsonl", "msg", "cat", stored.topic, "--limit", "3").out.splitlines()
    assert [json.loads(line)["keys"] for line in lines] == ["k0", "k1", "k2"]


def test_what_comes_is_followed_until_there_is_enough(
    rmqadmin: Rmqadmin, server: Server, stored: Stored, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = fresh("FollowTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "2", "-w", "2").status == 0
    other = Stored(server, topic)
    other.send(1)
    other.send(7)
    monkeypatch.setattr("rmqadmin.core.messages.message_source.time.sleep", lambda _: other.send(7))
    ran = rmqadmin("msg", "cat", topic, "--follow", "--tag", "rare", "--limit", "3", "-f", "%k ")
    assert (ran.status, ran.out) == (0, "k7 k7 k7 ")
    assert "scanned 4, matched 3, stopped because --limit 3 was reached" in ran.err


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["-f", "%q"], 2, "%q is no field"),
        (["--follow", "--to", "now"], 2, "--follow has no end"),
        (["--follow", "--output", "json"], 2, "json shows all messages at once"),
        (["--from", "yesterday"], 2, "--from/--since 'yesterday' is not a time"),
        (["--until", "a.jsonl"], 2, "--to/--until 'a.jsonl' is not a time"),
        (["--from", "-1h..@1"], 2, "ends before it begins"),
        (["--from", "-2h..now", "--to", "now"], 2, "--from/--since is a range already: leave out --to/--until"),
        (["--queue", "7"], 5, "--queue 7: there is no such queue"),
        (["--queue", "x"], 2, "--queue x is neither QUEUE nor BROKER:QUEUE"),
        (["--grep", "("], 2, "'(' is not a regular expression"),
        (["--sql92", "a >"], 2, "--sql92: "),
        (["--jsonpath", "kind=x"], 2, "kind is not a JSON path"),
        (["--output", "mqadmin"], 2, "mqadmin prints nothing for this answer of msg cat"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_is_read(
    rmqadmin: Rmqadmin, stored: Stored, args: list[str], status: int, said: str
) -> None:
    ran = rmqadmin("msg", "cat", stored.topic, *args, status=status, out="", err=said)
    assert "scanned" not in ran.err


def test_a_topic_that_may_not_be_read_is_named(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    topic = fresh("ClosedTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-p", "W").status == 0
    ran = rmqadmin("msg", "cat", topic)
    assert (ran.status, f"no queue of the topic {topic} can be read" in ran.err) == (2, True)
    assert rmqadmin("msg", "cat", "NoSuchTopic").status == 5


def test_a_broker_that_fails_on_the_way_ends_it_with_the_summary(
    rmqadmin: Rmqadmin, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmqproto.errors import ConnectError

    whole = AdminClient.pull_message
    calls = iter(range(100))

    def pull(self: AdminClient, *args: object, **options: object) -> object:
        if next(calls) == 3:
            raise ConnectError("broken", address="b")
        return whole(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(AdminClient, "pull_message", pull)
    ran = rmqadmin("msg", "cat", stored.topic, "-f", ".", status=3)
    assert ran.out == "." * 64
    assert "scanned 64, matched 64, stopped because an error ended it\nrmqadmin: error: broken" in ran.err
