"""Messages on a running server, read by place, by unique key, and queue after queue."""

import pytest

from rmqadmin.core.messages import message_rows
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.message.sys_flag import COMPRESSED
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.servers import Fresh, Server, until

COUNT = 40
"""More messages than one pull returns."""


@pytest.fixture
def topic(rmqadmin: Rmqadmin, server: Server, fresh: Fresh) -> str:
    """Two queues: 40 messages in the first, of which the last has its own tag, and three in the second."""
    name = fresh("ReadTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", name, "-r", "2", "-w", "2").status == 0
    with AdminClient(server.namesrv_addr) as admin:
        for queue_id, count in ((0, COUNT), (1, 3)):
            for at in range(count):
                tag = "rare" if at == COUNT - 1 else "common"
                queue = MessageQueue(name, "broker-a", queue_id)
                admin.send_message(server.broker_addr, queue, Message(name, f"{queue_id}-{at}".encode(), tags=tag))
    return name


def bodies(rmqadmin: Rmqadmin, *args: str) -> list[str]:
    ran = rmqadmin("-o", "json", *args, status=0)
    return [row["body"] for row in ran.items]


def test_all_messages_of_a_topic_are_read_queue_after_queue(rmqadmin: Rmqadmin, topic: str) -> None:
    everything = [f"0-{at}" for at in range(COUNT)] + ["1-0", "1-1", "1-2"]
    assert bodies(rmqadmin, "printMsg", "-t", topic) == everything
    assert bodies(rmqadmin, "printMsg", "-t", topic, "-b", "-1h..now") == everything
    assert bodies(rmqadmin, "printMsg", "-t", topic, "-e", "-1h") == []
    assert set(bodies(rmqadmin, "printMsg", "-t", topic, "-d", "false")) == {None}
    assert bodies(rmqadmin, "consumeMessage", "-t", topic) == everything


def test_a_rare_tag_is_found_behind_a_batch_without_it(rmqadmin: Rmqadmin, topic: str) -> None:
    """mqadmin's printMsgByQueue ends at the first empty pull."""
    by_queue = ("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "0", "-d", "true")
    assert bodies(rmqadmin, *by_queue, "-s", "rare") == [f"0-{COUNT - 1}"]
    assert bodies(rmqadmin, "printMsg", "-t", topic, "-s", "rare || none") == [f"0-{COUNT - 1}"]


def test_messages_are_chosen_by_their_properties(rmqadmin: Rmqadmin, topic: str) -> None:
    """rmqadmin filters the messages itself. This broker would not, and Apache's does only with
    ``enablePropertyFilter``."""
    by_queue = ("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "0", "-d", "true")
    assert bodies(rmqadmin, *by_queue, "--sql92", "TAGS = 'rare' OR missing > 5") == [f"0-{COUNT - 1}"]
    assert bodies(rmqadmin, "printMsg", "-t", topic, "--sql92", "TAGS <> 'common'") == [f"0-{COUNT - 1}"]
    assert bodies(rmqadmin, "printMsg", "-t", topic, "-s", "common", "--sql92", "TAGS = 'rare'") == []


@pytest.mark.parametrize(
    ("args", "read"),
    [
        (["-c", "1", "--sql92", "TAGS = 'rare'"], ["0-39"]),
        (["-c", "2", "--sql92", "KEYS = 'key' OR TAGS = 'common'"], ["0-0", "0-1"]),
        (["-b", "broker-a", "-i", "0", "-o", "3", "-c", "2", "--sql92", "TAGS <> 'none'"], ["0-3", "0-4"]),
        (["-c", "41", "--sql92", "TAGS IN ('rare', 'common')"], [*(f"0-{at}" for at in range(COUNT)), "1-0"]),
        (["--sql92", "TAGS IS NULL"], []),
    ],
)
def test_as_many_are_consumed_as_the_properties_choose(
    rmqadmin: Rmqadmin, topic: str, args: list[str], read: list[str]
) -> None:
    assert bodies(rmqadmin, "consumeMessage", "-t", topic, *args) == read
    text = rmqadmin("consumeMessage", "-t", topic, *args, "--output", "mqadmin").out
    assert text.count("MSGID: ") == len(read)


def test_messages_of_a_key_are_chosen_by_their_properties(rmqadmin: Rmqadmin, topic: str) -> None:
    for tag in ("new", "paid"):
        rmqadmin("sendMessage", "-t", topic, "-p", tag, "-k", "ORDER", "-c", tag)
    query = ("queryMsgByKey", "-t", topic, "-k", "ORDER")
    until(lambda: len(rmqadmin("-o", "json", *query).items) == 2)
    (found,) = rmqadmin("-o", "json", *query, "--sql92", "TAGS = 'paid'").items
    assert found["tags"] == "paid"
    none = rmqadmin(*query, "--sql92", "TAGS = 'lost'")
    assert (none.status, "--sql92 takes none of the 2 messages found with the key ORDER" in none.err) == (5, True)


@pytest.mark.parametrize(
    "command",
    [
        ["printMsg", "-t", "NoSuchTopic"],
        ["printMsgByQueue", "-t", "NoSuchTopic", "-a", "broker-a", "-i", "0"],
        ["consumeMessage", "-t", "NoSuchTopic"],
        ["queryMsgByKey", "-t", "NoSuchTopic", "-k", "KEY"],
        ["dlq", "show", "NoSuchGroup"],
        ["dlq", "redrive", "NoSuchGroup"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_an_expression_that_does_not_compile_is_told_before_anything_is_read(
    rmqadmin: Rmqadmin, command: list[str]
) -> None:
    ran = rmqadmin(*command, "--sql92", "TAGS >", status=2, err='--sql92: Encountered "<EOF>" at line 1, column 6.')
    assert "NOT" in ran.err


def test_a_comparison_that_no_broker_makes_is_told(rmqadmin: Rmqadmin) -> None:
    rmqadmin("printMsg", "-t", "NoSuchTopic", "--sql92", "TAGS > 'x'", err="--sql92: Value ''x'' cannot be compared.")


def test_tags_are_counted(rmqadmin: Rmqadmin, topic: str) -> None:
    args = ("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "0", "-f", "true")
    assert rmqadmin("-o", "json", *args).items == [
        {"tags": "common", "message_count": COUNT - 1}, {"tags": "rare", "message_count": 1},
    ]  # fmt: skip
    assert rmqadmin(*args, "--output", "mqadmin").out.splitlines()[0] == f"Tag: {'common':30} Count: {COUNT - 1}"


def test_reading_stops_where_it_is_told_to_and_says_so(rmqadmin: Rmqadmin, topic: str) -> None:
    ran = rmqadmin("-o", "json", "printMsg", "-t", topic, "--limit", "10")
    assert len(ran.items) == 10
    assert "stopped after 10 messages; --limit reads more" in ran.err
    assert "--limit" not in rmqadmin("printMsg", "-t", topic).err


def test_the_newest_come_in_the_order_in_which_they_were_stored(rmqadmin: Rmqadmin, topic: str) -> None:
    every = rmqadmin("-o", "json", "printMsg", "-t", topic).items
    by_time = sorted(every, key=lambda row: (row["stored_ms"], row["log_offset"]))
    assert rmqadmin("-o", "json", "printMsg", "-t", topic, "--tail", "5").items == by_time[-5:]
    assert rmqadmin("-o", "json", "printMsg", "-t", topic, "--tail", "1000").items == by_time


def test_the_newest_of_a_rare_tag_are_looked_for_further_back(rmqadmin: Rmqadmin, topic: str) -> None:
    """The last messages of the queue have another tag."""
    found = rmqadmin("-o", "json", "printMsg", "-t", topic, "-s", "rare", "--tail", "1").items
    assert [row["tags"] for row in found] == ["rare"]


def test_the_newest_of_a_tag_come_once(rmqadmin: Rmqadmin, server: Server, topic: str) -> None:
    """A broker that filters by tags also returns messages from beyond the wanted range."""
    with AdminClient(server.namesrv_addr) as admin:
        for at in range(12):
            queue = MessageQueue(topic, "broker-a", 0)
            tag = "some" if at % 4 == 0 else "other"
            admin.send_message(server.broker_addr, queue, Message(topic, f"new-{at}".encode(), tags=tag))
    assert bodies(rmqadmin, "printMsg", "-t", topic, "-s", "some", "--tail", "3") == ["new-0", "new-4", "new-8"]


def test_what_comes_is_followed_until_there_is_enough(rmqadmin: Rmqadmin, topic: str) -> None:
    ran = rmqadmin("-o", "jsonl", "printMsg", "-t", topic, "--tail", "2", "--follow", "--limit", "2", status=0)
    assert len(ran.out.splitlines()) == 2
    rmqadmin("-o", "yaml", "printMsg", "-t", topic, "--follow", status=2, err="have no end")
    assert rmqadmin("-o", "mqadmin", "printMsg", "-t", topic, "--tail", "2").status == 2


@pytest.mark.parametrize(
    ("args", "read"),
    [
        (["-c", "2"], ["0-0", "0-1"]),
        (["-c", "41"], [*(f"0-{at}" for at in range(COUNT)), "1-0"]),
        (["-b", "broker-a", "-i", "0", "-o", "38"], ["0-38", "0-39"]),
        (["-b", "broker-a", "-i", "0", "-o", "1", "-c", "2"], ["0-1", "0-2"]),
        (["-b", "broker-a", "-i", "1"], ["1-0", "1-1", "1-2"]),
        (["-b", "broker-a", "-c", "1"], ["0-0"]),
    ],
)
def test_as_many_messages_as_wanted_are_read(rmqadmin: Rmqadmin, topic: str, args: list[str], read: list[str]) -> None:
    assert bodies(rmqadmin, "consumeMessage", "-t", topic, *args) == read


def test_a_message_is_found_by_its_place(rmqadmin: Rmqadmin, topic: str) -> None:
    args = ("queryMsgByOffset", "-t", topic, "-b", "broker-a", "-i", "0")
    (found,) = rmqadmin("-o", "json", *args, "-o", "7").items
    assert (found["queue_offset"], found["body"], found["tracks"]) == (7, "0-7", [])
    beyond = rmqadmin(*args, "-o", "1000")
    assert (beyond.status, "Its queue offsets go from 0 to 39." in beyond.err) == (5, True)
    assert rmqadmin(*args, "-o", "1000", "--output", "mqadmin").status == 0


def test_the_messages_of_one_unique_key(
    rmqadmin: Rmqadmin, topic: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_rows, "BODIES_DIR", tmp_path)
    sent = rmqadmin("-o", "json", "sendMessage", "-t", topic, "-p", "twice", "-k", "K").items[0]
    key = ("queryMsgByUniqueKey", "-t", topic, "-i", sent["message_id"])
    until(lambda: rmqadmin(*key).status == 0)
    rmqadmin("queryMsgById", "-t", topic, "-i", sent["message_id"], "-s", "true")
    until(lambda: len(rmqadmin("-o", "json", *key, "-a").items) == 2)
    both = rmqadmin("-o", "json", *key, "-a").items
    assert {row["message_id"] for row in both} == {sent["message_id"]}
    assert both[0]["offset_message_id"] == sent["offset_message_id"]
    assert rmqadmin("-o", "json", *key).items == both[:1]
    assert rmqadmin(*key, "-e", "-1h").status == 5
    text = rmqadmin(*key, "-a", "--output", "mqadmin").out
    assert text.count(f"{tmp_path}/{sent['message_id']}") == 2
    assert f"{tmp_path}/{sent['message_id']}_1\n" in text


def test_a_compressed_body_is_shown_as_it_was_sent(rmqadmin: Rmqadmin, server: Server, topic: str) -> None:
    body = b"x" * 5000
    with AdminClient(server.namesrv_addr) as admin:
        message = Message(topic, body)
        admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 1), message)
    row = rmqadmin("-o", "json", "printMsg", "-t", topic).items[-1]
    assert (row["body"], row["body_size_bytes"]) == (body.decode(), len(body))
    assert row["sys_flag"] & COMPRESSED


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["consumeMessage", "-t", "TBW102", "-c", "0"], 2, "Please input a positive messageNumber!"),
        (["consumeMessage", "-t", "TBW102", "-i", "0"], 2, "Please set the brokerName before queueId!"),
        (["consumeMessage", "-t", "TBW102", "-b", "broker-a", "-o", "0"], 2, "Please set queueId before offset!"),
        (["consumeMessage", "-t", "TBW102", "-s", "+1h"], 2, "the range begins in the future"),
        (["consumeMessage", "-t", "TBW102", "-e", "+1h"], 2, "Please set the endTimestamp before now!"),
        (["consumeMessage", "-t", "TBW102", "-s", "-1h", "-e", "-2h"], 2, "ends before it begins"),
        (["consumeMessage", "-t", "TBW102", "-b", "broker-a", "-i", "0", "-o", "9"], 5, "It ends at queue offset 0."),
        (["consumeMessage", "-t", "TBW102", "-b", "broker-a", "-i", "0"], 5, "the queue has no message at 0"),
        (["consumeMessage", "-t", "TBW102", "-b", "no-broker"], 5, "The broker[no-broker] not exist"),
        (["printMsg", "-t", "NoSuchTopic"], 5, "17 TOPIC_NOT_EXIST"),
        (["printMsg", "-t", "TBW102", "-c", "no-charset"], 2, "'no-charset' is not a charset"),
        (["printMsgByQueue", "-t", "TBW102", "-a", "no-broker", "-i", "0"], 5, "The broker[no-broker] not exist"),
        (["queryMsgByOffset", "-t", "TBW102", "-b", "no-broker", "-i", "0", "-o", "0"], 5, "The broker[no-broker]"),
        (["queryMsgByOffset", "-t", "TBW102", "-b", "broker-a", "-i", "0", "-o", "0"], 5, "has no message at 0"),
        (["queryMsgByUniqueKey", "-t", "TBW102", "-i", "A" * 32], 5, "with the unique key"),
        (["queryMsgByUniqueKey", "-t", "T", "-i", "A", "-s", "-1h..", "-e", "now"], 2, "-s/--since is a range already"),
    ],
)
def test_what_cannot_be_read(rmqadmin: Rmqadmin, args: list[str], status: int, said: str) -> None:
    rmqadmin(*args, status=status, out="", err=said)
