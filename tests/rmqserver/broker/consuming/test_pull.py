"""Pulls over the wire: refusals, statuses, filters, and pulls that wait."""

import pytest

from rmqproto.bodies.groups import ConsumerData, Heartbeat
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import PULL_COMMIT_OFFSET, PULL_LITE, PULL_SUBSCRIPTION, PULL_SUSPEND
from rmqproto.headers.tables import TopicConfigHeader
from rmqproto.wire.command import Command, HeaderCodec, encode_frame
from rmqproto.wire.fastjson import dumps
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import (
    commit,
    configured,
    consume,
    create_group,
    create_topic,
    ok,
    subscription,
)
from tests.rmqserver.broker.messaging import bodies, hold_pull, pull, pull_header, send, text
from tests.support import servers
from tests.support.servers import Server
from tests.support.wire import Wire

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
GOLDEN = ("19", "20", "21", "22", "23", "24", "25", "27", "30")


server = servers.of_module()


@pytest.fixture(scope="module", autouse=True)
def golden_topics(server: Server) -> None:
    with Wire(server.broker_addr) as wire:
        create_topic(wire, "PlainTopic")
        create_topic(wire, "EmptyTopic", 3)
        ok(wire.ask(R.UPDATE_AND_CREATE_TOPIC, TopicConfigHeader(
            topic="WriteOnlyTopic", default_topic="TBW102", read_queue_nums=4, write_queue_nums=4, perm=2,
        )))  # fmt: skip
        for _ in range(5):
            ok(send(wire, "PlainTopic"))


def offsets(answer_ext: dict[str, str]) -> tuple[int, int, int]:
    """The next, the lowest and the highest offset."""
    return int(answer_ext["nextBeginOffset"]), int(answer_ext["minOffset"]), int(answer_ext["maxOffset"])


# --- refusals and statuses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", GOLDEN)
def test_answered_as_apache_does(wire: Wire, number: str) -> None:
    loose = ("remark",) if number == "21" else ()  # it names the consumer's port
    play(wire, f"11-PULL_MESSAGE/{number}", *loose)


def test_group_that_may_not_consume(wire: Wire) -> None:
    body = b'{"groupName":"Off","consumeEnable":false}'
    ok(wire.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    answer = pull(wire, "PlainTopic", group="Off")
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "subscription group no permission, Off")
    assert answer.ext == {"forbiddenType": "2"}


def test_group_that_may_not_consume_by_broadcast(wire: Wire, other: Wire) -> None:
    body = b'{"groupName":"Shared","consumeBroadcastEnable":false}'
    ok(wire.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    data = ConsumerData(
        group_name="Shared", message_model="BROADCASTING", subscription_data_set=[subscription("PlainTopic")]
    )
    for model in ("BROADCASTING", "CLUSTERING"):
        data.message_model = model
        ok(other.ask(R.HEART_BEAT, body=dumps(Heartbeat(client_id="c", consumer_data_set=[data]))))
        answer = pull(wire, "PlainTopic", group="Shared", expression=None)
        if model == "BROADCASTING":
            remark = "the consumer group[Shared] can not consume by broadcast way"
            assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, remark)
            assert answer.ext == {"forbiddenType": "4"}
        else:
            assert answer.code == ResponseCode.SUCCESS


def test_broker_that_may_not_be_read(wire: Wire) -> None:
    with configured(wire, brokerPermission="2"):
        answer = pull(wire, "PlainTopic")
    text_ = "the broker[127.0.0.1] pulling message is forbidden"
    assert (answer.code, answer.remark, answer.ext) == (ResponseCode.NO_PERMISSION, text_, {"forbiddenType": "1"})


def test_lite_pulls_can_be_forbidden(wire: Wire) -> None:
    lite = PULL_SUBSCRIPTION | PULL_LITE
    assert ok(wire.ask(R.LITE_PULL_MESSAGE, pull_header("PlainTopic", sys_flag=lite))).remark == "FOUND"
    with configured(wire, litePullMessageEnable="false"):
        answer = wire.ask(R.LITE_PULL_MESSAGE, pull_header("PlainTopic", sys_flag=lite))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "the broker[127.0.0.1] for lite pull consumer is forbidden"


def test_unknown_group_is_refused_where_groups_are_not_made(wire: Wire) -> None:
    with configured(wire, autoCreateSubscriptionGroup="false"):
        answer = pull(wire, "PlainTopic", group="Stranger")
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert answer.remark == f"subscription group [Stranger] does not exist, {FAQ}"


def test_sql_is_refused_and_not_passed_over(wire: Wire) -> None:
    with configured(wire, enablePropertyFilter="false"):
        answer = pull(wire, "PlainTopic", expression="a > 5", expression_type="SQL92")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "The broker does not support consumer to filter message by SQL92"


def test_subscription_of_the_heartbeat_counts_where_none_comes_with_the_pull(wire: Wire) -> None:
    create_topic(wire, "Subscribed")
    ok(send(wire, "Subscribed", properties=text(TAGS="TagA"), body=b"a"))
    ok(send(wire, "Subscribed", properties=text(TAGS="TagB"), body=b"b"))
    consume(wire, "Subscribers", subscription("Subscribed", ["TagB"]))
    asked = {"group": "Subscribers", "expression": None}
    assert bodies(pull(wire, "Subscribed", **asked)) == [b"b"]
    answer = pull(wire, "PlainTopic", **asked)
    text_ = f"the consumer's subscription not exist{FAQ}"
    assert (answer.code, answer.remark) == (ResponseCode.SUBSCRIPTION_NOT_EXIST, text_)
    newer = 1 << 60
    answer = pull(wire, "Subscribed", **asked, sub_version=newer)
    text_ = "the consumer's subscription not latest"
    assert (answer.code, answer.remark) == (ResponseCode.SUBSCRIPTION_NOT_LATEST, text_)
    ok(wire.ask(R.UPDATE_AND_GET_GROUP_FORBIDDEN, {"group": "Subscribers", "topic": "Subscribed", "readable": "false"}))
    answer = pull(wire, "Subscribed", **asked)
    text_ = "the consumer group[Subscribers] is forbidden for topic[Subscribed]"
    assert (answer.code, answer.remark, answer.ext) == (ResponseCode.NO_PERMISSION, text_, {"forbiddenType": "5"})


def test_a_newer_subscription_counts_from_its_heartbeat_on(wire: Wire) -> None:
    """Earlier pulls are refused, and Java's client asks again every 20 ms. It may do so for 29 s, with our broker and
    with Apache's: its rebalance, a second after the start, raises the version, and skips the heartbeat that should tell
    the broker if the timer's own heartbeat is under way."""
    for version in (7, 8):
        wanted = subscription("PlainTopic")
        wanted.sub_version = version
        early = pull(wire, "PlainTopic", group="Raised", expression=None, sub_version=version)
        expected = ResponseCode.SUBSCRIPTION_NOT_EXIST if version == 7 else ResponseCode.SUBSCRIPTION_NOT_LATEST
        assert early.code == expected
        data = ConsumerData(group_name="Raised", subscription_data_set=[wanted])
        beat = dumps(Heartbeat(client_id="c", consumer_data_set=[data]))
        header = pull_header("PlainTopic", group="Raised", expression=None, sub_version=version)
        both = (
            Command(code=R.HEART_BEAT, opaque=1, body=beat),
            Command(code=R.PULL_MESSAGE, opaque=2, ext=to_ext(header)),
        )
        wire.send(b"".join(map(encode_frame, both)))
        answers = {}
        while len(answers) < 2:
            answer = wire.receive()
            if answer.is_answer:  # the broker also tells members of each other
                answers[answer.opaque] = answer.code
        assert answers == {1: ResponseCode.SUCCESS, 2: ResponseCode.SUCCESS}


@pytest.mark.parametrize("codec", HeaderCodec)
def test_found_messages_come_as_stored_with_all_offsets(wire: Wire, codec: HeaderCodec) -> None:
    answer = ok(wire.ask(R.PULL_MESSAGE, pull_header("PlainTopic", queue_offset=1, max_msg_nums=3), codec=codec))
    assert len(bodies(answer)) == 3
    assert answer.remark == "FOUND"
    assert answer.ext == {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "4", "minOffset": "0", "maxOffset": "5", "topicSysFlag": "0",
        "groupSysFlag": "0",
    }  # fmt: skip


def test_tags_are_filtered_by_the_broker(wire: Wire) -> None:
    for tag in ("A", "B", "C", "A"):
        ok(send(wire, "Tags", properties=text(TAGS=tag), body=tag.encode()))
    assert bodies(pull(wire, "Tags", expression="A || C")) == [b"A", b"C", b"A"]
    answer = pull(wire, "Tags", expression="D")
    assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert offsets(answer.ext) == (4, 0, 4)


# --- the commit that comes with a pull -------------------------------------------------------------------------------


def committed(wire: Wire, topic: str, group: str = "CG") -> str | None:
    header = {"consumerGroup": group, "topic": topic, "queueId": "0", "setZeroIfNotFound": "false"}
    return wire.ask(R.QUERY_CONSUMER_OFFSET, header).ext.get("offset")


def test_offset_is_committed_once_when_the_pull_comes(wire: Wire, other: Wire) -> None:
    """A held pull that is run again when a message arrives must not undo a commit made in between."""
    ok(send(wire, "Commits"))
    flag = PULL_SUBSCRIPTION | PULL_SUSPEND | PULL_COMMIT_OFFSET
    hold_pull(other, "Commits", queue_offset=1, sys_flag=flag, commit_offset=1)
    commit(wire, "CG", "Commits", [0])
    ok(send(wire, "Commits", body=b"wakes it"))
    assert bodies(other.receive()) == [b"wakes it"]
    assert committed(wire, "Commits") == "0"


def test_reset_is_told_once_and_not_overwritten(wire: Wire) -> None:
    create_group(wire, "ResetGroup")
    for _ in range(3):
        ok(send(wire, "Resets"))
    commit(wire, "ResetGroup", "Resets", [3])
    reset = {"topic": "Resets", "group": "ResetGroup", "timestamp": "0", "offset": "1", "queueId": "0"}
    ok(wire.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, reset))
    flag = PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET
    asked = {"group": "ResetGroup", "sys_flag": flag, "commit_offset": 3}
    answer = pull(wire, "Resets", 0, 3, **asked)
    assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert offsets(answer.ext) == (1, 0, 3)
    assert committed(wire, "Resets", "ResetGroup") == "1"
    assert len(bodies(pull(wire, "Resets", 0, 1, group="ResetGroup"))) == 2


# --- pulls that wait -------------------------------------------------------------------------------------------------


def test_waiting_pulls_are_answered_by_the_message(wire: Wire, other: Wire) -> None:
    ok(send(wire, "Waits"))
    hold_pull(other, "Waits", 0, 1)
    hold_pull(other, "Waits", 1, 0)
    ok(send(wire, "Waits", 1, body=b"one"))
    assert bodies(other.receive()) == [b"one"]
    ok(send(wire, "Waits", 0, body=b"two"))
    answer = other.receive()
    assert bodies(answer) == [b"two"]
    assert offsets(answer.ext) == (2, 0, 2)


def test_waiting_pull_passes_over_messages_it_does_not_want(wire: Wire, other: Wire) -> None:
    ok(send(wire, "Picky"))
    hold_pull(other, "Picky", 0, 1, expression="Wanted")
    ok(send(wire, "Picky", properties=text(TAGS="Other")))
    ok(send(wire, "Picky", properties=text(TAGS="Wanted"), body=b"wanted"))
    answer = other.receive()
    assert bodies(answer) == [b"wanted"]
    assert offsets(answer.ext) == (3, 0, 3)


def test_pull_whose_time_is_up_is_told_that_there_is_nothing(wire: Wire) -> None:
    ok(send(wire, "TimeUp"))
    answer = pull(wire, "TimeUp", 0, 1, hold_ms=1)
    assert (answer.code, answer.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")
    assert offsets(answer.ext) == (1, 0, 1)


def test_waiting_pull_of_a_closed_connection_harms_nobody(server: Server, wire: Wire) -> None:
    ok(send(wire, "Gone"))
    with Wire(server.broker_addr) as gone:
        hold_pull(gone, "Gone", 0, 1)
        with Wire(server.broker_addr) as other:
            hold_pull(other, "Gone", 0, 1)
            gone.close()
            ok(send(wire, "Gone", body=b"for the other"))
            assert bodies(other.receive()) == [b"for the other"]


def test_group_that_is_forbidden_while_it_waits_is_told_so(wire: Wire, other: Wire) -> None:
    ok(send(wire, "Late"))
    create_group(wire, "LateGroup")
    hold_pull(other, "Late", 0, 1, group="LateGroup")
    body = b'{"groupName":"LateGroup","consumeEnable":false}'
    ok(wire.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    ok(send(wire, "Late"))
    assert other.receive().code == ResponseCode.NO_PERMISSION
