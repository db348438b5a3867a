"""Heartbeats, members, and which clients hear of changed members."""

from __future__ import annotations

import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import (
    CheckClientRequest,
    ConsumerConnection,
    ConsumerData,
    ConsumerIds,
    Heartbeat,
    ProducerConnection,
    ProducerData,
    ProducerTable,
    SubscriptionData,
)
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.consuming import PULL_SUBSCRIPTION, ConsumerGroupHeader, PullHeader
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, HeaderCodec, encode_frame
from rmqserver.broker.clients.membership import LOCK_LIFE_MS, QueueLocks
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import configured, consume, ok
from tests.support import servers
from tests.support.clock import Clock
from tests.support.golden import exchanges
from tests.support.servers import Server
from tests.support.wire import Wire

server = servers.of_module()


def beat(wire: Wire, group: str, client_id: str, *topics: str, version: int = 1, **fields: object) -> Command:
    """A consumer's heartbeat."""
    subscriptions = [SubscriptionData(topic=topic, sub_version=version) for topic in topics]
    data = ConsumerData(group_name=group, subscription_data_set=subscriptions)
    heartbeat = Heartbeat(client_id=client_id, consumer_data_set=[data], **fields)  # type: ignore[arg-type]
    return ok(wire.ask(R.HEART_BEAT, body=fastjson.dumps(heartbeat)))


def members(wire: Wire, group: str) -> list[str]:
    answer = ok(wire.ask(R.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader(consumer_group=group)))
    return fastjson.loads_untrusted(answer.body, ConsumerIds).consumer_id_list


def told(wire: Wire) -> str:
    """The group of the next NOTIFY_CONSUMER_IDS_CHANGED."""
    notice = wire.receive()
    assert (notice.code, notice.is_oneway) == (R.NOTIFY_CONSUMER_IDS_CHANGED, True)
    return notice.ext["consumerGroup"]


def assert_silent(wire: Wire) -> None:
    """Anything that the broker has to say would come before the answer to this request."""
    wire.send(encode_frame(Command(code=R.GET_MAX_OFFSET, opaque=7, ext={"topic": "TBW102", "queueId": "0"})))
    answer = wire.receive()
    assert (answer.is_answer, answer.opaque) == (True, 7)


@pytest.mark.parametrize(
    "name", [each.name for code in (34, 35) for each in exchanges(code) if each.answer is not None]
)
def test_answered_as_apache_does(wire: Wire, name: str) -> None:
    play(wire, name)


def test_list_as_apache_gives_it(wire: Wire) -> None:
    for number in ("03", "04", "07", "08"):
        play(wire, f"38-GET_CONSUMER_LIST_BY_GROUP/{number}")
    for group, client_id, numbers in (
        ("NormalGroup", "127.0.0.1@NormalGroup", ("01", "05")),
        ("LitePullGroup", "127.0.0.1@LitePull@STREAM", ("02", "06")),
        ("__MONITOR_CONSUMER", "127.0.0.1@MonitorService_823388081", ("09",)),
    ):
        consume(wire, group, client_id=client_id)
        wire.receive()
        for number in numbers:
            play(wire, f"38-GET_CONSUMER_LIST_BY_GROUP/{number}")


def test_retry_topic_comes_with_the_first_heartbeat(wire: Wire) -> None:
    """Without the topic the consumer's first pull of it is refused, and the consumer stalls for seconds."""
    beat(wire, "Fresh", "c1", "T")
    assert b'"writeQueueNums":1' in ok(wire.ask(R.GET_TOPIC_CONFIG, {"topic": "%RETRY%Fresh"})).body


def test_members_are_told_of_everyone_who_comes_and_goes(server: Server, wire: Wire, other: Wire) -> None:
    beat(wire, "Changing", "c1", "T")
    assert told(wire) == "Changing"
    beat(other, "Changing", "c2", "T")
    assert [told(wire), told(other)] == ["Changing", "Changing"]
    assert members(wire, "Changing") == ["c1", "c2"]
    with Wire(server.broker_addr) as third:
        beat(third, "Changing", "c3", "T")
        assert [told(wire), told(other), told(third)] == ["Changing"] * 3
    assert [told(wire), told(other)] == ["Changing", "Changing"]  # the third connection is gone
    ok(other.ask(R.UNREGISTER_CLIENT, {"clientID": "c2", "consumerGroup": "Changing"}))
    assert told(wire) == "Changing"
    assert members(wire, "Changing") == ["c1"]


def test_members_are_not_told_what_they_know(wire: Wire) -> None:
    """Every notice makes every member rebalance."""
    beat(wire, "Quiet", "c1", "T")
    assert told(wire) == "Quiet"
    beat(wire, "Quiet", "c1", "T", version=2)
    beat(wire, "Quiet", "c1", "T", version=1)
    beat(wire, "Quiet", "c1", "T", "U")
    assert told(wire) == "Quiet"  # about the new topic, and nothing before
    assert_silent(wire)


def test_nobody_is_told_where_notices_are_off(wire: Wire, other: Wire) -> None:
    """Notices are off for one group, then for all. Members find out when they next ask."""
    body = b'{"groupName":"Unnoticed","notifyConsumerIdsChangedEnable":false}'
    ok(wire.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    beat(wire, "Unnoticed", "c1", "T")
    with configured(wire, notifyConsumerIdsChangedEnable="false"):
        beat(wire, "AlsoUnnoticed", "c1", "T")
    beat(other, "Unnoticed", "c2", "T")
    ok(other.ask(R.UNREGISTER_CLIENT, {"clientID": "c2", "consumerGroup": "Unnoticed"}))
    assert_silent(wire)
    assert members(wire, "Unnoticed") == members(wire, "AlsoUnnoticed") == ["c1"]
    beat(wire, "AlsoUnnoticed", "c1", "T", "U")
    assert told(wire) == "AlsoUnnoticed"


def test_consumers_that_pull_can_be_kept_out(wire: Wire) -> None:
    with configured(wire, rejectPullConsumerEnable="true"):
        for consume_type in ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", 0):
            data = ConsumerData(group_name=f"Type{consume_type}", consume_type=consume_type)
            ok(wire.ask(R.HEART_BEAT, body=fastjson.dumps(Heartbeat(client_id="c", consumer_data_set=[data]))))
        remark = "the consumer's group info not exist, or the pull consumer is rejected by server.\nSee "
        for group, is_served in (("TypeCONSUME_ACTIVELY", False), ("Gone", False), ("TypeCONSUME_PASSIVELY", True)):
            pull = PullHeader(
                consumer_group=group, topic="TBW102", queue_id=0, queue_offset=0, max_msg_nums=1,
                sys_flag=PULL_SUBSCRIPTION, subscription="*",
            )  # fmt: skip
            answer = wire.ask(R.PULL_MESSAGE, pull)
            assert answer.code == (ResponseCode.PULL_NOT_FOUND if is_served else ResponseCode.SUBSCRIPTION_NOT_EXIST)
            assert is_served or (answer.remark or "").startswith(remark), "as Apache's broker answers"
    assert members(wire, "TypeCONSUME_PASSIVELY") == ["c"]
    for kept_out in ("TypeCONSUME_ACTIVELY", "Type0"):
        header = ConsumerGroupHeader(consumer_group=kept_out)
        assert wire.ask(R.GET_CONSUMER_LIST_BY_GROUP, header).code == ResponseCode.SYSTEM_ERROR


def test_broadcasting_groups_share_nothing_and_are_not_told(wire: Wire) -> None:
    data = ConsumerData(group_name="Broadcast", message_model="BROADCASTING")
    heartbeat = Heartbeat(client_id="c1", consumer_data_set=[data])
    ok(wire.ask(R.HEART_BEAT, body=fastjson.dumps(heartbeat)))
    assert_silent(wire)


def test_enums_of_cpp_clients_are_understood(wire: Wire) -> None:
    body = (
        b'{"clientID":"cpp","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"Cpp",'
        b'"messageModel":1,"subscriptionDataSet":[{"codeSet":["0"],"subString":"*","subVersion":"1","tagsSet":[],'
        b'"topic":"T"}]}],"producerDataSet":[{"groupName":"P"}]}'
    )
    ok(wire.ask(R.HEART_BEAT, body=body, language="CPP"))
    answer = ok(wire.ask(R.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group="Cpp")))
    assert b'"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET"' in answer.body
    assert b'"consumeType":"CONSUME_PASSIVELY"' in answer.body
    assert b'"messageModel":"CLUSTERING"' in answer.body


def test_group_that_may_not_be_is_passed_over(wire: Wire) -> None:
    beat(wire, "bad group!", "c1", "T")
    answer = wire.ask(R.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader(consumer_group="bad group!"))
    assert answer.code == ResponseCode.SYSTEM_ERROR


def test_each_connection_is_a_member_whatever_its_client_id(server: Server, wire: Wire) -> None:
    """Like Apache's broker, which keeps members by channel. A client that reconnects is two members until its old
    connection ends; that end must not remove the new member."""
    with Wire(server.broker_addr) as old:
        beat(old, "Reconnect", "c1", "T")
        assert told(old) == "Reconnect"
        beat(wire, "Reconnect", "c1", "T")
        assert [told(old), told(wire)] == ["Reconnect"] * 2
        assert members(wire, "Reconnect") == ["c1", "c1"]
        answer = ok(wire.ask(R.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group="Reconnect")))
        found = fastjson.loads_untrusted(answer.body, ConsumerConnection).connection_set
        assert [each.client_addr for each in found] == [old.address, wire.address]
    assert told(wire) == "Reconnect"
    assert members(wire, "Reconnect") == ["c1"]
    ok(wire.ask(R.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": "Reconnect"}))
    assert wire.ask(R.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader(consumer_group="Reconnect")).code != 0


def test_another_id_on_a_connection_takes_the_place_of_the_one_before(wire: Wire) -> None:
    """Apache's broker logs an error and does the same. Nobody is told."""
    beat(wire, "Renamed", "c1", "T")
    assert told(wire) == "Renamed"
    beat(wire, "Renamed", "c2", "T")
    assert_silent(wire)
    assert members(wire, "Renamed") == ["c2"]


def test_producers_that_took_one_id_are_both_shown(server: Server, wire: Wire) -> None:
    heartbeat = Heartbeat(client_id="twin", producer_data_set=[ProducerData(group_name="Twins")])
    with Wire(server.broker_addr) as other:
        for each in (wire, other):
            ok(each.ask(R.HEART_BEAT, body=fastjson.dumps(heartbeat)))
        answer = ok(wire.ask(R.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "Twins"}))
        shown = fastjson.loads_untrusted(answer.body, ProducerConnection).connection_set
        assert [each.client_addr for each in shown] == [wire.address, other.address]
        table = fastjson.loads_untrusted(ok(wire.ask(R.GET_ALL_PRODUCER_INFO)).body, ProducerTable).data
        assert [each.remote_ip for each in table["Twins"]] == [f"/{wire.address}", f"/{other.address}"]
        ok(other.ask(R.UNREGISTER_CLIENT, {"clientID": "twin", "producerGroup": "Twins"}))
        table = fastjson.loads_untrusted(ok(wire.ask(R.GET_ALL_PRODUCER_INFO)).body, ProducerTable).data
        assert [each.remote_ip for each in table["Twins"]] == [f"/{wire.address}"]


def test_short_heartbeats_are_taken_once_the_long_one_is_known(wire: Wire) -> None:
    first = beat(wire, "V2", "c1", "T", heartbeat_fingerprint=7)
    assert first.ext == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}
    short = beat(wire, "V2", "c1", heartbeat_fingerprint=7, without_sub=True)
    assert short.ext["IS_SUB_CHANGE"] == "false"
    answer = ok(wire.ask(R.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group="V2")))
    assert b'"topic":"T"' in answer.body  # kept, though the short heartbeat named no topic
    other_version = beat(wire, "V2", "c1", heartbeat_fingerprint=8, without_sub=True)
    assert other_version.ext["IS_SUB_CHANGE"] == "true"


def test_short_heartbeat_of_an_unknown_group_asks_for_the_long_one(wire: Wire) -> None:
    """A broker that has restarted knows no subscriptions, and the client would never send them again by itself."""
    answer = beat(wire, "Forgotten", "c1", heartbeat_fingerprint=7, without_sub=True)
    assert answer.ext["IS_SUB_CHANGE"] == "true"


def test_producers_come_and_go(wire: Wire) -> None:
    heartbeat = Heartbeat(client_id="p1", producer_data_set=[ProducerData(group_name="Producers")])
    ok(wire.ask(R.HEART_BEAT, body=fastjson.dumps(heartbeat)))
    assert ok(wire.ask(R.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "Producers"})).body
    ok(wire.ask(R.UNREGISTER_CLIENT, {"clientID": "p1", "producerGroup": "Producers"}))
    assert wire.ask(R.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "Producers"}).code != ResponseCode.SUCCESS


@pytest.mark.parametrize("codec", HeaderCodec)
def test_subscriptions_are_judged_when_a_consumer_starts(wire: Wire, codec: HeaderCodec) -> None:
    def check(kind: str, expression: str) -> Command:
        wanted = SubscriptionData(topic="T", sub_string=expression, expression_type=kind)
        body = fastjson.dumps(CheckClientRequest(client_id="c", group="G", subscription_data=wanted))
        return wire.ask(R.CHECK_CLIENT_CONFIG, body=body, codec=codec)

    ok(check("TAG", "A || B"))
    with configured(wire, enablePropertyFilter="false"):
        answer = check("SQL92", "a > 5")
    text = "The broker does not support consumer to filter message by SQL92"
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, text)
    ok(check("SQL92", "a > 5"))
    answer = check("SQL92", "a = NULL")
    text = "java.lang.RuntimeException: 'NULL' cannot be compared."
    assert (answer.code, answer.remark) == (ResponseCode.SUBSCRIPTION_PARSE_FAILED, text)
    answer = check("CLASS", "a > 5")
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert answer.remark.startswith('Cannot invoke "org.apache.rocketmq.filter.FilterSpi.compile(String)"')


def test_a_client_may_leave_without_its_id(wire: Wire) -> None:
    """Only the connection counts, as for Apache's broker."""
    beat(wire, "Nameless", "c", "T")
    ok(wire.ask(R.UNREGISTER_CLIENT, {"consumerGroup": "Nameless"}))
    assert wire.ask(R.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "Nameless"}).code != ResponseCode.SUCCESS


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def locks(clock: Clock) -> QueueLocks:
    return QueueLocks(clock)


def queue(queue_id: int) -> MessageQueue:
    return MessageQueue(topic="T", broker_name="broker-a", queue_id=queue_id)


def test_queue_is_held_by_one_client_of_a_group(locks: QueueLocks) -> None:
    assert locks.lock("G", "c1", [queue(0), queue(1)]) == [queue(0), queue(1)]
    assert locks.lock("G", "c2", [queue(1), queue(2)]) == [queue(2)]
    assert locks.lock("G", "c1", [queue(0)]) == [queue(0)]  # renewing is allowed
    assert locks.lock("H", "c2", [queue(0)]) == [queue(0)]  # other groups are independent


def test_lock_that_is_not_renewed_is_free_after_a_minute(locks: QueueLocks, clock: Clock) -> None:
    """A consumer that hangs must not keep its queues for ever, and one that renews its locks must not lose them."""
    locks.lock("G", "hangs", [queue(0)])
    locks.lock("G", "renews", [queue(1)])
    clock.now_ms += LOCK_LIFE_MS
    locks.lock("G", "renews", [queue(1)])
    assert locks.lock("G", "other", [queue(0), queue(1)]) == []
    clock.now_ms += 1
    assert locks.lock("G", "other", [queue(0), queue(1)]) == [queue(0)]


def test_only_the_holder_unlocks(locks: QueueLocks) -> None:
    locks.lock("G", "c1", [queue(0)])
    locks.unlock("G", "c2", [queue(0)])
    assert locks.is_any_held("G")
    locks.unlock("G", "c1", [queue(0), queue(7)])
    assert not locks.is_any_held("G")
    assert locks.lock("G", "c2", [queue(0)]) == [queue(0)]


def test_group_is_in_order_while_any_lock_lives(locks: QueueLocks, clock: Clock) -> None:
    locks.lock("G", "c1", [queue(0)])
    clock.now_ms += LOCK_LIFE_MS
    assert locks.is_any_held("G")
    locks.expire()
    assert locks.is_any_held("G")
    clock.now_ms += 1
    assert not locks.is_any_held("G")
    locks.expire()
    assert not locks._locks  # groups that are gone leave nothing behind
