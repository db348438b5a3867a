"""From frame to handler: typed decoding of every code, the gate, and the hook that turns errors into answers."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from rmqproto.codes import ONEWAY_FLAG, RESPONSE_FLAG, VERSION, RequestCode, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import Header, NoFields, java_bools
from rmqproto.headers.consuming import ConsumerGroupHeader, QueueHeader
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.wire import header_binary, header_json
from rmqproto.wire.command import Command, HeaderCodec, decode_frame_untrusted, encode_frame
from rmqproto.wire.frames import FrameCutter, frame
from rmqserver.operation import Refused
from rmqserver.remoting.answer import LANGUAGE, Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.gate import GatePlace
from rmqserver.remoting.service import Service

GROUP = RequestCode.GET_CONSUMER_LIST_BY_GROUP
MIN_OFFSET = RequestCode.GET_MIN_OFFSET
HEARTBEAT = RequestCode.HEART_BEAT
CODES = (7, 38, 310, 1000, 3001, 200050, 200051)


class FullError(Exception):
    """An error of a service's own."""


class Recorder(Service):
    """Answers every code with the header it got."""

    def __init__(self, codes: Any = (GROUP, MIN_OFFSET, HEARTBEAT), gate: Door | None = None):
        super().__init__("recorder", {code: self.answer for code in codes})
        self.use_gate(GatePlace.USERS, gate)
        self.requests: list[Request[Any]] = []
        self.error: Exception | None = None

    def answer(self, request: Request[Any], connection: Connection) -> bytes | None:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return success(request, request.header)

    def as_refused(self, error: Exception) -> Refused | None:
        if isinstance(error, FullError):
            return Refused(ResponseCode.SYSTEM_BUSY, f"full: {error}", ConsumerGroupHeader(consumer_group="g"))
        return super().as_refused(error)


class Door:
    """Records what it sees; refuses requests with the ext field ``no``."""

    def __init__(self, wants_ext: bool = True):
        self.wants_ext = wants_ext
        self.seen: list[tuple[int, object, Mapping[str, str]]] = []

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> None:
        self.seen.append((request.code, request.header, ext))
        if "no" in ext:
            raise Refused(ResponseCode.NO_PERMISSION, "not you")


class Sent:
    """A connection on a real socket, without a loop: queued frames stay in ``out``."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.theirs = socket.create_connection(listener.getsockname())
        self.ours, _ = listener.accept()
        listener.close()
        self.connection = Connection(self.ours, self, Recorder(), 1)  # type: ignore[arg-type]

    def mark_dirty(self, connection: Connection) -> None: ...

    def answers(self, service: Service, *frames: bytes) -> list[Command]:
        FrameCutter(service.handle_untrusted, self.connection).feed_untrusted(b"".join(frames))
        answers = [decode_frame_untrusted(sent) for sent in self.connection.out]
        self.connection.out.clear()
        return answers

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def sent() -> Iterator[Sent]:
    sent = Sent()
    yield sent
    sent.close()


def request_frame(code: int, ext: dict[str, str], codec: HeaderCodec = HeaderCodec.JSON, flag: int = 0) -> bytes:
    return encode_frame(Command(code=code, opaque=5, ext=ext, codec=codec, flag=flag, body=b"the body"))


def test_every_code_is_decoded_straight_into_its_typed_header(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes above 999, such as POP's 200050 and 3001 of users, used to go the slow way."""
    for code in CODES:
        monkeypatch.setitem(REQUEST_HEADERS, code, ConsumerGroupHeader)
    service = Recorder(CODES)
    monkeypatch.setattr("rmqserver.remoting.service.decode_header_untrusted", None)
    for code in CODES:
        (answer,) = sent.answers(service, request_frame(code, {"consumerGroup": f"G{code}"}))
        assert answer.ext == {"consumerGroup": f"G{code}"}
        assert (service.requests[-1].code, service.requests[-1].body) == (code, b"the body")


def test_frames_are_offered_to_takers_without_gates_or_if_they_ask_the_only_one() -> None:
    service, taker, asking, asked = Recorder(gate=Door()), object(), object(), list[object]()
    takers = service.takers
    service.offer_frames_to(taker)
    service.offer_frames_to(asking, asked.append)
    assert takers == []
    service.use_gate(GatePlace.USERS, None)
    assert takers == [taker, asking]
    service.use_gate(GatePlace.USERS, Door(), undecoded=lambda *request: True)
    assert takers == [asking]
    assert asked.pop() is not None
    service.use_gate(GatePlace.FAULTS, Door())
    assert takers == []
    service.use_gate(GatePlace.USERS, None)
    assert takers == []
    service.use_gate(GatePlace.FAULTS, None)
    assert (takers, asked.pop()) == ([taker, asking], None)


def test_what_the_envelope_says_of_body_and_codec_counts_for_nothing(sent: Sent) -> None:
    service = Recorder()
    for member in ('"body":"AAAA","codec":2', '"body":7', '"codec":"x"'):
        header = f'{{"code":38,"opaque":5,{member},"extFields":{{"consumerGroup":"g"}}}}'
        (answer,) = sent.answers(service, frame(header.encode(), b"the body"))
        assert answer.codec is HeaderCodec.JSON
        assert (service.requests[-1].body, service.requests[-1].codec) == (b"the body", 0)


def test_a_code_that_stands_twice_is_the_last_one_for_gate_and_handler_alike(sent: Sent) -> None:
    door = Door()
    service = Recorder(gate=door)
    header = b'{"code":38,"code":31,"opaque":5,"extFields":{"consumerGroup":"g","topic":"T","queueId":"3"}}'
    sent.answers(service, frame(header))
    ((code, typed, _),) = door.seen
    assert code == service.requests[0].code == MIN_OFFSET
    assert isinstance(typed, QueueHeader)
    assert service.requests[0].header is typed


@pytest.mark.parametrize("codec", HeaderCodec)
@pytest.mark.parametrize("flag", [0, ONEWAY_FLAG])
def test_the_gate_sees_code_typed_header_and_raw_ext_fields_of_every_codec(
    sent: Sent, codec: HeaderCodec, flag: int
) -> None:
    door = Door()
    service = Recorder(gate=door)
    ext = {"consumerGroup": "g", "AccessKey": "who", "Signature": "why"}
    answers = sent.answers(service, request_frame(GROUP, ext, codec, flag))
    assert door.seen == [(GROUP, ConsumerGroupHeader(consumer_group="g"), ext)]
    assert len(service.requests) == 1
    assert len(answers) == (0 if flag else 1)


@pytest.mark.parametrize("codec", HeaderCodec)
def test_who_is_refused_at_the_gate_does_not_reach_the_handler(sent: Sent, codec: HeaderCodec) -> None:
    service = Recorder(gate=Door())
    frames = (
        request_frame(GROUP, {"consumerGroup": "g", "no": "1"}, codec),
        request_frame(HEARTBEAT, {"no": "1"}, codec),
        request_frame(9999, {"no": "1"}, codec),  # an unknown code
        request_frame(GROUP, {"no": "1"}, codec),  # a header that does not fit its code
    )
    answers = sent.answers(service, *frames)
    assert [(answer.code, answer.remark) for answer in answers] == [(ResponseCode.NO_PERMISSION, "not you")] * 4
    assert service.requests == []
    assert sent.answers(service, request_frame(GROUP, {"no": "1"}, codec, ONEWAY_FLAG)) == []
    assert service.requests == []


def test_unknown_codes_and_wrong_headers_are_refused_behind_the_gate(sent: Sent) -> None:
    door = Door()
    service = Recorder(gate=door)
    unknown, wrong = sent.answers(service, request_frame(9999, {}), request_frame(GROUP, {"x": "y"}))
    assert (unknown.code, wrong.code) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.SYSTEM_ERROR)
    assert "consumerGroup" in (wrong.remark or "")
    assert door.seen == [(9999, NoFields(), {}), (GROUP, NoFields(), {"x": "y"})]


def test_raw_ext_fields_are_not_decoded_for_a_gate_that_does_not_want_them(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(wants_ext=False)
    service = Recorder(gate=door)
    monkeypatch.setattr("rmqserver.remoting.service.decode_ext_untrusted", None)
    assert len(sent.answers(service, request_frame(GROUP, {"consumerGroup": "g"}))) == 1
    assert door.seen == [(GROUP, ConsumerGroupHeader(consumer_group="g"), {})]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["gate", "handler", "fields"])
def test_a_flood_of_refusals_leaves_nothing_to_the_garbage_collector(sent: Sent, where: str) -> None:
    """Each refusal used to leave its frames in a cycle. The collector took 0.3 s for those of 10,000, while everybody
    waited."""
    service = Recorder(gate=Door() if where == "gate" else None)
    service.error = FullError("no room")
    ext = {"no": "1"} if where == "fields" else {"consumerGroup": "g", "no": "1"}
    frames = [encode_frame(Command(code=GROUP, opaque=number, ext=ext)) for number in range(200)]
    sent.answers(service, *frames[:5])
    gc.collect()
    gc.disable()
    try:
        assert len(sent.answers(service, *frames)) == len(frames)
        service.requests.clear()
        assert gc.collect() < len(frames)
    finally:
        gc.enable()


def test_a_gate_that_is_used_for_a_while_stands_behind_the_guard(sent: Sent) -> None:
    guard, behind = Door(), Door(wants_ext=False)
    service = Recorder(gate=guard)
    good, bad = request_frame(GROUP, {"consumerGroup": "g"}), request_frame(GROUP, {"consumerGroup": "g", "no": "1"})
    service.use_gate(GatePlace.FAULTS, behind)
    assert [answer.code for answer in sent.answers(service, good, bad)] == [0, ResponseCode.NO_PERMISSION]
    assert (len(guard.seen), len(behind.seen)) == (2, 1)
    service.use_gate(GatePlace.FAULTS, None)
    assert [answer.code for answer in sent.answers(service, good, bad)] == [0, ResponseCode.NO_PERMISSION]
    assert (len(guard.seen), len(behind.seen)) == (4, 1)


def test_one_hook_turns_a_services_own_errors_into_answers(sent: Sent, caplog: pytest.LogCaptureFixture) -> None:
    service = Recorder()
    request = request_frame(GROUP, {"consumerGroup": "g"})
    service.error = FullError("no room")
    (answer,) = sent.answers(service, request)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, "full: no room")
    assert answer.ext == {"consumerGroup": "g"}
    service.error = ProtocolError("bytes that are none")
    (answer,) = sent.answers(service, request)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "bytes that are none")
    assert not caplog.text
    service.error = ZeroDivisionError("a bug")
    (answer,) = sent.answers(service, request)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: a bug")
    assert "ZeroDivisionError" in caplog.text


def bool_fields() -> list[tuple[int, type[Header], str, str]]:
    """Each boolean ext field: request code, header, our name, and the wire's name."""
    return [
        (int(code), header, field.name, field.encode_name)
        for code, header in REQUEST_HEADERS.items()
        for field in msgspec.structs.fields(header)
        if field.encode_name in java_bools(header)
    ]


def ext_of(header: type[Header], name: str, value: str) -> dict[str, str]:
    """The fields that the header needs, and this one."""
    needed = {
        field.encode_name: "1"
        for field in msgspec.structs.fields(header)
        if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    }
    return needed | {name: value}


@pytest.mark.parametrize("codec", HeaderCodec)
@pytest.mark.parametrize(("text", "is_true"), [
    ("true", True), ("TRUE", True), ("True", True), ("false", False), ("1", False), ("0", False), (" true ", False),
    ("yes", False), ("truee", False),
])  # fmt: skip
def test_boolean_ext_fields_are_read_as_java_reads_them(
    sent: Sent, codec: HeaderCodec, text: str, is_true: bool
) -> None:
    """``Boolean.parseBoolean``: "1" and " true " used to be read as true."""
    fields = [
        found for found in bool_fields() if codec is not HeaderCodec.ROCKETMQ or found[0] <= header_binary.CODE_MAX
    ]
    assert len(fields) > 10
    service = Recorder({code for code, *_ in fields})
    for code, header, name, wire_name in fields:
        sent.answers(service, request_frame(code, ext_of(header, wire_name, text), codec, ONEWAY_FLAG))
        assert getattr(service.requests[-1].header, name) is is_true, (code, wire_name)


def test_a_boolean_that_is_left_out_costs_no_second_decoding(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of 4.x ask for the largest offset without ``committed``, which is then true."""
    service = Recorder({RequestCode.GET_MAX_OFFSET})
    monkeypatch.setattr("rmqserver.remoting.service.decode_header_untrusted", None)
    for ext in ({}, {"committed": "true"}, {"committed": "false"}):
        fields = {"topic": "T", "queueId": "1", **ext}
        sent.answers(service, request_frame(RequestCode.GET_MAX_OFFSET, fields, flag=ONEWAY_FLAG))
        assert service.requests[-1].header.is_committed is (ext.get("committed") != "false")


@pytest.mark.parametrize(("literal", "is_true"), [(b"true", True), (b"false", False), (b"1", False)])
def test_boolean_ext_fields_that_are_no_text(sent: Sent, literal: bytes, is_true: bool) -> None:
    service = Recorder({RequestCode.GET_MAX_OFFSET})
    ext = b'{"topic":"T","queueId":1,"committed": ' + literal + b"}"
    sent.answers(service, frame(b'{"code":30,"opaque":1,"flag":2,"extFields":' + ext + b"}"))
    assert service.requests[-1].header.is_committed is is_true


@pytest.mark.parametrize("codec", HeaderCodec)
@pytest.mark.parametrize(
    ("text", "is_batch", "is_unit"),
    [("true", True, True), ("1", True, False), (" true ", False, False), ("0", False, False), ("yes", False, False)],
)
def test_of_sends_the_batch_field_alone_takes_a_one(
    sent: Sent, codec: HeaderCodec, text: str, is_batch: bool, is_unit: bool
) -> None:
    """C++ clients of 1.x write it as "1"."""
    service = Recorder({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2})
    short = {"a": "P", "b": "T", "c": "D", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0"}
    long = {"producerGroup": "P", "topic": "T", "queueId": "0", "bornTimestamp": "1"}
    for code, ext in (
        (RequestCode.SEND_MESSAGE_V2, {**short, "k": text, "m": text}),
        (RequestCode.SEND_MESSAGE, {**long, "unitMode": text, "batch": text}),
    ):
        sent.answers(service, request_frame(code, ext, codec, ONEWAY_FLAG))
        header = service.requests[-1].header
        assert (header.batch, header.is_unit) == (is_batch, is_unit)


@pytest.mark.parametrize("opaque", [0, 7, -1, 2**31 - 1])
def test_bare_success_from_a_template_is_the_ordinary_answer(opaque: int) -> None:
    request: Request[Any] = Request(code=HEARTBEAT, opaque=opaque, header=NoFields())
    header = header_json.encode(ResponseCode.SUCCESS, LANGUAGE, VERSION, opaque, RESPONSE_FLAG, None, {})
    assert success(request, body=b"x") == frame(header, b"x", HeaderCodec.JSON)
