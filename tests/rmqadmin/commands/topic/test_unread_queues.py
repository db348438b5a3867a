"""Queues that keep messages although consumers do not read them: told before they come about, shown while there are
some, and read by whatever says that it reads everything."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from tests.rmqadmin.conftest import CLUSTER, Ran, Rmqadmin, filled
from tests.support import servers
from tests.support.quick import first_is_quick
from tests.support.servers import Fresh, Server

QUEUES = 8

server = servers.of_module()
"""Not the shared one: `doctor` looks into 200 topics of a broker, and other tests may have made more."""


@pytest.fixture
def topic(rmqadmin: Rmqadmin, server: Server, fresh: Fresh) -> Iterator[str]:
    """Eight queues with a message each. Deleted afterwards: it would be a finding of `doctor`."""
    name = fresh("UnreadTopic")
    yield filled(server, name, QUEUES, 1)
    rmqadmin("deleteTopic", "-c", CLUSTER, "-t", name)


@pytest.fixture
def group(rmqadmin: Rmqadmin, topic: str, fresh: Fresh) -> Iterator[str]:
    """It has an offset in each queue, and has consumed nothing."""
    name = fresh("UnreadGroup")
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", name).status == 0
    assert rmqadmin("resetOffset", "-g", name, "-t", topic, "--to", "begin").status == 0
    yield name
    rmqadmin("deleteSubGroup", "-c", CLUSTER, "-g", name)


def update(rmqadmin: Rmqadmin, topic: str, *words: str) -> Ran:
    return rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, *words)


def nums(server: Server, topic: str) -> tuple[int, int]:
    with AdminClient(server.namesrv_addr) as admin:
        config = admin.topic_config(server.broker_addr, topic)
    return config.read_queue_nums, config.write_queue_nums


# --- told before -----------------------------------------------------------------------------------------------------

LOST = "6 messages would be out of consumers' reach (queue 2: 1, queue 3: 1, queue 4: 1, queue 5: 1, "
SENT = "producers would send to the queues 2 to 7, which no consumer reads"
SAFELY = "--shrink-to 2"


@pytest.mark.parametrize("dry_run", [["--dry-run"], []])
def test_who_takes_read_queues_is_told_what_lies_in_them(rmqadmin: Rmqadmin, topic: str, dry_run: list[str]) -> None:
    """Nobody said that consumers miss the rest."""
    ran = update(rmqadmin, topic, "-r", "2", *dry_run)
    assert ran.status == 0
    assert all(text in ran.err for text in (LOST, SENT, SAFELY))
    both = update(rmqadmin, topic, "-r", "1", "-w", "1", "--dry-run")
    assert "would be out of consumers' reach" in both.err
    assert "producers would send" not in both.err


def test_a_file_that_takes_read_queues_is_told_too(
    rmqadmin: Rmqadmin, topic: str, tmp_path: Path, fresh: Fresh
) -> None:
    manifest, entries = tmp_path / "wanted.yaml", tmp_path / "topics.json"
    manifest.write_text(f"topics:\n  {topic}: {{readQueueNums: 2}}\n")
    entries.write_text(json.dumps([{"topicName": topic, "readQueueNums": 2}]))
    for words in (["apply", "--dry-run", "-f", str(manifest)], ["diff", "-f", str(manifest)]):
        ran = rmqadmin(*words, "-c", CLUSTER)
        assert all(text in ran.err for text in (LOST, SENT, SAFELY))
    assert LOST in rmqadmin("updateTopicList", "--dry-run", "-c", CLUSTER, "-f", str(entries)).err
    assert LOST in rmqadmin("apply", "--yes", "-c", CLUSTER, "-f", str(manifest)).err


NOBODY = "nobody could send"


def test_who_takes_all_write_queues_is_told_that_nobody_can_send(rmqadmin: Rmqadmin, topic: str, fresh: Fresh) -> None:
    assert NOBODY in update(rmqadmin, topic, "-w", "0", "--dry-run").err
    assert NOBODY in update(rmqadmin, topic, "-w", "0").err
    assert NOBODY not in update(rmqadmin, topic, "-w", "0").err
    assert NOBODY in update(rmqadmin, fresh("UnreadTopic"), "-w", "0", "--dry-run").err


def test_who_changes_other_queues_is_told_what_was_out_of_reach_before(rmqadmin: Rmqadmin, topic: str) -> None:
    """With fewer write queues brokers do not even list the queues where it lies."""
    assert update(rmqadmin, topic, "-r", "2").status == 0
    ran = update(rmqadmin, topic, "-w", "2", "--dry-run")
    assert LOST.replace("would be", "are already") in ran.err
    assert SAFELY in ran.err
    assert "are already" not in update(rmqadmin, topic, "-r", "8", "--dry-run").err


@pytest.mark.parametrize("words", [["-r", "16"], ["-r", "16", "-w", "16"], ["-w", "2"], ["-p", "R"]])
def test_what_puts_nothing_out_of_reach_is_not_told(rmqadmin: Rmqadmin, topic: str, words: list[str]) -> None:
    ran = update(rmqadmin, topic, *words)
    assert (ran.status, ran.err) == (0, "")


def test_a_new_topic_that_nobody_reads_whole_is_told(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    assert SENT in update(rmqadmin, fresh("UnreadTopic"), "-r", "2", "-w", "8", "--dry-run").err


# --- shown and read --------------------------------------------------------------------------------------------------


@pytest.fixture(params=first_is_quick(["-r 2 -w 2", "-r 2"]))
def shrunk(rmqadmin: Rmqadmin, topic: str, group: str, request: pytest.FixtureRequest) -> str:
    """The topic, with two read queues, beside eight or two write queues."""
    assert update(rmqadmin, topic, *request.param.split()).status == 0
    return topic


def test_the_status_of_a_topic_shows_them(rmqadmin: Rmqadmin, shrunk: str) -> None:
    ran = rmqadmin("-o", "json", "topicStatus", "-t", shrunk)
    assert [row["unread"] for row in ran.items] == [None, None, *[True] * 6]
    assert ran.document["summary"]["unread_count"] == 6
    assert "6 messages in queues that consumers do not read" in ran.err
    again = ran.err[ran.err.index("rmqadmin updateTopic") :].split()[1:]
    assert rmqadmin(*(word.strip("'") for word in again)).status == 0
    assert rmqadmin("-o", "json", "topicStatus", "-t", shrunk).document["summary"]["unread_count"] is None


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("queues_past", "topicStatus -t TOPIC"), ("queues_past", "msg cat TOPIC"),
        pytest.param("queues_past", "spark-replay --topic TOPIC --to file:DIR/found.jsonl", marks=pytest.mark.spark),
        ("all_consumer_offsets", "consumerProgress -g GROUP"), ("all_consumer_offsets", "consumerProgress"),
    ],
)  # fmt: skip
def test_a_broker_that_does_not_say_is_told(
    rmqadmin: Rmqadmin,
    shrunk: str,
    group: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    words: str,
) -> None:
    """What it keeps there was taken for nothing."""

    def refuse(*_: object) -> None:
        raise RefusedError(ResponseCode.NO_PERMISSION, "not for you")

    monkeypatch.setattr(AdminClient, method, refuse)
    words = words.replace("TOPIC", shrunk).replace("GROUP", group).replace("DIR", str(tmp_path))
    ran = rmqadmin(*words.split(), err="are not known on broker-a: ")
    assert "not for you" in ran.err


def bodies(items: list[dict[str, Any]]) -> list[str]:
    return sorted(item["body"] for item in items)


EVERYTHING = [f"m{at}" for at in range(QUEUES)]


@pytest.mark.parametrize(
    "words",
    [
        "msg cat TOPIC", "msg cat TOPIC --tail 100", "printMsg -t TOPIC -d true", "consumeMessage -t TOPIC",
        "msg cat TOPIC --from -1h --limit 100",
    ],
)  # fmt: skip
def test_what_reads_a_topic_reads_them(rmqadmin: Rmqadmin, shrunk: str, words: str) -> None:
    """It read two messages of eight, and said that all of it was read."""
    ran = rmqadmin("-o", "json", *words.replace("TOPIC", shrunk).split(), status=0)
    assert bodies(ran.items) == EVERYTHING


def test_conditions_hold_for_them(rmqadmin: Rmqadmin, shrunk: str) -> None:
    found = rmqadmin("-o", "json", "msg", "cat", shrunk, "--tag", "T5 || T1").items
    assert bodies(found) == ["m1", "m5"]
    assert bodies(rmqadmin("-o", "json", "msg", "cat", shrunk, "--sql92", "TAGS = 'T6'").items) == ["m6"]
    assert bodies(rmqadmin("-o", "json", "msg", "cat", shrunk, "--queue", "7").items) == ["m7"]


def test_an_export_has_them(rmqadmin: Rmqadmin, shrunk: str, tmp_path: Path) -> None:
    assert rmqadmin("msg", "export", shrunk, str(tmp_path / "all.jsonl")).status == 0
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    assert len([line for line in lines if '"body"' in line]) == QUEUES


def test_a_queue_that_never_was_is_still_refused(rmqadmin: Rmqadmin, shrunk: str, server: Server) -> None:
    with AdminClient(server.namesrv_addr) as admin, pytest.raises(RefusedError, match="queueId"):
        admin.pull_message(server.broker_addr, MessageQueue(shrunk, "broker-a", 40), 0)


def test_doctor_finds_them_without_any_group(rmqadmin: Rmqadmin, shrunk: str) -> None:
    """It compared the numbers of read and write queues, which may be the same again."""
    found = [
        item
        for item in rmqadmin("-o", "json", "doctor", "--sample", "0").items
        if f"the topic {shrunk} has " in item["what"]
    ]
    assert [(item["check"], item["severity"]) for item in found] == [("unread-queues", "warning")]
    assert "6 messages in queues that consumers do not read" in found[0]["what"]
    assert found[0]["fix"].endswith(f"-t '{shrunk}' -r 8")


# --- step by step ----------------------------------------------------------------------------------------------------


def test_queues_are_taken_step_by_step(rmqadmin: Rmqadmin, server: Server, topic: str, group: str) -> None:
    dry = update(rmqadmin, topic, "--shrink-to", "2", "--dry-run")
    assert (dry.status, nums(server, topic)) == (0, (8, 8))
    first = update(rmqadmin, topic, "--shrink-to", "2")
    assert (first.status, nums(server, topic)) == (1, (8, 2))
    assert "producers learn within 30 s" in first.err
    second = update(rmqadmin, topic, "--shrink-to", "2")
    assert (second.status, nums(server, topic)) == (1, (8, 2))
    assert f"not consumed yet: queue 2 on {server.broker_addr}: 1 ({group})" in second.err
    assert rmqadmin("skipAccumulatedMessage", "-g", group, "-t", topic).status == 0
    third = update(rmqadmin, topic, "--shrink-to", "2")
    assert (third.status, third.err, nums(server, topic)) == (0, "", (2, 2))
    last = update(rmqadmin, topic, "--shrink-to", "2")
    assert (last.status, "keep" in last.out) == (0, True)


def test_messages_that_nobody_reads_are_waited_for(rmqadmin: Rmqadmin, server: Server, topic: str) -> None:
    assert update(rmqadmin, topic, "--shrink-to", "7").status == 1
    ran = update(rmqadmin, topic, "--shrink-to", "7")
    assert (ran.status, nums(server, topic)) == (1, (8, 7))
    assert "queue 7 on" in ran.err
    assert "nobody reads the topic" in ran.err
    assert "only their expiry ends this" in ran.err
    given_up = ran.err[ran.err.index("rmqadmin updateTopic") :].partition(",")[0].split()[2:]
    assert update(rmqadmin, topic, *(word.strip("'") for word in given_up)).status == 0
    assert nums(server, topic) == (7, 7)


def test_what_arrives_in_the_last_moment_is_not_lost(
    rmqadmin: Rmqadmin, server: Server, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer that knows the old route sends until the broker has fewer queues."""
    assert update(rmqadmin, topic, "--shrink-to", "2").status == 1
    assert rmqadmin("skipAccumulatedMessage", "-g", group, "-t", topic).status == 0
    real = AdminClient.create_topic

    def create_topic(admin: AdminClient, addr: str, config: TopicConfig) -> None:
        if config.read_queue_nums == 2:
            rmqadmin("sendMessage", "-t", topic, "-p", "late", "-b", "broker-a", "-i", "5", status=0)
        real(admin, addr, config)

    monkeypatch.setattr(AdminClient, "create_topic", create_topic)
    ran = update(rmqadmin, topic, "--shrink-to", "2")
    assert (ran.status, nums(server, topic)) == (1, (8, 2))
    assert f"queue 5 on {server.broker_addr}: 1 ({group})" in ran.err


def test_it_changes_only_the_numbers_of_queues(rmqadmin: Rmqadmin, topic: str) -> None:
    assert update(rmqadmin, topic, "--shrink-to", "2", "-r", "2").status == 2
    assert update(rmqadmin, topic, "--shrink-to", "0").status == 2
    assert update(rmqadmin, f"{topic}-none", "--shrink-to", "2").status == 5


def test_messages_out_of_reach_get_their_read_queues_back_first(
    rmqadmin: Rmqadmin, server: Server, shrunk: str, group: str
) -> None:
    """What ``-r 2`` advised took the write queues and said ``done``, while six messages reached nobody."""
    told = f"out of consumers' reach with 2 read queues: queue 2 on {server.broker_addr}: 1 ({group})"
    was = nums(server, shrunk)
    dry = update(rmqadmin, shrunk, "--shrink-to", "2", "--dry-run")
    assert (dry.status, told in dry.err, nums(server, shrunk)) == (0, True, was)
    first = update(rmqadmin, shrunk, "--shrink-to", "2")
    assert (first.status, told in first.err, nums(server, shrunk)) == (1, True, (8, 2))
    second = update(rmqadmin, shrunk, "--shrink-to", "2")
    assert (second.status, "not consumed yet" in second.err) == (1, True)
    assert rmqadmin("skipAccumulatedMessage", "-g", group, "-t", shrunk).status == 0
    assert update(rmqadmin, shrunk, "--shrink-to", "2").status == 0
    assert nums(server, shrunk) == (2, 2)


@pytest.mark.parametrize("shrink_to", [8, 5])
def test_queues_that_stay_are_read(rmqadmin: Rmqadmin, server: Server, topic: str, shrink_to: int) -> None:
    assert update(rmqadmin, topic, "-r", "2").status == 0
    update(rmqadmin, topic, "--shrink-to", str(shrink_to))
    assert nums(server, topic) == (8, shrink_to)


def test_more_queues_than_there_are_is_no_shrink(rmqadmin: Rmqadmin, server: Server, topic: str) -> None:
    """It said ``keep``."""
    ran = update(rmqadmin, topic, "--shrink-to", "9")
    assert (ran.status, nums(server, topic)) == (2, (8, 8))
    assert "is no shrink" in ran.err
    assert "-r 9 -w 9" in ran.err


# --- lag -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_lag_counts_what_a_group_has_left_there(rmqadmin: Rmqadmin, shrunk: str, group: str) -> None:
    """Brokers leave it out: a group that had consumed two messages of eight had no lag."""
    ran = rmqadmin("-o", "json", "consumerProgress", "-g", group)
    assert (ran.document["summary"]["lag_count"], ran.document["summary"]["unread_count"]) == (8, 6)
    assert [row["unread"] for row in ran.items] == [None, None, *[True] * 6]
    assert "6 messages in queues that consumers do not read" in ran.err
    assert "rmqadmin updateTopic -b" in ran.err
    (listed,) = (row for row in rmqadmin("-o", "json", "consumerProgress").items if row["group"] == group)
    assert listed["lag_count"] == 8
    assert "Consume Diff Total: 2\n" in rmqadmin("consumerProgress", "-g", group, "--output", "mqadmin").out
    lag = rmqadmin("-o", "json", "group", "lag", group, "--sample", "0")
    assert lag.document["summary"]["lag_count"] == 8
    assert [row["problem"] for row in lag.items].count("consumers do not read it") == 6
    checked = rmqadmin("check", "lag", "-g", group, status=1)
    assert "8 messages behind, 6 of them in queues that consumers do not read" in checked.out
    examined = rmqadmin("-o", "json", "doctor")
    (found,) = (
        item
        for item in examined.items
        if item["subject"] == group and "queues that consumers do not read" in item["what"]
    )
    assert found["fix"].endswith(f"-t '{shrunk}' -r 8")


def test_what_every_group_has_consumed_is_no_lag(rmqadmin: Rmqadmin, shrunk: str, group: str) -> None:
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", shrunk, "-r", "8").status == 0
    assert rmqadmin("skipAccumulatedMessage", "-g", group, "-t", shrunk).status == 0
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", shrunk, "-r", "2", "-w", "2").status == 0
    ran = rmqadmin("-o", "json", "consumerProgress", "-g", group)
    assert (ran.document["summary"]["lag_count"], ran.document["summary"]["unread_count"], ran.err) == (0, None, "")
    assert rmqadmin("check", "lag", "-g", group).status == 0


@pytest.mark.parametrize("words", ["-r 2", "-r 2 -w 2"])
def test_a_group_without_an_offset_there_has_lag_there(
    rmqadmin: Rmqadmin, topic: str, words: str, fresh: Fresh
) -> None:
    """Its clients have had two queues from the first; queues past both counts are known from no offset of it."""
    name = fresh("UnreadGroup")
    assert update(rmqadmin, topic, *words.split()).status == 0
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", name).status == 0
    assert rmqadmin("resetOffset", "-g", name, "-t", topic, "--to", "begin", "--yes").status == 0
    with_offsets = rmqadmin("-o", "json", "consumerProgress", "-g", name)
    assert [row["unread"] for row in with_offsets.items] == [None, None, *[True] * 6]
    lag = rmqadmin("-o", "json", "group", "lag", name, "--sample", "0")
    assert [row["problem"] for row in lag.items].count("consumers do not read it") == 6
    (listed,) = (row for row in rmqadmin("-o", "json", "consumerProgress").items if row["group"] == name)
    assert listed["lag_count"] == 8
    rmqadmin("deleteSubGroup", "-c", CLUSTER, "-g", name)
