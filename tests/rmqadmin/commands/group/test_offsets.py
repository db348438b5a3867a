"""Groups on a running server: moved, and moved back."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqadmin.core.offsets import reset_undo
from rmqclient.admin import AdminClient
from rmqclient.pull import PULL_ANSWER_CODES, pull_header
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.errors import UsageError
from rmqproto.headers.base import to_ext
from rmqproto.names import GROUP_LENGTH_MAX, TOPIC_LENGTH_MAX
from tests.rmqadmin.commands.group.conftest import MESSAGES, QUEUES, come_online
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.servers import Fresh, Server
from tests.support.wire import Wire


def offsets(rmqadmin: Rmqadmin, group: str) -> list[int]:
    return [row["consumer_offset"] for row in rmqadmin("-o", "json", "consumerProgress", "-g", group).items]


def test_an_offline_group_is_moved_anywhere_and_back(rmqadmin: Rmqadmin, group: str, topic: str) -> None:
    def reset(to: str, *more: str) -> list[tuple[int | None, int | None]]:
        ran = rmqadmin("-o", "json", "resetOffset", "-g", group, "-t", topic, "--to", to, *more, status=0)
        return [(row["old_offset"], row["new_offset"]) for row in ran.items]

    assert reset("begin", "--dry-run") == [(None, 0), (None, 0)]
    assert reset("begin") == [(None, 0), (None, 0)]
    assert reset("end") == [(0, 3), (0, 3)]
    assert reset("2") == [(3, 2), (3, 2)]
    assert reset("4711") == [(2, 3), (2, 3)]  # clamped to the queue's limits
    assert reset("-1h") == [(3, 0), (3, 0)]
    assert reset("now") == [(0, 3), (0, 3)]
    assert offsets(rmqadmin, group) == [3, 3]


def test_a_group_is_moved_by_a_number_of_messages(rmqadmin: Rmqadmin, server: Server, group: str, topic: str) -> None:
    """From where it is in each queue, and no further than the queue's limits."""
    command = ("-o", "json", "resetOffset", "-g", group, "-t", topic, "--to")
    nowhere = rmqadmin(*command, "-1")
    assert (nowhere.status, f"has no offset in the topic {topic} to count from" in nowhere.err) == (5, True)
    with AdminClient(server.namesrv_addr) as admin:
        admin.update_consumer_offset(server.broker_addr, group, topic, 1, 2)
    forward = rmqadmin(*command, "+1", "--yes")
    assert [(row["old_offset"], row["new_offset"]) for row in forward.items] == [(None, None), (2, 3)]
    assert "the group has no offset in 1 queue to count from: nothing is changed there" in forward.err
    assert "cannot go that far" not in forward.err
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "1", "--queue", "0")
    back = rmqadmin(*command, "-2")
    assert [(row["old_offset"], row["new_offset"], row["done"]) for row in back.items] == [(1, 0, True), (3, 1, True)]
    assert "1 queue cannot go that far: the group goes to the nearest limit there" in back.err
    assert offsets(rmqadmin, group) == [0, 1]
    assert [row["new_offset"] for row in rmqadmin(*command, "+99", "--dry-run").items] == [3, 3]


@pytest.mark.parametrize(("chosen", "is_online"), [(["1"], False), (["broker-a:1", "1"], True)])
def test_a_group_is_moved_in_chosen_queues_only_and_back(
    rmqadmin: Rmqadmin, wire: Wire, group: str, topic: str, chosen: list[str], is_online: bool
) -> None:
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "1")
    if is_online:
        come_online(wire, group, topic)
    only = [word for text in chosen for word in ("--queue", text)]
    moved = rmqadmin("-o", "json", "resetOffset", "-g", group, "-t", topic, "--to", "end", *only)
    assert [(row["queue_id"], row["new_offset"], row["done"]) for row in moved.items] == [(1, 3, True)]
    assert offsets(rmqadmin, group) == [1, 3]
    undone = rmqadmin("-o", "json", "resetOffset", "--undo", moved.document["summary"]["undo_file"])
    assert [row["queue_id"] for row in undone.items] == [1]
    assert "had no offset" not in undone.err
    assert offsets(rmqadmin, group) == [1, 1]


def test_an_undo_file_takes_a_reset_back(rmqadmin: Rmqadmin, group: str, topic: str) -> None:
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "1")
    moved = rmqadmin("-o", "json", "resetOffset", "-g", group, "-t", topic, "--to", "end").document["summary"]
    assert (moved["old_lag_count"], moved["new_lag_count"]) == (4, 0)
    undone = rmqadmin("-o", "json", "resetOffset", "--undo", moved["undo_file"])
    assert [(row["old_offset"], row["new_offset"], row["done"]) for row in undone.items] == [(3, 1, True)] * 2
    assert offsets(rmqadmin, group) == [1, 1]


def test_an_undo_file_of_other_name_servers_is_not_taken_without_a_yes(
    rmqadmin: Rmqadmin, group: str, topic: str
) -> None:
    """The group of this name in another cluster was moved, without a word."""
    ran = rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin")
    path = Path(ran.err.split("--undo ")[1].split()[0])
    path.write_text(re.sub(r'"namesrv_addrs": \[[^]]*\]', '"namesrv_addrs": ["192.0.2.1:9876"]', path.read_text()))
    refused = rmqadmin("resetOffset", "--undo", str(path))
    assert (refused.status, "made on the name servers 192.0.2.1:9876, and" in refused.err) == (2, True), refused.err
    told = rmqadmin("resetOffset", "--undo", str(path), "--dry-run")
    assert (told.status, "is it the same cluster?" in told.err) == (0, True)
    assert rmqadmin("resetOffset", "--undo", str(path), "--yes").status == 0


def test_names_of_any_length_fit_into_that_of_an_undo_file(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    """A group and a topic with the longest names could not be reset, because the undo file's name was too long."""
    group, topic = fresh("g").ljust(GROUP_LENGTH_MAX, "g"), fresh("t").ljust(TOPIC_LENGTH_MAX, "t")
    rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "1", "-w", "1")
    rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", group)
    rmqadmin("sendMessage", "-t", topic, "-p", "x")
    moved = rmqadmin("-o", "json", "resetOffset", "-g", group, "-t", topic, "--to", "0", status=0)
    assert group in Path(moved.document["summary"]["undo_file"]).read_text()


def test_a_dry_run_of_a_reset_leaves_no_undo_file_and_moves_nothing(rmqadmin: Rmqadmin, group: str, topic: str) -> None:
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin")
    before = sorted(reset_undo.undo_dir().iterdir())
    for args in (
        ["resetOffset", "-g", group, "-t", topic, "--to", "end"],
        ["resetOffsetByTime", "-g", group, "-t", topic, "-s", "now"],
    ):
        ran = rmqadmin("-o", "json", *args, "--dry-run")
        assert [row["new_offset"] for row in ran.items] == [3, 3]
        assert ran.document["summary"]["undo_file"] is None
    assert sorted(reset_undo.undo_dir().iterdir()) == before
    assert offsets(rmqadmin, group) == [0, 0]


def test_a_reset_that_changes_nothing_leaves_no_undo_file(rmqadmin: Rmqadmin, topic: str) -> None:
    rmqadmin("resetOffset", "-g", "NoSuchGroup", "-t", topic, "--to", "end", status=5)
    assert list(reset_undo.undo_dir().iterdir()) == []


def test_an_undo_that_would_deliver_again_says_how_many_and_needs_a_yes(
    rmqadmin: Rmqadmin, server: Server, admin: AdminClient, group: str, topic: str, fresh: Fresh
) -> None:
    """It moved the group back over all that it had consumed since, without a word."""
    ahead = fresh("LagGroup")
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", ahead).status == 0

    def consume_to(*committed: int, by: str = group) -> None:
        for queue_id, queue_offset in enumerate(committed):
            admin.update_consumer_offset(server.broker_addr, by, topic, queue_id, queue_offset)

    consume_to(1, 1)
    consume_to(3, 3, by=ahead)
    moved = rmqadmin("-o", "json", "cloneGroupOffset", "-s", ahead, "-d", group, "-t", topic)
    assert moved.document["summary"]["again_count"] is None
    assert rmqadmin("sendMessage", "-t", topic, "-p", "m", "-b", "broker-a", "-i", "0").status == 0
    with Wire(server.broker_addr) as member:  # it hears of the move; until then the broker takes no other offset
        come_online(member, group, topic)
        for queue_id in range(2):
            header = pull_header(group, MessageQueue(topic, "broker-a", queue_id), 1, max_count=1)
            assert member.ask(RequestCode.PULL_MESSAGE, to_ext(header)).code in PULL_ANSWER_CODES
    consume_to(4, 3)
    words = ("resetOffset", "--undo", moved.document["summary"]["undo_file"])
    shown = rmqadmin("-o", "json", *words, "--dry-run")
    assert [row["again_count"] for row in shown.items] == [1, None]  # the skipped ones come for the first time
    assert f"1 message that {group} has consumed comes again" in shown.err
    rmqadmin(*words, status=2, err="1 message that it has consumed comes again. Nobody can be asked")
    assert offsets(rmqadmin, group) == [4, 3]
    assert rmqadmin(*words, "--yes").status == 0
    assert offsets(rmqadmin, group) == [1, 1]


def test_every_move_back_says_how_many_messages_come_again(
    rmqadmin: Rmqadmin, server: Server, group: str, topic: str, fresh: Fresh
) -> None:
    other = fresh("LagGroup")
    assert rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", other).status == 0
    assert rmqadmin("resetOffset", "-g", other, "-t", topic, "--to", "1").status == 0
    for words in (
        ["resetOffset", "--to", "1", "-g"],
        ["resetOffset", "--to", "-2", "-g"],
        ["cloneGroupOffset", "-s", other, "-d"],
    ):
        assert rmqadmin("skipAccumulatedMessage", "-g", group, "-t", topic).status == 0
        for more in (["--dry-run"], []):
            ran = rmqadmin(*words, group, "-t", topic, *more, status=0)
            assert f"4 messages that {group} has consumed come again" in ran.err
    assert rmqadmin("skipAccumulatedMessage", "-g", group, "-t", topic).status == 0
    ran = rmqadmin("resetOffsetByTime", "-s", "1000", "-g", group, "-t", topic)
    assert f"6 messages that {group} has consumed come again" in ran.err


def test_a_skip_says_first_what_it_leaves_behind(rmqadmin: Rmqadmin, group: str, topic: str) -> None:
    assert rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "1").status == 0
    shown = rmqadmin("-o", "json", "skipAccumulatedMessage", "-g", group, "-t", topic, "--dry-run")
    assert [row["skipped_count"] for row in shown.items] == [MESSAGES - 1] * QUEUES
    oldest_ms = [row["oldest_skipped_ms"] for row in shown.items]
    assert shown.document["summary"]["oldest_skipped_ms"] == min(oldest_ms) > 0
    assert offsets(rmqadmin, group) == [1, 1]


def test_an_undo_file_names_what_was_and_no_secret(rmqadmin: Rmqadmin, group: str, topic: str) -> None:
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin", "-ak", "key", "-sk", "very-secret")
    (path,) = reset_undo.undo_dir().iterdir()
    text = path.read_text()
    assert "secret" not in text
    record = json.loads(text)
    assert (record["group"], record["topic"]) == (group, topic)
    assert record["queues"][0] == {
        "broker_name": "broker-a", "queue_id": 0, "committed_offset": None, "reset_offset": 0
    }  # fmt: skip


def test_an_undo_cannot_bring_back_that_there_was_no_offset(rmqadmin: Rmqadmin, group: str, topic: str) -> None:
    """The summary used to hide that the group stays where it is."""
    made = rmqadmin("-o", "json", "resetOffset", "-g", group, "-t", topic, "--to", "end").document["summary"]
    assert made["unchanged_count"] is None
    undone = rmqadmin("-o", "json", "resetOffset", "--undo", made["undo_file"], status=0)
    assert "the group had no offset in 2 queues: nothing is changed there" in undone.err
    assert undone.document["summary"]["unchanged_count"] == 2
    assert {row["new_offset"] for row in undone.items} == {None}
    assert offsets(rmqadmin, group) == [3, 3]


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"kind":"x","made_ms":1,"namesrv_addrs":[],"group":"g","topic":"t","queues":[]}']
)
def test_what_is_no_undo_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "undo.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        reset_undo.read_untrusted(path)
    with pytest.raises(UsageError):
        reset_undo.read_untrusted(tmp_path / "missing")


def test_a_name_that_no_undo_file_has_is_refused(rmqadmin: Rmqadmin, group: str, topic: str) -> None:
    """`reset_ofset` was left out: the undo could not see that the group had gone on."""
    made = rmqadmin("-o", "json", "resetOffset", "-g", group, "-t", topic, "--to", "end").document["summary"]
    path = Path(made["undo_file"])
    path.write_text(path.read_text().replace('"reset_offset"', '"reset_ofset"'))
    ran = rmqadmin("resetOffset", "--undo", str(path), "--yes", status=2)
    assert "queues[0]: there is no field reset_ofset" in ran.err
    assert "Did you mean reset_offset?" in ran.err


def test_a_destructive_command_says_which_instant_it_understood(rmqadmin: Rmqadmin, group: str, topic: str) -> None:
    ran = rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "2026-01-31T12:00:00Z", "--dry-run")
    assert "--to 2026-01-31T12:00:00Z is 2026-01-31 12:00:00.000+00:00 UTC (" in ran.err
    ran = rmqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", "2026-01-31T12:00:00Z", "--dry-run")
    assert "-s 2026-01-31T12:00:00Z is 2026-01-31 12:00:00.000+00:00 UTC (" in ran.err


def test_an_online_group_is_moved_and_its_next_pull_is_told(
    rmqadmin: Rmqadmin, wire: Wire, group: str, topic: str
) -> None:
    come_online(wire, group, topic)
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "end")
    assert rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "1").status == 0
    pull = {
        "consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "3", "maxMsgNums": "1", "sysFlag": "0",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
    }  # fmt: skip
    answer = wire.ask(RequestCode.PULL_MESSAGE, pull)
    assert (answer.code, answer.ext["nextBeginOffset"]) == (21, "1")


def test_mqadmins_reset_by_time(rmqadmin: Rmqadmin, server: Server, group: str, topic: str) -> None:
    args = ("resetOffsetByTime", "-g", group, "-t", topic, "--output", "mqadmin")
    now = rmqadmin(*args, "-s", "now")
    assert now.out.startswith(
        f"start reset consumer offset by specified, group[{group}], topic[{topic}], force[true], "
    )
    assert sorted(line.split() for line in now.out.splitlines()[2:]) == [["broker-a", "0", "3"], ["broker-a", "1", "3"]]
    one = rmqadmin(*args, "-s", "-1", "-b", server.broker_addr, "-q", "1", "-o", "0")  # mqadmin cannot move it to 0
    assert one.out.splitlines()[1] == "reset consumer offset to 0"
    assert offsets(rmqadmin, group) == [3, 0]
    beyond = rmqadmin(*args, "-s", "-1", "-b", server.broker_addr, "-q", "1", "-o", "99")
    assert (beyond.status, "not in consume queue range" in beyond.err) == (1, True)


def test_where_brokers_leave_resets_to_the_clients_offline_groups_are_moved_all_the_same(
    run: Rmqadmin, start_standalone: Callable[..., Server]
) -> None:
    """``useServerSideResetOffset=false``, as in older releases. No client is online to be told, so the offsets are
    written."""
    old = start_standalone("--set", "useServerSideResetOffset=false")
    n = ("-n", old.namesrv_addr)
    run("updateTopic", "-c", CLUSTER, "-t", "T", "-r", "1", "-w", "1", *n)
    run("updateSubGroup", "-c", CLUSTER, "-g", "G", *n)
    for _ in range(3):
        run("sendMessage", "-t", "T", "-p", "x", *n)
    moved = run("-o", "json", "resetOffset", "-g", "G", "-t", "T", "--to", "2", *n)
    assert [(row["new_offset"], row["done"]) for row in moved.items] == [(2, True)]
    with Wire(old.broker_addr) as wire:
        come_online(wire, "G", "T")
        refused = run("resetOffset", "-g", "G", "-t", "T", "--to", "1", *n)
        told = run("-o", "json", "resetOffset", "-g", "G", "-t", "T", "--to", "begin", *n)
        for one_queue in (
            ("resetOffset", "--to", "end", "--queue", "0"),
            ("resetOffsetByTime", "-s", "-1", "-b", old.broker_addr, "-q", "0"),
        ):
            ran = run(*one_queue, "-g", "G", "-t", "T", *n)
            assert (ran.status, "in all queues at once" in ran.err) == (2, True), "it would move every queue"
    assert refused.status == 2
    assert "move online to a time only" in refused.err
    (row,) = told.items
    assert (told.status, row["new_offset"], row["done"]) == (1, 0, False), "the member has not followed"
    assert "the broker says 2 afterwards: online consumers of older brokers take 10 s to follow" in row["error"]


@pytest.mark.parametrize(
    "words",
    [
        "resetOffset --to end -g",
        "skipAccumulatedMessage -g",
        "resetOffsetByTime -s -1 -g",
        "cloneGroupOffset -s {group} -d",
    ],
)
def test_who_moves_a_group_that_does_not_exist_is_told(rmqadmin: Rmqadmin, group: str, topic: str, words: str) -> None:
    """A mistyped name was moved without a word, and the group that was meant stayed where it was."""
    rmqadmin("resetOffset", "-g", group, "-t", topic, "--to", "begin")
    command = (*words.format(group=group).split(), f"{group}x", "-t", topic, "--dry-run")
    said = f"there is no group {group}x now; did you mean {group}?"
    assert said in rmqadmin(*command).err
    rmqadmin("updateSubGroup", "-c", CLUSTER, "-g", f"{group}x", status=0)
    assert "there is no group" not in rmqadmin(*command).err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["resetOffset", "-g", "G"], "Missing required options: -t, --to"),
        (["resetOffset", "--undo", "f", "-g", "G"], "--undo FILE stands alone"),
        (["resetOffset", "--undo", "f", "--queue", "0"], "--undo FILE stands alone"),
        (["resetOffset", "-g", "G", "-t", "T", "--to", "yesterday"], "'yesterday' is not a time"),
        (["resetOffset", "-g", "G", "-t", "T", "--to", "first"], "Or begin, end, 1200, +10, -10."),
        (["resetOffsetByTime", "-g", "G", "-t", "T", "-s", "yesterday"], "'yesterday' is not a time"),
    ],
)
def test_a_reset_that_cannot_be_meant_is_refused(rmqadmin: Rmqadmin, args: list[str], said: str) -> None:
    rmqadmin(*args, status=2, out="", err=said)
