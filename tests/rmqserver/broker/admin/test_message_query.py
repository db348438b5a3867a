"""Finding messages by key, id, time and place."""

import time

import pytest

from rmqproto.bodies.statistics import ConsumeQueueAnswer
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.consuming import MaxOffsetHeader, QueryMessageHeader, SearchOffsetHeader
from rmqproto.headers.tables import QueryConsumeQueueHeader
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.record import StoredMessage, decode_record_untrusted, decode_records_untrusted
from rmqproto.wire.command import Command, decode_frame_untrusted, encode_frame
from rmqproto.wire.fastjson import loads_untrusted
from tests.rmqserver.broker.golden_play import loosened, play
from tests.rmqserver.broker.golden_state import consume, create_topic, ok, send, subscription
from tests.support.golden import Exchange, exchange, exchanges, said
from tests.support.wire import Wire

QUERY = "12-QUERY_MESSAGE"
UNIQUE_KEYS = ("7F00000112734E0E2F2A69B5BA550000", "7F000001243F4E0E2F2A69A420730000")
A_DAY_MS = 86_400_000


@pytest.fixture(scope="module", autouse=True)
def filled(admin: Wire) -> None:
    """Five plain messages, and four with tag and key, all in queue 0. The very first is the log's first record."""
    for topic in ("PlainTopic", "NormalTopic", "TransTopic"):
        create_topic(admin, topic)
    for number in range(5):
        send(admin, "PlainTopic", 0, {"UNIQ_KEY": UNIQUE_KEYS[number % 2]})
    for number in range(4):
        send(admin, "NormalTopic", 0, {"TAGS": "TagA", "KEYS": f"KEY-{number} common", "UNIQ_KEY": f"U{number}"})


def query(admin: Wire, key: str, index_type: str | None = None, max_num: int = 32) -> list[StoredMessage]:
    header = QueryMessageHeader(
        topic="NormalTopic", key=key, max_num=max_num, begin_timestamp=0, end_timestamp=2**63 - 1, index_type=index_type
    )
    answer = admin.ask(R.QUERY_MESSAGE, header)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return []
    return decode_records_untrusted(ok(answer).body)


# --- by key and id ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["04", "05", "09", "10", "12"])
def test_a_key_that_is_not_there_as_apache_says_it(admin: Wire, number: str) -> None:
    play(admin, f"{QUERY}/{number}")


@pytest.mark.parametrize("number", ["01", "02", "03", "06", "07", "08"])
def test_a_key_that_is_there_as_apache_finds_it(admin: Wire, number: str) -> None:
    """Some recorded queries end before our messages were stored; only this end is changed."""
    golden = exchange(f"{QUERY}/{number}")
    asking = decode_frame_untrusted(golden.request)
    asking.ext["endTimestamp"] = str(2**63 - 1)
    answer = admin.exchange(encode_frame(asking))
    loose = ("indexLastUpdatePhyoffset", "indexLastUpdateTimestamp", "body")
    assert loosened(said(answer), loose) == loosened(said(golden.answer), loose)
    key = asking.ext["key"]
    for message in decode_records_untrusted(answer.body):
        assert message.topic == asking.ext["topic"]
        assert key in message.properties["UNIQ_KEY"] + " " + message.properties.get("KEYS", "")


def test_a_query_of_mqadmin_by_unique_key(admin: Wire) -> None:
    golden = exchange(f"{QUERY}/11")
    asking = decode_frame_untrusted(golden.request)
    asking.ext["key"] = "U2"
    answer = admin.exchange(encode_frame(asking))
    assert answer.ext.keys() == said(golden.answer)["ext"].keys()
    assert [message.properties["UNIQ_KEY"] for message in decode_records_untrusted(answer.body)] == ["U2"]


def test_keys_unique_keys_and_tags_are_found_in_the_order_of_the_log(admin: Wire) -> None:
    found = query(admin, "common")
    assert [message.properties["UNIQ_KEY"] for message in found] == ["U0", "U1", "U2", "U3"]
    assert len(query(admin, "common", max_num=2)) == 2
    assert [message.properties["UNIQ_KEY"] for message in query(admin, "U1")] == ["U1"]
    assert len(query(admin, "TagA", "T")) == 4
    assert query(admin, "TagA") == []


@pytest.mark.parametrize("number", ["02", "04", "06"])
def test_no_message_at_an_offset_as_apache_says_it(admin: Wire, number: str) -> None:
    """Offset 123 is in the middle of a record, and the bytes there are no size."""
    play(admin, f"33-VIEW_MESSAGE_BY_ID/{number}")


@pytest.mark.parametrize("number", ["01", "03"])
def test_the_first_message_as_apache_gives_it(admin: Wire, number: str) -> None:
    ours = play(admin, f"33-VIEW_MESSAGE_BY_ID/{number}", "body")
    assert decode_record_untrusted(ours["body"]).topic == "PlainTopic"


def test_a_message_by_its_id(admin: Wire) -> None:
    msg_id = send(admin, "NormalTopic", 1)
    asking = decode_frame_untrusted(exchange("33-VIEW_MESSAGE_BY_ID/05").request)
    asking.ext["offset"] = str(parse_offset_id_untrusted(msg_id).log_offset)
    assert decode_record_untrusted(ok(admin.exchange(encode_frame(asking))).body).message_id == msg_id


def test_the_middle_of_a_message_is_no_message(admin: Wire) -> None:
    """The bytes there may look like a size: without a check of the magic, a gigabyte could be read for it."""
    body = (1000).to_bytes(4, "big") * 500
    log_offset = parse_offset_id_untrusted(send(admin, "NormalTopic", 2, body=body)).log_offset
    for inside in (log_offset + 88, log_offset + 92):
        assert admin.ask(R.VIEW_MESSAGE_BY_ID, {"offset": str(inside)}).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("log_offset", [-1, 2**62])
def test_an_offset_that_cannot_be(admin: Wire, log_offset: int) -> None:
    answer = admin.ask(R.VIEW_MESSAGE_BY_ID, {"offset": str(log_offset)})
    assert (answer.code, answer.remark) == (1, f"can not find message by the offset, {log_offset}")


# --- queue offsets ---------------------------------------------------------------------------------------------------


def test_queue_ends_and_times_as_apache_tells_them(admin: Wire) -> None:
    for each in exchanges(31):
        play(admin, each.name)
    for each in exchanges(32):
        play(admin, each.name, "timestamp")
    for number in ("01", "02", "03", "04", "07", "08"):
        play(admin, f"30-GET_MAX_OFFSET/{number}")
    for number in ("05", "06"):
        play(admin, f"30-GET_MAX_OFFSET/{number}", "offset")  # the recorded queue had one more message


@pytest.mark.parametrize("each", exchanges(29), ids=lambda each: each.name)
def test_times_find_offsets_as_apache_says(admin: Wire, each: Exchange) -> None:
    """Recorded times other than 0 were later than all messages."""
    asking = decode_frame_untrusted(each.request)
    if asking.ext["timestamp"] != "0":
        asking.ext["timestamp"] = str(time.time_ns() // 1_000_000 + A_DAY_MS)
    ours, theirs = said(admin.exchange(encode_frame(asking))), said(each.answer)
    is_end = asking.ext.get("boundaryType") == "UPPER"  # the last message; the recorded queue differs
    assert ours == ({**theirs, "ext": {"offset": "4"}} if is_end else theirs)


def test_an_unknown_queue_is_empty(admin: Wire) -> None:
    where = {"topic": "NoSuchTopic", "queueId": "3"}
    assert ok(admin.ask(R.GET_MAX_OFFSET, where)).ext == {"offset": "0"}
    assert ok(admin.ask(R.GET_MAX_OFFSET, MaxOffsetHeader(topic="PlainTopic", queue_id=3, committed="false"))).ext == {
        "offset": "0"
    }
    assert ok(admin.ask(R.GET_MIN_OFFSET, where)).ext == {"offset": "0"}
    assert ok(admin.ask(R.GET_EARLIEST_MSG_STORETIME, where)).ext == {"timestamp": "-1"}
    header = SearchOffsetHeader(topic="NoSuchTopic", queue_id=3, timestamp=0)
    assert ok(admin.ask(R.SEARCH_OFFSET_BY_TIMESTAMP, header)).ext == {"offset": "0"}


# --- units -----------------------------------------------------------------------------------------------------------

UNITS = "321-QUERY_CONSUME_QUEUE"


@pytest.mark.parametrize("number", ["01", "02", "03", "04", "05", "06", "09", "10"])
def test_units_as_apache_shows_them(admin: Wire, number: str) -> None:
    play(admin, f"{UNITS}/{number}", "physicOffset", "physicSize", "maxQueueIndex")


def test_units_with_tags_and_a_group_as_apache_shows_them(admin: Wire, client: Wire) -> None:
    loose = ("physicOffset", "physicSize", "tagsCode", "subVersion")
    play(admin, f"{UNITS}/07", *loose)
    consume(client, "NormalGroup", subscription("NormalTopic", ["TagA", "TagB"]))
    play(admin, f"{UNITS}/08", *loose)


def units(admin: Wire, index: int, count: int) -> Command:
    header = QueryConsumeQueueHeader(topic="NormalTopic", queue_id=0, index=index, count=count)
    return ok(admin.ask(R.QUERY_CONSUME_QUEUE, header))


def test_units_are_those_of_the_messages(admin: Wire) -> None:
    found = loads_untrusted(units(admin, 1, 1000).body, ConsumeQueueAnswer).queue_data
    assert len(found) == 3
    for unit in found:
        record = decode_record_untrusted(ok(admin.ask(R.VIEW_MESSAGE_BY_ID, {"offset": str(unit.physic_offset)})).body)
        assert (record.size_bytes, unit.tags_code) == (unit.physic_size, 2598919)


@pytest.mark.parametrize(("index", "count"), [(-1, 5), (4, 5)])
def test_units_outside_the_queue(admin: Wire, index: int, count: int) -> None:
    answer = units(admin, index, count)
    assert (answer.remark, answer.body) == (f"Index {index} of 0@NormalTopic is not exist!", b"")


def test_no_units_were_asked_for(admin: Wire) -> None:
    assert loads_untrusted(units(admin, 0, -3).body, ConsumeQueueAnswer).queue_data == []


@pytest.mark.parametrize(("queue_id", "is_there"), [(0, True), (3, True), (4, False), (-1, False)])
def test_units_of_a_queue_without_messages(admin: Wire, queue_id: int, is_there: bool) -> None:
    """As Apache's broker says of a queue that consumers have asked for: no unit there, or no such queue."""
    admin.create_topic("NoMessages", 4)
    header = QueryConsumeQueueHeader(topic="NoMessages", queue_id=queue_id, index=0, count=1)
    answer = admin.ask(R.QUERY_CONSUME_QUEUE, header)
    said = (
        (0, f"Index 0 of {queue_id}@NoMessages is not exist!")
        if is_there
        else (1, f"{queue_id}@NoMessages is not exist!")
    )
    assert (answer.code, answer.remark, answer.body) == (*said, b"")
