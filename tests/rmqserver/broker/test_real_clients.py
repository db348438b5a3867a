"""Requests of other clients, sent to our servers byte for byte: npm ``ali-ons`` and ``rocketmq-nodejs``, C++ 1.x and
2.x, Go v2, and one in pure Python. These tests keep what those clients demand of an answer."""

import functools
import json
import lzma
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from rmqproto.bodies.groups import Heartbeat
from rmqproto.codes import RESPONSE_FLAG, ResponseCode
from rmqproto.codes import RequestCode as R
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import PULL_SUBSCRIPTION, ConsumerGroupHeader, PullHeader, QueryConsumerOffsetHeader
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.record import decode_records_untrusted
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, HeaderCodec, decode_frame_untrusted, encode_frame
from tests.rmqserver.broker.golden_state import create_topic, ok, send
from tests.rmqserver.broker.messaging import stored
from tests.support import servers
from tests.support.golden import FILE
from tests.support.servers import Server, until
from tests.support.wire import Wire

TOPIC, CONSUMERS, PRODUCERS = "TopicCapture", "CID_capture", "PID_capture"
RETRIES = f"%RETRY%{CONSUMERS}"
TO_NAMESERVER = {
    R.GET_ROUTEINFO_BY_TOPIC, R.GET_BROKER_CLUSTER_INFO, R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, R.DELETE_TOPIC_IN_NAMESRV
}  # fmt: skip
PLACES = re.compile(rb'("(?:offset|commitLogOffset)":"?)\d+')
"""Fields that name a log offset of the recorded broker."""

SETTINGS = (
    "enablePropertyFilter=true",
    "longPollingEnable=false",
    "shortPollingTimeMills=1",
    "messageDelayLevel=1h 1h 1h",
)
TAGS_WANTED = {"*": ["TagA", "TagB", "TagC"], "TagA || TagB": ["TagA", "TagB"], "TagA": ["TagA"], "a > 1": ["TagA"]}
"""The tags of matching messages in each queue, by expression. Only TagA has a property ``a`` of more than 1."""


class Answer(NamedTuple):
    """``header`` is the raw text."""

    header: bytes
    command: Command


class RawWire(Wire):
    """A wire that also returns the raw headers of answers."""

    def __init__(self, address: str):
        super().__init__(address)
        self._held: set[int] = set()

    def hold(self, request: Command, frame: bytes) -> None:
        """Sends a request that is answered later, or never."""
        self._held.add(request.opaque)
        self.send(frame)

    def ask_raw(self, frame: bytes) -> Answer:
        """The answer to a frame. Requests of the server that come first are skipped, and so are answers to held
        requests."""
        self.send(frame)
        while True:
            data = self._exactly(4)
            data += self._exactly(int.from_bytes(data, "big"))
            command = decode_frame_untrusted(data)
            if command.is_answer and command.opaque in self._held:
                self._held.remove(command.opaque)
            elif command.is_answer:
                return Answer(data[8 : 8 + int.from_bytes(data[5:8], "big")], command)

    def _exactly(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            part = self._socket.recv(size_bytes - len(data))
            if not part:
                raise EOFError("the server closed the connection")
            data += part
        return data


@functools.cache
def recordings() -> dict[str, list[bytes]]:
    """Frames by client and scenario, such as ``ali-ons-3.12.0/basic``."""
    found: dict[str, list[bytes]] = {}
    with lzma.open(FILE, "rt") as lines:
        for line in map(json.loads, lines):
            client, scenario, *_ = line["source"].split("/")
            if client != "apache":
                found.setdefault(f"{client}/{scenario}", []).append(bytes.fromhex(line["hex"]))
    return found


def frame_of(scenario: str, code: int) -> bytes:
    """The first request of a code."""
    requests = (each for each in recordings()[scenario] if not decode_frame_untrusted(each).is_answer)
    return next(each for each in requests if decode_frame_untrusted(each).code == code)


server = servers.of_module(*servers.sets(*SETTINGS))


@pytest.fixture
def admin(server: Server) -> Iterator[Wire]:
    """A connection that makes the state anew. The clients of the test before are gone."""
    with Wire(server.broker_addr) as wire:
        until(lambda: not is_online(wire))
        wire.ask(R.DELETE_SUBSCRIPTIONGROUP, {"groupName": CONSUMERS, "cleanOffset": "true"})
        for topic in (TOPIC, RETRIES, "NoSuchTopic"):
            wire.ask(R.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        create_topic(wire, TOPIC)
        create_topic(wire, RETRIES)  # with the queue count that all topics had when the frames were recorded
        for queue_id in range(4):
            for tag, a in (("TagA", "2"), ("TagB", "0"), ("TagC", "0")):
                send(wire, TOPIC, queue_id, {"TAGS": tag, "a": a})
        yield wire


def is_online(wire: Wire) -> bool:
    return wire.ask(R.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group=CONSUMERS)).code == 0


@pytest.fixture
def client(server: Server) -> Iterator[RawWire]:
    with RawWire(server.broker_addr) as wire:
        yield wire


def placed(frame: bytes, log_offset: int) -> bytes:
    """A request with JSON header, changed to name a log offset of ours."""
    header_size = int.from_bytes(frame[5:8], "big")
    header = PLACES.sub(rb"\g<1>%d" % log_offset, frame[8 : 8 + header_size])
    rest = b"\0" + len(header).to_bytes(3, "big") + header + frame[8 + header_size :]
    return len(rest).to_bytes(4, "big") + rest


def check_form(request: Command, answer: Answer) -> None:
    """Checks what every client needs to read an answer."""
    assert (answer.command.opaque, answer.command.codec) == (request.opaque, request.codec)
    if request.codec is HeaderCodec.JSON:
        written = json.loads(answer.header)
        assert all(isinstance(value, str) for value in (written.get("extFields") or {}).values()), (
            "Go refuses other values; C++ reads 0, and consumes the same messages for ever"
        )


@pytest.mark.parametrize("scenario", recordings())
def test_every_request_is_understood(server: Server, admin: Wire, client: RawWire, scenario: str) -> None:
    log_offset = parse_offset_id_untrusted(stored(admin, TOPIC)[0].message_id).log_offset
    heartbeat: Heartbeat | None = None
    with RawWire(server.namesrv_addr) as namesrv:
        until(lambda: namesrv.route(TOPIC) is not None)
        for frame in recordings()[scenario]:
            request = decode_frame_untrusted(frame)
            if request.is_answer:
                continue
            if request.codec is HeaderCodec.JSON and request.code in (R.CONSUMER_SEND_MSG_BACK, R.END_TRANSACTION):
                frame = placed(frame, log_offset)
            wire = namesrv if request.code in TO_NAMESERVER else client
            if request.is_oneway or (request.code == R.PULL_MESSAGE and request.ext["topic"] == RETRIES):  # it is held
                wire.hold(request, frame)
                continue
            answer = wire.ask_raw(frame)
            check_form(request, answer)
            if request.code == R.HEART_BEAT:
                heartbeat = fastjson.loads_untrusted(request.body, Heartbeat)
            assert answer.command.code in codes_expected(request), (request, answer.command.remark)
            if request.code == R.PULL_MESSAGE and request.ext["topic"] == TOPIC:
                check_pull(request, answer.command, heartbeat)


def codes_expected(request: Command) -> tuple[int, ...]:
    if request.code == R.GET_ROUTEINFO_BY_TOPIC and request.ext["topic"] not in (TOPIC, "TBW102"):
        return ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST
    if request.code == R.END_TRANSACTION:  # it names a message without a transaction
        return (ResponseCode.SYSTEM_ERROR,)
    also = {
        R.QUERY_CONSUMER_OFFSET: ResponseCode.QUERY_NOT_FOUND,
        R.GET_CONSUMER_LIST_BY_GROUP: ResponseCode.SYSTEM_ERROR,  # nobody is online
    }.get(R(request.code), ResponseCode.SUCCESS)
    return ResponseCode.SUCCESS, also


def check_pull(request: Command, answer: Command, heartbeat: Heartbeat | None) -> None:
    """Only matching messages come, by the pull's own subscription or that of the heartbeat before it."""
    header = from_ext(request.ext, PullHeader)
    if header.queue_offset or answer.code != ResponseCode.SUCCESS:
        return
    expression = header.subscription
    if not header.sys_flag & PULL_SUBSCRIPTION:
        wanted = heartbeat.consumer_data_set[0].subscription_data_set
        expression = next(each.sub_string for each in wanted if each.topic == header.topic)
    tags = [message.properties["TAGS"] for message in decode_records_untrusted(answer.body)]
    wanted_tags = TAGS_WANTED[expression or "*"]
    assert tags[: len(wanted_tags)] == wanted_tags


def header_of(raw: bytes) -> bytes:
    return raw[8 : 8 + int.from_bytes(raw[5:8], "big")]


def test_the_recordings_hold_what_is_odd() -> None:
    """Without these oddities the tests of this file would prove nothing."""
    headers = [header_of(frame) for frames in recordings().values() for frame in frames]
    for odd in (b'"extFields":null', b'"language":3,', b"}\n", b'"queueId":0,', b'"batch":"1"', b'"flag":2,'):
        assert any(odd in header for header in headers), odd
    bodies = [decode_frame_untrusted(frame).body for frames in recordings().values() for frame in frames]
    for odd in (b'"consumeType":1,', b'"subVersion":"', b'"codeSet":["', b'"codeSet":[0,0]', b"}\n", b"\\u003e"):
        assert any(odd in body for body in bodies), odd


def test_a_client_that_never_says_goodbye_is_gone_with_its_connection(server: Server, admin: Wire) -> None:
    """The Go client never unregisters."""
    scenario = "rocketmq-client-go-v2/basic"
    assert not any(decode_frame_untrusted(each).code == R.UNREGISTER_CLIENT for each in recordings()[scenario])
    with RawWire(server.broker_addr) as client:
        client.ask_raw(frame_of(scenario, R.HEART_BEAT))
        assert is_online(admin)
    until(lambda: not is_online(admin))


def test_a_producer_that_unregisters_before_its_heartbeat_is_gone_with_its_connection(
    server: Server, admin: Wire
) -> None:
    """C++ 1.x does this when it is stopped right after its start."""

    def producers() -> int:
        return admin.ask(R.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": PRODUCERS}).code

    scenario = "librocketmq-pypi-rocketmq-0.4.4/no-route"
    with RawWire(server.broker_addr) as client:
        for code in (R.UNREGISTER_CLIENT, R.HEART_BEAT):
            assert client.ask_raw(frame_of(scenario, code)).command.code == 0
        assert producers() == ResponseCode.SUCCESS
    until(lambda: producers() != ResponseCode.SUCCESS)


@pytest.mark.parametrize("scenario", ["ali-ons-3.12.0/basic", "ali-ons-3.12.0/retry"])
def test_an_offset_of_minus_one_is_none(admin: Wire, client: RawWire, scenario: str) -> None:
    """ali-ons commits it for queues from which it has not consumed."""
    pull, commit = frame_of(scenario, R.PULL_MESSAGE), frame_of(scenario, R.UPDATE_CONSUMER_OFFSET)
    client.ask_raw(frame_of(scenario, R.HEART_BEAT))
    for frame in (pull, commit):
        assert decode_frame_untrusted(frame).ext["commitOffset"] == "-1"
        client.ask_raw(frame)
    queue_id = int(decode_frame_untrusted(commit).ext["queueId"])
    header = QueryConsumerOffsetHeader(
        consumer_group=CONSUMERS, topic=TOPIC, queue_id=queue_id, set_zero_if_not_found=False
    )
    assert admin.ask(R.QUERY_CONSUMER_OFFSET, header).code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize("client_name", ["ali-ons-3.12.0", "librocketmq-pypi-rocketmq-0.4.4", "rocketmq-client-go-v2"])
def test_a_message_that_is_sent_back_is_retried(admin: Wire, client: RawWire, client_name: str) -> None:
    """C++ 1.x sends only offset, group and level."""
    message = stored(admin, TOPIC)[0]
    log_offset = parse_offset_id_untrusted(message.message_id).log_offset
    frame = frame_of(f"{client_name}/retry", R.CONSUMER_SEND_MSG_BACK)
    assert client.ask_raw(placed(frame, log_offset)).command.code == 0
    (delayed,) = stored(admin, "SCHEDULE_TOPIC_XXXX", 2, -1 + end_of(admin, "SCHEDULE_TOPIC_XXXX", 2))
    assert (delayed.body, delayed.properties["REAL_TOPIC"]) == (message.body, RETRIES)
    assert (delayed.properties["RETRY_TOPIC"], delayed.reconsume_times) == (TOPIC, 1)


def end_of(wire: Wire, topic: str, queue_id: int) -> int:
    return int(ok(wire.ask(R.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})).ext["offset"])


@pytest.mark.parametrize("client_name", ["librocketmq-pypi-rocketmq-0.4.4", "rocketmq-nodejs-1.1.2"])
def test_a_client_that_finds_no_route_makes_the_topic(
    server: Server, admin: Wire, client: RawWire, client_name: str
) -> None:
    """The client asks for the route of TBW102, and sends to a broker of that route."""
    ask, ask_default, first_send = recordings()[f"{client_name}/no-route"][:3]
    with RawWire(server.namesrv_addr) as namesrv:
        namesrv.ask(R.DELETE_TOPIC_IN_NAMESRV, {"topic": "NoSuchTopic"})
        assert namesrv.ask_raw(ask).command.code == ResponseCode.TOPIC_NOT_EXIST
        assert server.broker_addr.encode() in namesrv.ask_raw(ask_default).command.body
        assert client.ask_raw(first_send).command.code == 0
        until(lambda: namesrv.ask_raw(ask).command.code == 0)
        route = namesrv.route("NoSuchTopic")
    assert [queues.write_queue_nums for queues in route.queue_datas] == [4]


def test_a_batch_that_cpp_marks_with_a_one_is_a_batch(admin: Wire, client: RawWire) -> None:
    frames = recordings()["librocketmq-pypi-rocketmq-0.4.4/producer"]
    frame = next(each for each in frames if b'"batch":"1"' in header_of(each))
    request = decode_frame_untrusted(frame)
    answer = client.ask_raw(frame).command
    queue_id, first = int(request.ext["queueId"]), int(answer.ext["queueOffset"])
    found = stored(admin, TOPIC, queue_id, first)
    assert len(found) == len(answer.ext["msgId"].split(",")) > 1
    assert all(message.body in request.body and message.properties["UNIQ_KEY"] for message in found)


def answers_of(scenario: str) -> list[Command]:
    return [one for one in map(decode_frame_untrusted, recordings()[scenario]) if one.is_answer]


@pytest.mark.parametrize(
    "client_name", ["librocketmq-pypi-rocketmq-0.4.4", "rocketmq-nodejs-1.1.2", "rocketmq-client-go-v2"]
)
def test_running_info_is_passed_on_as_the_client_wrote_it(admin: Wire, client: RawWire, client_name: str) -> None:
    """C++ indents the JSON, and writes 18446744073709551615 for unset numbers, and "flase"."""
    scenario = f"{client_name}/server-requests"
    golden = next(one for one in answers_of(scenario) if b"mqTable" in one.body)
    beat = frame_of(scenario, R.HEART_BEAT)
    client_id = fastjson.loads_untrusted(decode_frame_untrusted(beat).body, Heartbeat).client_id
    client.ask_raw(beat)
    ask = {"consumerGroup": CONSUMERS, "clientId": client_id, "jstackEnable": "false"}
    admin.send(encode_frame(Command(code=R.GET_CONSUMER_RUNNING_INFO, opaque=5, ext=ask)))
    assert answer_next(client, R.GET_CONSUMER_RUNNING_INFO, golden).ext == ask
    got = admin.receive()
    assert (got.opaque, got.code, got.body) == (5, 0, golden.body)


def test_offsets_that_go_tells_of_itself_are_read(admin: Wire, client: RawWire) -> None:
    """The Go client's JSON has objects as keys."""
    scenario = "rocketmq-client-go-v2/server-requests"
    golden = next(one for one in answers_of(scenario) if b"messageQueueTable" in one.body)
    client.ask_raw(frame_of(scenario, R.HEART_BEAT))
    ask = {"topic": TOPIC, "group": CONSUMERS}
    admin.send(encode_frame(Command(code=R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, opaque=5, ext=ask)))
    answer_next(client, R.GET_CONSUMER_STATUS_FROM_CLIENT, golden)
    told: Any = fastjson.parse_untrusted(ok(admin.receive()).body)
    theirs: Any = fastjson.parse_untrusted(golden.body)
    assert list(told["consumerTable"].values()) == [theirs["messageQueueTable"]]


def answer_next(client: Wire, code: int, golden: Command) -> Command:
    """Answers the broker's next request of a code as a recorded client did."""
    request = client.receive()
    while request.code != code:  # the broker also tells members of each other
        request = client.receive()
    answer = Command(code=golden.code, opaque=request.opaque, flag=RESPONSE_FLAG, body=golden.body)
    client.send(encode_frame(answer))
    return request


def test_a_transaction_that_go_ends_is_ended(admin: Wire, client: RawWire) -> None:
    """In its answer to a check the Go client sends ``fromTransactionCheck`` and an empty broker name."""
    frames = recordings()["rocketmq-client-go-v2/transaction"]
    half = next(each for each in frames if decode_frame_untrusted(each).code == R.SEND_MESSAGE)
    sent = decode_frame_untrusted(half)
    queue_id = int(sent.ext["queueId"])
    ends = [each for each in frames if decode_frame_untrusted(each).code == R.END_TRANSACTION]
    assert {decode_frame_untrusted(each).ext["bname"] for each in ends} >= {""}
    for number, frame in enumerate(ends):
        before = end_of(admin, TOPIC, queue_id)
        another = half.replace(b"47900001", b"4790000%d" % number)  # the unique key must differ, or it is a repeat
        answer = ok(client.ask_raw(another).command)
        assert end_of(admin, TOPIC, queue_id) == before
        request = decode_frame_untrusted(frame)
        request.ext["commitLogOffset"] = str(parse_offset_id_untrusted(answer.ext["msgId"]).log_offset)
        request.ext["tranStateTableOffset"] = answer.ext["queueOffset"]
        assert client.ask_raw(encode_frame(request)).command.code == 0
        assert end_of(admin, TOPIC, queue_id) == before + 1
