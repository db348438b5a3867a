"""Replies (324, 325) and their way to the producer that waits (326), beside the answers and pushes of Apache's
broker."""

from collections.abc import Iterator

import pytest

from rmqproto.bodies.groups import Heartbeat, ProducerData
from rmqproto.codes import RESPONSE_FLAG, RequestCode, ResponseCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.message import properties as props
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, decode_frame_untrusted, encode_frame
from tests.support.golden import exchange, said
from tests.support.servers import Server
from tests.support.wire import Wire

GOLDEN_CLIENT = "127.0.0.1@PlainProducerGroup"
OURS = {"msgId", "queueOffset"}
"""Fields that say where the broker has stored the reply."""

PUSHED_OURS = {"bornHost", "storeHost", "storeTimestamp", "properties"}


class Producer(Wire):
    """A producer that is online under an id, and reads pushed requests when a test wants it."""

    def __init__(self, server: Server, client_id: str):
        super().__init__(server.broker_addr)
        beat = Heartbeat(client_id=client_id, producer_data_set=[ProducerData(group_name="ReplyTestProducers")])
        assert self.ask(RequestCode.HEART_BEAT, {}, fastjson.dumps(beat)).code == ResponseCode.SUCCESS

    def answer(self, pushed: Command, code: int) -> None:
        self.send(encode_frame(Command(code=code, opaque=pushed.opaque, flag=RESPONSE_FLAG)))


@pytest.fixture
def producer(server: Server) -> Iterator[Producer]:
    with Producer(server, GOLDEN_CLIENT) as online:
        yield online


def reply_header(client_id: str | None) -> SendHeaderV2:
    properties = {props.MSG_TYPE: "reply", props.CORRELATION_ID: "c"}
    if client_id is not None:
        properties[props.REPLY_TO_CLIENT] = client_id
    return SendHeaderV2(
        producer_group="g", topic="DefaultCluster_REPLY_TOPIC", queue_id=0, born_timestamp=1,
        properties=props.render(properties),
    )  # fmt: skip


def begin_reply(wire: Wire, client_id: str) -> None:
    """Sends a reply without waiting for the answer, which comes only after the producer's."""
    ext = to_ext(reply_header(client_id))
    wire.send(encode_frame(Command(code=RequestCode.SEND_REPLY_MESSAGE_V2, ext=ext, body=b"reply")))


@pytest.mark.parametrize("name", ["324-SEND_REPLY_MESSAGE/01", *(f"325-SEND_REPLY_MESSAGE_V2/0{n}" for n in (2, 4))])
def test_a_reply_to_nobody_is_refused_as_apache_does(wire: Wire, name: str) -> None:
    golden = exchange(name)
    wire.send(golden.request)
    ours, apaches = said(wire.receive()), said(golden.answer)
    assert ours["ext"].keys() == apaches["ext"].keys()
    for answer in (ours, apaches):
        answer["ext"] = {key: value for key, value in answer["ext"].items() if key not in OURS}
    assert ours == apaches


@pytest.mark.parametrize("number", ["01", "03"])
def test_a_reply_is_pushed_to_who_waits_and_answered_when_that_has_it(
    wire: Wire, producer: Producer, number: str
) -> None:
    golden = exchange(f"325-SEND_REPLY_MESSAGE_V2/{number}")
    apaches = decode_frame_untrusted(exchange(f"326-PUSH_REPLY_MESSAGE_TO_CLIENT/0{1 + (number == '03')}").request)
    wire.send(golden.request)
    pushed = producer.receive()
    assert (pushed.code, pushed.body, pushed.is_oneway) == (apaches.code, apaches.body, False)
    assert pushed.ext.keys() == apaches.ext.keys()
    assert {key: value for key, value in pushed.ext.items() if key not in PUSHED_OURS} == {
        key: value for key, value in apaches.ext.items() if key not in PUSHED_OURS
    }
    assert pushed.ext["bornHost"] == wire.address
    properties, expected = (props.parse(each.ext["properties"]) for each in (pushed, apaches))
    assert abs(int(properties.pop("PUSH_REPLY_TIME")) - int(pushed.ext["storeTimestamp"])) < 60_000
    del expected["PUSH_REPLY_TIME"]
    assert properties == expected
    producer.answer(pushed, ResponseCode.SUCCESS)
    answer = wire.receive()
    assert golden.answer is not None
    assert (answer.code, answer.remark or "") == (ResponseCode.SUCCESS, "")
    assert answer.ext.keys() == golden.answer.ext.keys()


def test_a_producer_that_refuses_the_reply_is_a_failure(wire: Wire, producer: Producer) -> None:
    begin_reply(wire, GOLDEN_CLIENT)
    producer.answer(producer.receive(), ResponseCode.SYSTEM_ERROR)
    answer = wire.receive()
    assert (answer.code, answer.remark) == (1, f"push reply message to {GOLDEN_CLIENT}fail.")


def test_a_producer_that_goes_before_it_has_said_anything_is_a_failure(wire: Wire, server: Server) -> None:
    with Producer(server, "leaving") as producer:
        begin_reply(wire, "leaving")
        producer.receive()
    answer = wire.receive()
    assert (answer.code, answer.remark) == (1, "push reply message to leavingfail.")


def test_a_reply_that_does_not_say_to_whom_is_a_failure(wire: Wire) -> None:
    answer = wire.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_header(None), b"reply")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "REPLY_TO_CLIENT" in (answer.remark or "")


def test_a_reply_to_a_topic_that_may_not_be_is_refused_before_it_is_pushed(wire: Wire, producer: Producer) -> None:
    header = reply_header(GOLDEN_CLIENT)
    header.topic = "SCHEDULE_TOPIC_XXXX"
    answer = wire.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, b"reply")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
