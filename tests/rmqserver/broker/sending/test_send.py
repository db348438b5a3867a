"""Sends over the wire: which are refused and in which words, and what is stored of the others."""

import re
from collections.abc import Iterator

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.sending import SendHeader
from rmqproto.headers.tables import TopicConfigHeader
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.record import BatchItem, encode_batch
from rmqproto.wire.command import HeaderCodec
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import configured, create_group, create_topic, ok
from tests.rmqserver.broker.messaging import send, send_header, stored, text
from tests.support import servers
from tests.support.servers import Server
from tests.support.wire import Wire

LIMIT = 8192
COMPACTED = """{"topicConfigTable":{"CompactTopic":{"attributes":{"cleanup.policy":"COMPACTION"},"perm":6,
"readQueueNums":1,"topicName":"CompactTopic","writeQueueNums":1}}}"""
GOLDEN_REFUSED = [f"{number:02d}" for number in (*range(3, 10), *range(18, 25))]
"""Exchanges of 10 that end in a refusal, whatever the broker holds."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    args = servers.sets("maxMessageSize=8192", "messageDelayLevel=1h 2h 3h")
    directory = tmp_path_factory.mktemp("send")
    config = directory / "store/config"
    config.mkdir(parents=True)
    (config / "topics.json").write_text(COMPACTED)
    with servers.standalone(directory, *args) as running:
        yield running


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", GOLDEN_REFUSED)
def test_refused_as_apache_does(wire: Wire, number: str) -> None:
    create_topic(wire, "PlainTopic")
    play(wire, f"10-SEND_MESSAGE/{number}")


def test_queue_that_is_not_there_is_named_with_topic_and_producer(wire: Wire) -> None:
    send(wire, "Queues")
    answer = send(wire, "Queues", 99)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark == (
        "request queueId[99] is illegal, TopicConfig [topicName=Queues, readQueueNums=4, writeQueueNums=4, perm=RW-, "
        f"topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={{}}] Producer: {wire.address}"
    )
    assert answer.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def test_half_message_is_stored_where_no_consumer_sees_it(wire: Wire) -> None:
    answer = send(wire, "Half", 2, properties=text(TRAN_MSG="true", PGROUP="G", UNIQ_KEY="AB12"), sys_flag=4)
    assert (answer.code, answer.ext["transactionId"], answer.ext["queueId"]) == (0, "AB12", "2")
    assert wire.ask(R.GET_MAX_OFFSET, {"topic": "Half", "queueId": "2"}).ext["offset"] == "0"
    half = stored(wire, "RMQ_SYS_TRANS_HALF_TOPIC", 0, int(answer.ext["queueOffset"]))[0]
    assert (half.message_id, half.properties["REAL_QID"]) == (answer.ext["msgId"], "2")


def test_half_message_is_refused_where_the_broker_wants_none(wire: Wire) -> None:
    with configured(wire, rejectTransactionMessage="true"):
        answer = send(wire, "Half", properties=text(TRAN_MSG="true", PGROUP="G"), sys_flag=4)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "the broker[127.0.0.1] sending transaction message is forbidden"


def test_a_broker_that_takes_no_messages_yet_says_until_when(wire: Wire) -> None:
    """With its milliseconds, as Apache's broker does."""
    with configured(wire, startAcceptSendRequestTimeStamp="253402214399123"):
        answer = send(wire, "T")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert re.fullmatch(r"broker unable to service, until 9999-12-\d\d \d\d:\d\d:\d\d,123", answer.remark or "")


def test_timer_is_refused_where_the_wheel_is_off(wire: Wire) -> None:
    with configured(wire, timerWheelEnable="false"):
        answer = send(wire, "Timer", properties=text(TIMER_DELAY_SEC="10"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "accurate timer message is not enabled, timerWheelEnable is false"


def test_compacted_topic_wants_keys(wire: Wire) -> None:
    """Our broker makes no such topic, but an Apache broker may have left one in the directory."""
    for number in ("22", "48"):
        play(wire, f"310-SEND_MESSAGE_V2/{number}")
    answer = send(wire, "CompactTopic")
    assert (answer.code, answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing")
    assert send(wire, "CompactTopic", properties=text(KEYS="k")).code == ResponseCode.SUCCESS


def test_retry_topic_of_an_unknown_group_is_refused_where_groups_are_not_made(server: Server, wire: Wire) -> None:
    with configured(wire, autoCreateSubscriptionGroup="false"):
        answer = send(wire, "%RETRY%NoSuchGroup")
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert (answer.remark or "").startswith("subscription group not exist, NoSuchGroup ")


def test_a_zero_byte_in_properties_is_refused(wire: Wire) -> None:
    """No checksum covers properties: after a crash, zeros in them are the sign of a torn record."""
    create_topic(wire, "Zeros", 1)
    properties = text(KEYS="a\0b")
    items = encode_batch([BatchItem(0, b"ok", b""), BatchItem(0, b"zero", properties.encode())])
    for code, header, body in (
        (R.SEND_MESSAGE, SendHeader(topic="Zeros", queue_id=0, born_timestamp=1, properties=properties), b"x"),
        (R.SEND_MESSAGE_V2, send_header("Zeros", properties=properties), b"x"),
        (R.SEND_BATCH_MESSAGE, send_header("Zeros", batch=True), items),
    ):
        assert wire.ask(code, header, body).code == ResponseCode.MESSAGE_ILLEGAL
    assert ok(send(wire, "Zeros")).ext["queueOffset"] == "0", "nothing was stored"


def test_message_that_is_too_large_leaves_no_gap(wire: Wire) -> None:
    assert send(wire, "Large", body=b"x" * LIMIT).ext["queueOffset"] == "0"
    assert send(wire, "Large", body=b"x" * (LIMIT + 1)).code == ResponseCode.MESSAGE_ILLEGAL
    assert send(wire, "Large", properties=text(k="v" * 32_767)).code == ResponseCode.MESSAGE_ILLEGAL
    assert send(wire, "Large").ext["queueOffset"] == "1"


# --- what is stored --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", HeaderCodec)
def test_answer_says_where_the_message_is(server: Server, wire: Wire, codec: HeaderCodec) -> None:
    topic = f"Where{codec.name}"
    answer = ok(wire.ask(R.SEND_MESSAGE_V2, send_header(topic, 2, properties=text(UNIQ_KEY="AB12")), b"b", codec=codec))
    where = parse_offset_id_untrusted(answer.ext.pop("msgId"))
    assert f"{where.host}:{where.port}" == server.broker_addr
    assert answer.ext == {
        "queueId": "2", "queueOffset": "0", "transactionId": "AB12", "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }  # fmt: skip
    assert [message.log_offset for message in stored(wire, topic, 2)] == [where.log_offset]


def test_every_field_is_stored(server: Server, wire: Wire) -> None:
    properties = text(TAGS="A", KEYS="k")
    name = SendHeader(
        topic="Fields", queue_id=1, born_timestamp=5, flag=7, sys_flag=1, reconsume_times=3, default_topic="TBW102",
        default_topic_queue_nums=2, properties=properties,
    )  # fmt: skip
    ok(wire.ask(R.SEND_MESSAGE, name, "消息".encode()))
    (message,) = stored(wire, "Fields", 1)
    assert (message.topic, message.queue_id, message.body) == ("Fields", 1, "消息".encode())
    assert (message.flag, message.sys_flag, message.born_timestamp_ms, message.reconsume_times) == (7, 1, 5, 3)
    assert message.is_intact
    kept = message.properties
    unique_key = kept.pop("UNIQ_KEY")
    assert len(unique_key) == 32
    assert kept == {
        "TAGS": "A", "KEYS": "k", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster",
    }  # fmt: skip


def test_message_sent_once_more_does_not_grow(wire: Wire) -> None:
    """A received message that a consumer sends on already has the broker's properties."""
    ok(send(wire, "Again", properties=text(TAGS="A", POP_CK="1 2 3")))
    first = stored(wire, "Again")[0]
    ok(send(wire, "Again", properties=first.properties_raw.decode()))
    second = stored(wire, "Again", queue_offset=1)[0]
    assert second.properties == first.properties
    assert len(second.properties_raw) == len(first.properties_raw)
    assert "POP_CK" not in second.properties


@pytest.mark.parametrize("sent", ["TAGS\x01A", "UNIQ_KEY\x01\x02TAGS\x01A\x02", "aUNIQ_KEY\x01x\x02TAGS\x01A\x02"])
def test_odd_properties_still_get_a_unique_key(wire: Wire, sent: str) -> None:
    """Old clients leave out the last separator. Others send an empty key, or a property whose name only ends in
    UNIQ_KEY."""
    answer = ok(send(wire, "Odd", properties=sent))
    message = stored(wire, "Odd", queue_offset=int(answer.ext["queueOffset"]))[0]
    assert message.properties["TAGS"] == "A"
    assert message.properties["UNIQ_KEY"] == answer.ext["transactionId"]
    assert len(answer.ext["transactionId"]) == 32


def test_unique_key_that_is_no_word_comes_back_whole(wire: Wire) -> None:
    """The fast answer is a template, in which a quote in the key would make two fields of one."""
    key = 'a","queueId":"77'
    answer = ok(send(wire, "Quote", properties=text(UNIQ_KEY=key)))
    assert (answer.ext["transactionId"], answer.ext["queueId"]) == (key, "0")


def test_negative_queue_means_any(wire: Wire) -> None:
    queues = {ok(send(wire, "Any", -1)).ext["queueId"] for _ in range(64)}
    assert queues <= {"0", "1", "2", "3"}
    assert len(queues) > 1


def test_oneway_is_stored_and_not_answered(wire: Wire) -> None:
    ok(send(wire, "Oneway"))
    wire.tell(R.SEND_MESSAGE_V2, send_header("Oneway"), b"oneway")
    wire.tell(R.SEND_MESSAGE_V2, send_header("Bad.Name"), b"oneway")
    assert ok(send(wire, "Oneway")).ext["queueOffset"] == "2"


def test_delayed_message_waits_in_the_schedule_topic(wire: Wire) -> None:
    answer = ok(send(wire, "Delayed", 3, properties=text(DELAY="9", TAGS="A")))
    assert answer.ext["queueId"] == "3"
    (message,) = stored(wire, "SCHEDULE_TOPIC_XXXX", 2)  # the last of three levels
    kept = message.properties
    assert (kept["DELAY"], kept["REAL_TOPIC"], kept["REAL_QID"], kept["TAGS"]) == ("3", "Delayed", "3", "A")


def test_priority_chooses_the_queue(wire: Wire) -> None:
    ok(send(wire, "Priority"))
    assert ok(send(wire, "Priority", properties=text(_SYS_MSG_PRIORITY_="9"))).ext["queueId"] == "3"
    both = ok(send(wire, "Priority", properties=text(_SYS_MSG_PRIORITY_="9", __SHARDINGKEY="k")))
    assert both.ext["queueId"] == "0"


@pytest.mark.parametrize("priority", ["high", "99999999999"])
def test_priority_that_is_no_number_is_none(wire: Wire, priority: str) -> None:
    assert ok(send(wire, "NoPriority", properties=text(_SYS_MSG_PRIORITY_=priority))).ext["queueId"] == "0"
    assert stored(wire, "NoPriority")[-1].properties["_SYS_MSG_PRIORITY_"] == priority


def test_topic_without_queues_takes_no_message(wire: Wire) -> None:
    """No consumer could read it: Apache's broker fails here, too."""
    create_topic(wire, "NoQueues", queues=0)
    assert send(wire, "NoQueues", -1).code == ResponseCode.SYSTEM_ERROR
    assert send(wire, "NoQueues", 0).code == ResponseCode.INVALID_PARAMETER


# --- automatic topics ------------------------------------------------------------------------------------------------


def test_first_send_makes_the_topic_after_the_template(wire: Wire) -> None:
    ok(send(wire, "Auto", default_topic_queue_nums=16))
    body = wire.ask(R.GET_TOPIC_CONFIG, {"topic": "Auto"}).body
    assert b'"perm":6' in body
    assert b'"writeQueueNums":8' in body  # as many as the template has


def test_topic_without_a_template_that_passes_on_is_unknown(wire: Wire) -> None:
    create_topic(wire, "NoTemplate")
    answer = send(wire, "AutoB", default_topic="NoTemplate")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_topic_that_was_changed_is_looked_at_anew(wire: Wire) -> None:
    """The hot path must forget a topic that has changed."""
    ok(send(wire, "Shrunk", 3))
    shrunk = TopicConfigHeader(topic="Shrunk", read_queue_nums=1, write_queue_nums=1, perm=6)
    ok(wire.ask(R.UPDATE_AND_CREATE_TOPIC, shrunk))
    assert send(wire, "Shrunk", 3).code == ResponseCode.INVALID_PARAMETER
    ok(wire.ask(R.DELETE_TOPIC_IN_BROKER, {"topic": "Shrunk"}))
    assert send(wire, "Shrunk", default_topic="").code == ResponseCode.TOPIC_NOT_EXIST


# --- retry topics ----------------------------------------------------------------------------------------------------


def test_retry_that_failed_too_often_goes_to_the_dead_letters(wire: Wire) -> None:
    create_group(wire, "Retries")
    ok(send(wire, "%RETRY%Retries", reconsume_times=2, max_reconsume_times=2, properties=text(DELAY="1")))
    ok(send(wire, "%RETRY%Retries", reconsume_times=3, max_reconsume_times=2, properties=text(DELAY="1", TAGS="D")))
    (dead,) = stored(wire, "%DLQ%Retries")
    assert dead.properties["DELAY"] == "-1"
    assert dead.reconsume_times == 3


def test_retry_of_a_group_in_order_goes_to_the_dead_letters_at_once(wire: Wire) -> None:
    create_group(wire, "InOrder")
    lock = b'{"clientId":"c","consumerGroup":"InOrder","mqSet":[{"brokerName":"b","queueId":0,"topic":"T"}]}'
    ok(wire.ask(R.LOCK_BATCH_MQ, body=lock))
    ok(send(wire, "%RETRY%InOrder", reconsume_times=1, max_reconsume_times=5, properties=text(DELAY="4")))
    assert len(stored(wire, "%DLQ%InOrder")) == 1
    ok(wire.ask(R.UNLOCK_BATCH_MQ, body=lock))


# --- batches ---------------------------------------------------------------------------------------------------------


def batch(*bodies: bytes) -> bytes:
    return encode_batch([BatchItem(n, body, text(TAGS=f"T{n}").encode()) for n, body in enumerate(bodies)])


def test_batch_is_stored_as_messages_of_their_own(wire: Wire) -> None:
    ok(send(wire, "Batch", 1))
    answer = ok(wire.ask(R.SEND_BATCH_MESSAGE, send_header("Batch", 1, batch=True), batch(b"a", b"bb", b"")))
    assert answer.ext["queueOffset"] == "1"
    assert "transactionId" not in answer.ext
    messages = stored(wire, "Batch", 1, 1)
    assert [(m.body, m.flag, m.queue_offset, m.properties) for m in messages] == [
        (b"a", 0, 1, {"TAGS": "T0"}),
        (b"bb", 1, 2, {"TAGS": "T1"}),
        (b"", 2, 3, {"TAGS": "T2"}),
    ]
    assert answer.ext["msgId"].split(",") == [m.message_id for m in messages]


def test_flag_decides_on_the_batch_path_not_the_code(wire: Wire) -> None:
    answer = ok(wire.ask(R.SEND_MESSAGE_V2, send_header("BatchByFlag", batch=True), batch(b"a", b"b")))
    assert answer.ext["msgId"].count(",") == 1


def test_what_is_no_batch_is_refused(wire: Wire) -> None:
    answer = wire.ask(R.SEND_BATCH_MESSAGE, send_header("Batch", batch=True), b"not a batch")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    answer = wire.ask(R.SEND_BATCH_MESSAGE, send_header("%RETRY%CG", batch=True), batch(b"a"))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark == "batch request does not support retry group %RETRY%CG"
    answer = wire.ask(R.SEND_BATCH_MESSAGE, send_header("Batch", batch=True, properties=text(DELAY="1")), batch(b"a"))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    answer = wire.ask(R.SEND_BATCH_MESSAGE, send_header("Batch", batch=True), batch(b"ok", b"x" * (LIMIT + 1)))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert ok(send(wire, "Batch")).ext["queueOffset"] == "0"  # none of the refused batches left anything behind


def test_who_hears_that_the_first_message_of_a_topic_is_stored_gets_its_route(server: Server, wire: Wire) -> None:
    """A consumer that started right then used to be told that the topic does not exist."""
    batch = encode_batch([BatchItem(0, b"x", b"")])
    with Wire(server.namesrv_addr) as nameserver:
        for number in range(40):
            topic = f"Fresh-{number}"
            header = send_header(topic, batch=bool(number % 2))
            ok(wire.ask(R.SEND_MESSAGE_V2, header, batch if header.batch else b"x"))
            route = nameserver.ask(R.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            assert route.code == ResponseCode.SUCCESS, (number, route.remark)
