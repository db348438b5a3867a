"""``msg get`` on a running server: every id and key by which a user may know a message."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendResult
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.message.record import BatchItem, encode_batch
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin, Written
from tests.support.servers import Fresh, Server, topic_config, until


@dataclass
class Sent:
    """A topic of two queues, and ways to send to it."""

    server: Server
    admin: AdminClient
    topic: str

    def send(self, body: bytes, **fields: object) -> SendResult:
        message = Message(self.topic, body, **fields)  # type: ignore[arg-type]
        return self.admin.send_message(self.server.broker_addr, MessageQueue(self.topic, "broker-a", 1), message)


@pytest.fixture
def sent(rmqadmin: Rmqadmin, server: Server, fresh: Fresh):
    topic = fresh("GetTopic")
    assert rmqadmin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "2", "-w", "2").status == 0
    with AdminClient(server.namesrv_addr) as admin:
        until(lambda: topic in admin.topic_list())
        yield Sent(server, admin, topic)


def found(rmqadmin: Rmqadmin, *args: str) -> list[dict[str, Any]]:
    ran = rmqadmin("-o", "json", "msg", "get", *args, status=0)
    return ran.items


def is_found(rmqadmin: Rmqadmin, handle: str | None, topic: str | None = None) -> bool:
    """Whether the recall handle finds a message, in that topic if one is given. A message just sent is not in the index
    yet."""
    ran = rmqadmin("-o", "json", "msg", "get", str(handle))
    return ran.status == 0 and (topic is None or ran.items[0]["topic"] == topic)


@pytest.mark.slow
def test_every_id_and_place_leads_to_the_message(rmqadmin: Rmqadmin, sent: Sent) -> None:
    result = sent.send(b"one", keys=["GET-ONE", "GET-TWO"])
    until(lambda: rmqadmin("msg", "get", "GET-ONE").status == 0)
    (row,) = found(rmqadmin, "GET-ONE")
    log_offset = row["log_offset"]
    for asked, found_as in (
        (result.message_id, "unique key"),
        (result.offset_message_id, "offset id"),
        (result.offset_message_id.lower(), "offset id"),
        ("GET-ONE", "key"),
        ("GET-TWO", "key"),
        (f"{sent.topic}@1:0", "queue offset"),
        (f"{sent.topic}@broker-a:1:0", "queue offset"),
        (f"broker-a@{log_offset}", "commit log offset"),
        (f"{sent.server.broker_addr}@{log_offset}", "commit log offset"),
    ):
        for topic in ([], ["-t", sent.topic]):
            (again,) = found(rmqadmin, asked, *topic)
            assert (again["message_id"], again["asked"], again["found_as"]) == (result.message_id, asked, found_as)


def test_a_recall_handle_leads_to_the_message_while_it_waits_and_after(rmqadmin: Rmqadmin, sent: Sent) -> None:
    waiting = sent.send(b"later", delay_s=600)
    assert waiting.recall_handle is not None
    until(lambda: is_found(rmqadmin, waiting.recall_handle))
    (row,) = found(rmqadmin, waiting.recall_handle)
    assert (row["topic"], row["found_as"]) == ("rmq_sys_wheel_timer", "recall handle")
    assert (row["message_id"], row["properties"]["REAL_TOPIC"]) == (waiting.message_id, sent.topic)
    delivered = sent.send(b"soon", delay_s=1)
    assert delivered.recall_handle is not None
    until(lambda: is_found(rmqadmin, delivered.recall_handle, topic=sent.topic))


def test_all_messages_that_share_a_key_are_shown_oldest_first_and_one_body_alone_is_written(
    rmqadmin: Rmqadmin, sent: Sent
) -> None:
    ids = [sent.send(body, keys=f"SHARED-{sent.topic}").offset_message_id for body in (b"a", b"b", b"c")]
    key = f"SHARED-{sent.topic}"
    until(lambda: len(rmqadmin("-o", "name", "msg", "get", key).out.split()) == 3)
    assert [row["offset_message_id"] for row in found(rmqadmin, key)] == ids
    rmqadmin("msg", "get", key, "--limit", "2", err="a broker answers with 2 messages of a key at most")
    refused = rmqadmin("msg", "get", key, "--body-only")
    assert (refused.status, f"offset ids are {' '.join(ids)}" in refused.err) == (2, True)
    assert rmqadmin("msg", "get", *ids, "--body-only").status == 2
    assert rmqadmin("msg", "get", ids[1], "--body-only").out == "b"


def test_a_body_is_written_to_the_byte(written: Written, sent: Sent) -> None:
    """This includes a body that was compressed on the way."""
    for body in (bytes(range(256)), bytes(range(256)) * 40, b"\r\n"):
        assert written("msg", "get", sent.send(body).offset_message_id, "--body-only") == body


def test_a_person_sees_how_it_was_found_and_the_body_as_its_kind_suggests(rmqadmin: Rmqadmin, sent: Sent) -> None:
    ids = {
        kind: sent.send(body, tags="paid", properties={"region": "eu\x1b[31m"}, flag=7).offset_message_id
        for kind, body in (
            ("JSON", b'{"price": 1.50, "a": [1]}'), ("text", b"line one\nline\x1b[2Jtwo"), ("binary", b"\x00\xffabc"),
        )
    }  # fmt: skip
    shown = {kind: rmqadmin("msg", "get", each).out for kind, each in ids.items()}
    for kind, text in shown.items():
        assert text.startswith(f"{ids[kind]}: found as offset id\n")
        assert f"  body        {kind}, " in text
        assert "  flag        7\n" in text
        assert "region=eu\\x1b[31m\n" in text
    assert '{\n  "price": 1.50,\n  "a": [\n    1\n  ]\n}\n' in shown["JSON"]
    assert "line one\nline\\x1b[2Jtwo\n" in shown["text"]
    assert "00000000  00 ff 61 62 63" in shown["binary"]
    kinds = [row["body_kind"] for row in found(rmqadmin, *ids.values())]
    assert kinds == list(ids)


@pytest.mark.slow
def test_what_a_place_lacks_is_said(rmqadmin: Rmqadmin, sent: Sent) -> None:
    """The hint said how many topics were looked into for keys."""
    for place, said in (
        ("no-such-topic@0:0", "There is no topic no-such-topic."),
        (f"{sent.topic}@broker-z:0:0", "The topic is on: broker-a."),
        (f"{sent.topic}@0:99999", f"`rmqadmin topicStatus -t {sent.topic}`"),
    ):
        assert said in rmqadmin("msg", "get", place, status=5, out="").err


def test_what_is_missing_is_named_and_nothing_at_all_is_not_found(rmqadmin: Rmqadmin, sent: Sent) -> None:
    there = sent.send(b"there").offset_message_id
    ran = rmqadmin("-o", "name", "msg", "get", "no-such-key", there, "A" * 32)
    assert (ran.status, len(ran.out.split())) == (1, 1)
    assert f"nothing was found of: no-such-key, {'A' * 32}" in ran.err
    ran = rmqadmin(
        "msg", "get", f"{sent.topic}@1:99999", "NoSuchTopic@0:0", "broker-a@1", "no-broker@0", "bm90IG9uZQ=="
    )
    assert (ran.status, ran.out) == (5, "")
    assert "topics were looked into for keys" in ran.err
    assert rmqadmin("msg", "get", "key", "-t", "NoSuchTopic").status == 5
    assert "without -t all topics are" in rmqadmin("msg", "get", "key", "-t", sent.topic).err


def test_a_message_with_properties_that_are_not_utf8_hides_no_other(
    run: Rmqadmin, start_standalone: Callable[..., Server]
) -> None:
    """A batch carries its properties as bytes, and brokers store them unchanged. The test has its own store, because in
    the shared one these bytes would count as damage."""
    server, topic = start_standalone(), "OddTopic"
    item = BatchItem(0, b"odd", b"KEYS\x01odd-key\x02name\x01\xff\xfe\x02")
    header = SendHeaderV2(
        producer_group="P", topic=topic, default_topic="", default_topic_queue_nums=0, queue_id=0,
        born_timestamp=1 << 62, batch=True, broker_name="broker-a",
    )  # fmt: skip
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic))
        until(lambda: topic in admin.topic_list())
        admin.call(server.broker_addr, RequestCode.SEND_BATCH_MESSAGE, header, encode_batch([item]))
        admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), Message(topic, b"behind"))
    to = ("-n", server.namesrv_addr)
    (row,) = run("-o", "json", "msg", "get", f"{topic}@0:0", *to).items
    assert (row["body"], row["properties"]["name"]) == ("odd", "\ufffd\ufffd")
    assert row["properties_base64"] is not None
    assert f"@{1 << 62}" in run("msg", "get", f"{topic}@0:0", *to).out
    assert len(run("-o", "csv", "printMsg", "-t", topic, *to).out.splitlines()) == 3


def test_a_refusal_is_not_taken_for_a_message_that_is_not_there(rmqadmin: Rmqadmin, sent: Sent) -> None:
    """The name server still lists a broker that is gone."""
    rmqadmin("msg", "get", "key", "-n", "127.0.0.1:1", status=3)
