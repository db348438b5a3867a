import zlib

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqproto.message import properties as props
from rmqproto.wire.frames import BODY_SIZE_MAX_BYTES
from rmqreplay.plans.plan import TargetRule, Transform
from rmqreplay.sending.delivery import Outgoing, Rejected, batches
from rmqreplay.sending.redrive import Original, Redrive, check_transform, parse_target

DEAD = {
    "RETRY_TOPIC": "orders", "DELAY": "0", "WAIT": "false", "REAL_TOPIC": "%RETRY%g", "REAL_QID": "0",
    "MAX_RECONSUME_TIMES": "16", "RECONSUME_TIME": "17", "UNIQ_KEY": "U1", "KEYS": "k1 k2", "TAGS": "paid",
    "ORIGIN_MESSAGE_ID": "O1", "trace": "abc", "__SHARDINGKEY": "s",
}  # fmt: skip


def original(**changes) -> Original:
    fields = {
        "queue": MessageQueue("%DLQ%g", "broker-a", 0), "queue_offset": 7, "origin_topic": "orders",
        "offset_message_id": "X1", "properties": DEAD, "body": b"body", "flag": 3, "sys_flag": 0x8,
    }  # fmt: skip
    return Original(**{**fields, **changes})


def sent(target: TargetRule, transform: Transform | None = None, **changes) -> Outgoing:
    made = Redrive("job", target, transform or Transform()).outgoing(original(**changes))
    assert isinstance(made, Outgoing), made
    return made


SAME = TargetRule(kind="same", topics=["orders"])


def test_marks_of_the_old_life_go_and_what_is_the_users_stays():
    """A remaining DELAY would delay the message again, and RETRY_TOPIC would hide its topic."""
    made = sent(SAME)
    assert made.topic == "orders"
    assert props.parse(made.properties) == {
        "UNIQ_KEY": "U1", "KEYS": "k1 k2", "TAGS": "paid", "ORIGIN_MESSAGE_ID": "O1", "trace": "abc",
        "__SHARDINGKEY": "s", "REPLAY_ID": "job:broker-a:%DLQ%g:0:7", "REPLAY_ROUND": "1",
    }  # fmt: skip
    assert (made.body, made.flag, made.sys_flag) == (b"body", 3, 0), "transaction bits are cleared"


def test_to_the_group_that_failed_only():
    made = sent(TargetRule(kind="group", name="g", topics=["%RETRY%g"]))
    assert made.topic == "%RETRY%g"
    assert props.parse(made.properties)["RETRY_TOPIC"] == "orders"
    assert len(list(batches([made, made, made], 32))) == 3, "brokers refuse batches to retry topics"


def test_a_compressed_body_travels_as_it_is():
    assert sent(SAME, sys_flag=0x301 | 0x8).sys_flag == 0x301


def test_what_the_user_changes():
    transform = Transform(set_properties={"status": "again"}, unset_properties=["trace"], set_tag="new", new_ids=True)
    found = props.parse(sent(SAME, transform).properties)
    assert found["status"] == "again"
    assert "trace" not in found
    assert found["TAGS"] == "new"
    assert found["UNIQ_KEY"] != "U1"


@pytest.mark.parametrize(
    ("changes", "transform", "why"),
    [
        ({"properties": DEAD | {"REPLAY_ROUND": "3"}}, Transform(redrives_max=3), "redriven 3 times"),
        ({"body": b""}, Transform(), "empty"),
        ({"body": bytes(BODY_SIZE_MAX_BYTES + 1)}, Transform(), "16711681 bytes, more than a request can carry"),
        ({"properties": {"big": "x" * 32_760}}, Transform(), "properties take"),
        ({"origin_topic": "elsewhere"}, Transform(), "not in the plan"),
        ({"origin_topic": "%DLQ%g", "properties": {}}, Transform(), "nothing in it says which topic"),
        ({"origin_topic": "%RETRY%h"}, Transform(), "belongs to a group"),
        ({"origin_topic": "SCHEDULE_TOPIC_XXXX"}, Transform(), "is forbidden"),
        ({"origin_topic": "a b"}, Transform(), "illegal characters"),
        ({"corrupt": "its body is damaged"}, Transform(), "damaged"),
        ({"properties": {}}, Transform(set_properties={"a\x01b": "c"}), "separator"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_rejected_with_a_reason(changes, transform, why):
    made = Redrive("job", SAME, transform).outgoing(original(**changes))
    assert isinstance(made, Rejected)
    assert why in made.remark


def test_the_limit_of_a_message_is_the_brokers():
    """It may be raised (maxMessageSize), and then its dead letters can be as large."""
    sent(SAME, body=bytes(BODY_SIZE_MAX_BYTES))


def test_a_large_body_is_compressed_as_it_was_when_it_came():
    """Archives have plain bodies, of which brokers refuse those over 4 MiB."""
    made = sent(SAME, body=bytes(5 << 20))
    assert (zlib.decompress(made.body), made.sys_flag) == (bytes(5 << 20), 0x301)
    assert sent(SAME, body=bytes(5 << 20), sys_flag=0x101).body == bytes(5 << 20), "as stored"


SPENT = DEAD | {"REPLAY_ROUND": "3"}


def test_what_was_redriven_too_often_is_parked_and_nothing_else_is():
    """A parked message is out of the group's reach, is not delayed, and has not had another round."""
    park = Transform(redrives_max=3, park_topic="parked", delay_level=2)
    for target in (SAME, TargetRule(kind="group", name="g", topics=["%RETRY%g"])):
        topics = TargetRule(kind=target.kind, name=target.name, topics=[*target.topics, "parked"])
        made = sent(topics, park, properties=SPENT)
        properties = props.parse(made.properties)
        assert (made.topic, properties["REPLAY_ROUND"], made.alone) == ("parked", "3", False)
        assert not {"RETRY_TOPIC", "DELAY"} & set(properties)
        assert sent(topics, park).topic == target.topics[0]
    refused = Redrive("job", SAME, park).outgoing(original(properties=SPENT))
    assert isinstance(refused, Rejected), "a dry run found no such message, so nothing was looked at there"


def test_a_delayed_message_shares_no_request():
    made = sent(SAME, Transform(delay_level=3))
    assert props.parse(made.properties)["DELAY"] == "3"
    assert len(list(batches([made, made], 32))) == 2, "brokers refuse batches of delayed messages"
    assert sent(SAME, properties={"_SYS_MSG_PRIORITY_": "2"}).alone, "its queue is not chosen in a batch"


def test_rounds_are_counted():
    assert props.parse(sent(SAME, properties=DEAD | {"REPLAY_ROUND": "2"}).properties)["REPLAY_ROUND"] == "3"


def test_targets():
    assert parse_target("same", None).kind == "same"
    assert parse_target("group", "g").name == "g"
    assert parse_target("file:/tmp/x", None).name == "/tmp/x"
    for text in ("topic", "group", "same:x", "else:where", "topic:%DLQ%g", "topic:SCHEDULE_TOPIC_XXXX", "topic:a b"):
        with pytest.raises(UsageError):
            parse_target(text, None)


def test_what_makes_a_promise_impossible_is_refused():
    for transform in (
        Transform(set_properties={"REPLAY_ID": "x"}),
        Transform(set_properties={"DELAY": "3"}),
        Transform(unset_properties=["REPLAY_ROUND"]),
        Transform(delay_level=3),
    ):
        with pytest.raises(UsageError):
            check_transform(transform)
    check_transform(Transform(delay_level=3), at_least_once=True)
