"""Messages are sent and found again on a running server."""

import base64
import json
import struct
from pathlib import Path

import pytest

from rmqadmin.core.messages import message_rows
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.message import properties as props
from rmqproto.message.record import MAGIC_BLANK, StoredMessage, encode_record, host_bytes
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support.servers import Fresh, Server, create_topic, until


@pytest.fixture
def topic(server: Server, fresh: Fresh) -> str:
    return create_topic(server, fresh("MessageTopic"), 2)


@pytest.fixture
def sent(rmqadmin: Rmqadmin, topic: str) -> dict[str, object]:
    """One indexed message with a key and a tag."""
    ran = rmqadmin(
        "-o", "json", "sendMessage", "-t", topic, "-p", "hallo, wörld", "-k", "KEY-1 KEY-2", "-c", "TagA",
        "-b", "broker-a", "-i", "1", status=0)  # fmt: skip
    until(lambda: rmqadmin("queryMsgByKey", "-t", topic, "-k", "KEY-1").status == 0)
    return ran.items[0]


def test_a_message_is_found_by_both_ids_with_all_that_is_known_of_it(
    rmqadmin: Rmqadmin, topic: str, sent: dict[str, object]
) -> None:
    assert (sent["broker_name"], sent["queue_id"], sent["status"]) == ("broker-a", 1, "SEND_OK")
    for message_id in (str(sent["message_id"]), str(sent["offset_message_id"])):
        (found,) = rmqadmin("-o", "json", "queryMsgById", "-t", topic, "-i", message_id).items
        assert found["message_id"] == sent["message_id"]
        assert found["offset_message_id"] == sent["offset_message_id"]
        assert (found["tags"], found["keys"]) == ("TagA", "KEY-1 KEY-2")
        assert (found["body"], found["body_base64"], found["body_size_bytes"]) == ("hallo, wörld", None, 13)
        assert found["properties"][props.UNIQUE_KEY] == sent["message_id"]
        assert found["tracks"] == []


def test_each_of_a_messages_keys_finds_it_and_its_tag_does(
    rmqadmin: Rmqadmin, topic: str, sent: dict[str, object]
) -> None:
    for args in (["-k", "KEY-1"], ["-k", "KEY-2"], ["-k", "TagA", "-p", "T"], ["-k", "KEY-1", "-b", "-1h..now"]):
        (found,) = rmqadmin("-o", "json", "queryMsgByKey", "-t", topic, *args).items
        assert found["message_id"] == sent["message_id"]
    for args in (["-k", "KEY"], ["-k", "KEY-1 KEY-2"], ["-k", "KEY-1", "-e", "-1h"], ["-k", "TagA"]):
        assert rmqadmin("queryMsgByKey", "-t", topic, *args).status == 5


def test_a_window_that_excludes_a_message_is_not_taken_for_the_topic(
    rmqadmin: Rmqadmin, topic: str, sent: dict[str, object]
) -> None:
    """It said that no message of the topic had the key."""
    until(lambda: rmqadmin("queryMsgByKey", "-t", topic, "-k", "KEY-1").status == 0)
    for command, what in (
        (("queryMsgByKey", "-t", topic, "-k", "KEY-1"), "the key KEY-1"),
        (("queryMsgByUniqueKey", "-t", topic, "-i", str(sent["message_id"])), f"the unique key {sent['message_id']}"),
    ):
        ran = rmqadmin(*command, "--until", "1h", status=5)
        assert f"no message of the topic {topic} with {what} was found in this window" in ran.err
        assert "Outside of it there is 1, stored 20" in ran.err
    ran = rmqadmin("queryMsgByKey", "-t", topic, "-k", "NO-KEY", "--until", "1h")
    assert "with the key NO-KEY was found, neither in this window nor outside of it" in ran.err


def test_a_query_is_kept_to_a_cluster(rmqadmin: Rmqadmin, topic: str, sent: dict[str, object]) -> None:
    assert rmqadmin("queryMsgByKey", "-t", topic, "-k", "KEY-1", "-c", CLUSTER).status == 0
    unknown = rmqadmin("queryMsgByKey", "-t", topic, "-k", "KEY-1", "-c", "NoCluster")
    assert (unknown.status, "there is no cluster NoCluster" in unknown.err) == (5, True)


@pytest.mark.parametrize(
    ("expression", "count"), [("*", 1), ("", 1), (" ", 1), ("TagA || TagB", 1), ("TagB", 0), ("* || TagB", 0)]
)
def test_tags_are_matched_as_consumers_match_them(
    rmqadmin: Rmqadmin, topic: str, sent: dict[str, object], expression: str, count: int
) -> None:
    """An empty expression means all, as in mqadmin; no message used to be shown."""
    of_queue = ("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "1", "-p", "true")
    for command in (of_queue, ("printMsg", "-t", topic)):
        assert len(rmqadmin("-o", "json", *command, "-s", expression).items) == count


@pytest.mark.parametrize("command", ["checkMsgSendRT -t T -s", "sendMsgStatus -b B -s", "bench send --size-bytes"])
def test_a_body_that_no_request_can_hold_is_not_made(rmqadmin: Rmqadmin, command: str) -> None:
    """Gigabytes used to be filled before a broker broke the connection; `bench` did not end."""
    ran = rmqadmin(*command.split(), "99999999")
    assert (ran.status, "16777216" in ran.err) == (2, True)


def test_a_body_that_is_no_text_is_base64(rmqadmin: Rmqadmin, server: Server, topic: str) -> None:
    body = bytes(range(256))
    with AdminClient(server.namesrv_addr) as admin:
        queue = MessageQueue(topic, "broker-a", 0)
        sent = admin.send_message(server.broker_addr, queue, Message(topic, body))
    (found,) = rmqadmin("-o", "json", "queryMsgById", "-t", topic, "-i", sent.offset_message_id).items
    assert (found["body"], base64.b64decode(found["body_base64"])) == (None, body)


def test_a_message_is_sent_once_more_as_it_is(rmqadmin: Rmqadmin, topic: str, sent: dict[str, object]) -> None:
    args = ("-o", "json", "queryMsgById", "-t", topic, "-i", str(sent["message_id"]), "-s", "true")
    assert rmqadmin(*args, "--dry-run").items[0]["status"] is None
    (copy,) = rmqadmin(*args).items
    assert (copy["message_id"], copy["status"]) == (sent["message_id"], "SEND_OK")
    assert copy["offset_message_id"] != sent["offset_message_id"]
    (found,) = rmqadmin("-o", "json", "queryMsgById", "-t", topic, "-i", copy["offset_message_id"]).items
    assert (found["keys"], found["body"]) == ("KEY-1 KEY-2", "hallo, wörld")


def test_a_dry_run_names_the_queue_that_the_message_is_sent_to(
    rmqadmin: Rmqadmin, topic: str, sent: dict[str, object]
) -> None:
    """Each call used to pick a random queue, so with several brokers the dry run often named the wrong one."""
    args = ("-o", "json", "queryMsgById", "-t", topic, "-i", str(sent["message_id"]), "-s", "true")
    places = [
        (row["broker_name"], row["queue_id"])
        for more in (["--dry-run"], [], ["--dry-run"], ["--dry-run"])
        for row in rmqadmin(*args, *more).items
    ]
    assert places == [(sent["broker_name"], sent["queue_id"])] * 4


def test_only_mqadmins_own_format_leaves_the_body_in_a_file(
    rmqadmin: Rmqadmin, topic: str, sent: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = tmp_path / "bodies"
    monkeypatch.setattr(message_rows, "BODIES_DIR", bodies)
    message_id = str(sent["message_id"])
    rmqadmin("queryMsgById", "-t", topic, "-i", message_id)
    assert not bodies.exists()
    text = rmqadmin("queryMsgById", "-t", topic, "-i", message_id, "-f", "UTF-8", "--output", "mqadmin").out
    assert f"Message Body Path:   {bodies / message_id}\nMessage Body:        hallo, wörld\n" in text
    assert text.endswith("\n\n\nWARN: No Consumer")
    assert (bodies / message_id).read_text() == "hallo, wörld"


def test_a_dry_run_sends_nothing(rmqadmin: Rmqadmin, topic: str) -> None:
    assert rmqadmin("-o", "json", "sendMessage", "-t", topic, "-p", "x", "--dry-run").items[0]["message_id"] is None
    assert rmqadmin("-o", "json", "topicStatus", "-t", topic).document["summary"]["message_count"] == 0


def test_a_message_creates_its_topic_where_the_broker_does(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    name = fresh("AutoTopic")
    assert rmqadmin("sendMessage", "-t", name, "-p", "first").status == 0
    until(lambda: rmqadmin("topicRoute", "-t", name).status == 0)  # the broker registers the topic a moment later
    assert rmqadmin("-o", "json", "topicStatus", "-t", name).document["summary"]["message_count"] == 1


def test_a_trace_goes_along_where_asked_for(rmqadmin: Rmqadmin, topic: str) -> None:
    (sent,) = rmqadmin("-o", "json", "sendMessage", "-t", topic, "-p", "x", "-k", "K", "-m", "true").items
    trace = ("queryMsgByKey", "-t", "RMQ_SYS_TRACE_TOPIC", "-k", sent["message_id"])
    until(lambda: rmqadmin(*trace).status == 0)
    (found,) = rmqadmin("-o", "json", *trace).items
    (record,) = rmqadmin("-o", "json", "queryMsgById", "-t", "RMQ_SYS_TRACE_TOPIC", "-i", found["message_id"]).items
    fields = record["body"].rstrip("\x02").split("\x01")
    assert fields[0] == "Pub"
    assert fields[4:8] == [topic, sent["message_id"], "", "K"]
    assert fields[-1] == "true"


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["sendMessage", "-t", "T", "-p", "x", "-i", "1"], 2, "Broker name must be set if the queue is chosen!"),
        (["sendMessage", "-t", "TBW102", "-p", "x", "-b", "nowhere"], 5, "The broker[nowhere] not exist"),
        (["sendMessage", "-t", "TBW102", "-p", ""], 2, "empty"),
        (["sendMessage", "-t", "SCHEDULE_TOPIC_XXXX", "-p", "x"], 2, "forbidden"),
        (["queryMsgById", "-t", "TBW102", "-i", "nonsense"], 5, "with the id nonsense was found"),
        (["queryMsgById", "-t", "TBW102", "-i", "7F00000100002A9F00000000FFFFFFFF"], 5, "with the id"),
        (["queryMsgById", "-t", "TBW102", "-i", "A" * 32], 5, "with the id"),
        (["queryMsgById", "-t", "NoSuchTopic", "-i", "x"], 5, "17 TOPIC_NOT_EXIST"),
        (
            ["queryMsgByKey", "-t", "TBW102", "-k", "x", "-b", "-1h..now", "-e", "now"],
            2,
            "-b/--since is a range already",
        ),
        (["queryMsgByKey", "-t", "TBW102", "-k", "x", "-p", "Q"], 2, "'Q' is not one of"),
    ],
)
def test_what_cannot_be_sent_or_found(rmqadmin: Rmqadmin, args: list[str], status: int, said: str) -> None:
    rmqadmin(*args, status=status, out="", err=said)


def test_an_id_that_looks_like_an_address_is_not_connected_to(rmqadmin: Rmqadmin, topic: str) -> None:
    """mqadmin connects to any address that the first digits of a unique key spell, and waits until that fails."""
    ran = rmqadmin("queryMsgById", "-t", topic, "-i", "C00002010000FFFF0000000000000001", "--timeout", "5", status=5)
    assert "192.0.2.1" not in ran.err


def test_a_file_that_is_no_log_is_told_from_an_empty_one(run: Rmqadmin, tmp_path: Path) -> None:
    """`dumpCompactionLog` of a picture was an empty table and exit status 0."""
    log = tmp_path / "log"
    dump = ("-o", "json", "dumpCompactionLog", "-f", str(log))
    host = host_bytes("192.0.2.10", 10911)
    record = encode_record(StoredMessage(0, 0, 0, 0, 0, 0, 0, 0, host, 0, host, 0, 0, b"x", "T", b""))
    blank = struct.pack(">ii", 40, MAGIC_BLANK) + bytes(32)
    for rest in (b"", bytes(4096), bytes(3), blank):
        log.write_bytes(record + rest)
        ran = run(*dump)
        assert (ran.status, len(ran.items)) == (0, 1)
        log.write_bytes(rest)
        assert run(*dump).items == []
    log.write_bytes(record + record[:-1])
    ran = run(*dump)
    assert (ran.status, len(json.loads(ran.out)["items"])) == (7, 1)
    assert f"log is damaged: record at byte {len(record)}" in ran.err
    log.write_bytes(b"PNG" + bytes(200))
    run(*dump, status=2, out="", err="log is not a log: record at byte 0: magic")
