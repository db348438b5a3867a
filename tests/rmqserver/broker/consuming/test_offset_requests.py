"""Committed offsets over the wire: queries and commits."""

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.consuming import (
    PULL_COMMIT_OFFSET,
    PULL_SUBSCRIPTION,
    QueryConsumerOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from rmqproto.wire.command import Command, HeaderCodec, decode_frame_untrusted
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import commit, create_group, create_topic, fill, ok
from tests.support import servers
from tests.support.golden import exchange
from tests.support.servers import Server
from tests.support.wire import Wire

server = servers.of_module()


@pytest.fixture(scope="module", autouse=True)
def state(server: Server) -> None:
    with Wire(server.broker_addr) as wire:
        for topic in ("NormalTopic", "PlainTopic", "TransTopic", "OrderTopic"):
            create_topic(wire, topic)
        for group in ("NormalGroup", "WireGroup", "WideGroup"):
            create_group(wire, group)
        fill(wire, "NormalTopic", (4,))
        fill(wire, "OrderTopic", (1, 1))


def query(wire: Wire, group: str, topic: str, queue_id: int = 0) -> Command:
    header = QueryConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=queue_id)
    return wire.ask(R.QUERY_CONSUMER_OFFSET, header)


def test_asked_as_apache_answers(wire: Wire) -> None:
    for number in ("01", "02", "03", "05", "06", "07", "11"):
        play(wire, f"14-QUERY_CONSUMER_OFFSET/{number}")
    commit(wire, "NormalGroup", "NormalTopic", [4])
    for number in ("04", "08", "09", "10"):
        play(wire, f"14-QUERY_CONSUMER_OFFSET/{number}")


def test_stored_as_apache_stores(wire: Wire) -> None:
    for number in ("03", "04", "05", "08", "09", "10"):
        play(wire, f"15-UPDATE_CONSUMER_OFFSET/{number}")


@pytest.mark.parametrize("number", ["01", "02", "06", "07"])
def test_oneway_commits_of_real_clients_are_stored(wire: Wire, number: str) -> None:
    request = exchange(f"15-UPDATE_CONSUMER_OFFSET/{number}").request
    golden = decode_frame_untrusted(request)
    group, topic = golden.ext["consumerGroup"], golden.ext["topic"]
    create_group(wire, group)
    create_topic(wire, topic)
    wire.send(request)
    queue_id = int(golden.ext["queueId"])
    assert ok(query(wire, group, topic, queue_id)).ext == {"offset": golden.ext["commitOffset"]}


def test_a_reset_that_waits_passes_over_commits(wire: Wire) -> None:
    create_group(wire, "ClonedAdminGroup")
    play(wire, "15-UPDATE_CONSUMER_OFFSET/11")
    reset = {"topic": "NormalTopic", "group": "ClonedAdminGroup", "timestamp": "0", "isForce": "true", "queueId": "0"}
    ok(wire.ask(R.INVOKE_BROKER_TO_RESET_OFFSET, reset | {"offset": "2"}))
    play(wire, "15-UPDATE_CONSUMER_OFFSET/12")


def test_commits_go_backwards_and_to_queues_that_are_not_there(wire: Wire) -> None:
    """Tools rely on both; a broker that refused them would break resets."""
    commit(wire, "WireGroup", "NormalTopic", [4])
    commit(wire, "WireGroup", "NormalTopic", [1])
    assert ok(query(wire, "WireGroup", "NormalTopic")).ext == {"offset": "1"}
    header = UpdateConsumerOffsetHeader(consumer_group="WireGroup", topic="NormalTopic", queue_id=77, commit_offset=-1)
    ok(wire.ask(R.UPDATE_CONSUMER_OFFSET, header))
    assert query(wire, "WireGroup", "NormalTopic", 77).code == ResponseCode.QUERY_NOT_FOUND


def test_unknown_group_is_named_before_an_unknown_topic_and_never_made(wire: Wire) -> None:
    header = UpdateConsumerOffsetHeader(consumer_group="Nobody", topic="Nowhere", queue_id=0, commit_offset=1)
    for _ in range(2):
        answer = wire.ask(R.UPDATE_CONSUMER_OFFSET, header)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert answer.remark == "Group Nobody not exist!"


def test_a_commit_without_group_or_topic_is_refused(wire: Wire) -> None:
    """The remark used to hold Python's None."""
    answer = wire.ask(R.UPDATE_CONSUMER_OFFSET, {"topic": "NormalTopic", "queueId": "0", "commitOffset": "0"})
    assert (answer.code, answer.remark) == (26, "Group null not exist!")  # as Apache's broker answers
    answer = wire.ask(R.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "NormalGroup", "queueId": "0", "commitOffset": "0"})
    assert (answer.code, answer.remark) == (17, "Topic null not exist!")


def test_an_empty_group_or_topic_is_told_as_it_is(wire: Wire) -> None:
    """Only a missing one is null: mqadmin resetOffsetByTime with an empty -g or -t showed it."""
    fields = {"consumerGroup": "", "topic": "NormalTopic", "queueId": "0", "commitOffset": "0"}
    answer = wire.ask(R.UPDATE_CONSUMER_OFFSET, fields)
    assert (answer.code, answer.remark) == (26, "Group  not exist!")
    answer = wire.ask(R.UPDATE_CONSUMER_OFFSET, fields | {"consumerGroup": "NormalGroup", "topic": ""})
    assert (answer.code, answer.remark) == (17, "Topic  not exist!")


@pytest.mark.parametrize(("missing", "remark"), [("queueId", "QueueId"), ("commitOffset", "Offset")])
def test_missing_number_is_named(wire: Wire, missing: str, remark: str) -> None:
    fields = {"consumerGroup": "WireGroup", "topic": "PlainTopic", "queueId": "0", "commitOffset": "1"}
    del fields[missing]
    answer = wire.ask(R.UPDATE_CONSUMER_OFFSET, fields)
    assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, f"{remark} is null, topic is PlainTopic")


def test_oneway_commit_is_stored_and_not_answered(wire: Wire) -> None:
    header = UpdateConsumerOffsetHeader(consumer_group="WireGroup", topic="OrderTopic", queue_id=0, commit_offset=1)
    wire.tell(R.UPDATE_CONSUMER_OFFSET, header)
    assert ok(query(wire, "WireGroup", "OrderTopic")).ext == {"offset": "1"}


@pytest.mark.parametrize("codec", HeaderCodec)
@pytest.mark.parametrize("code", [R.UPDATE_CONSUMER_OFFSET, R.PULL_MESSAGE])
@pytest.mark.parametrize(
    ("field", "number"), [("commitOffset", 1 << 63), ("commitOffset", -(1 << 63) - 1), ("queueId", 1 << 31)]
)
def test_number_that_java_cannot_hold_is_refused_in_words_and_not_stored(
    wire: Wire, code: int, field: str, number: int, codec: HeaderCodec
) -> None:
    """Such a number in consumerOffset.json would make the file unreadable for Apache's broker."""
    fields = {
        "consumerGroup": "WideGroup", "topic": "PlainTopic", "queueId": "0", "commitOffset": "5",
        "queueOffset": "0", "maxMsgNums": "1", "sysFlag": str(PULL_COMMIT_OFFSET | PULL_SUBSCRIPTION),
        "subscription": "*",
    }  # fmt: skip
    answer = wire.ask(code, fields | {field: str(number)}, codec=codec)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"header: {field}={number} is out of range"
    stored = QueryConsumerOffsetHeader(
        consumer_group="WideGroup", topic="PlainTopic", queue_id=0, set_zero_if_not_found=False
    )
    assert wire.ask(R.QUERY_CONSUMER_OFFSET, stored).code == ResponseCode.QUERY_NOT_FOUND
