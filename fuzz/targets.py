"""The targets, and what must hold for any bytes: only ProtocolError is raised, and a decoded value survives encoding
and decoding. This module needs no fuzzer, because the tests also run each target over its seeds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import msgspec

from fuzz.core_targets import (
    core_calls,
    core_frames,
    core_headers,
    core_pulls,
    core_received,
    core_records,
    core_sends,
    core_signed,
    core_wanted,
)
from fuzz.gate_target import gate
from rmqadmin.core.messages.files.exported_message import ExportedMessage
from rmqadmin.core.messages.files.formats import decode_line_untrusted, read_packed_untrusted
from rmqproto import attributes
from rmqproto.bodies.groups import Heartbeat, LockRequest, SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfigList, TopicRoute
from rmqproto.bodies.statistics import ConsumerRunningInfo, ConsumerStatus
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.filters import subscription
from rmqproto.filters.sql92 import compile_sql92
from rmqproto.headers.base import from_ext, to_ext
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.java import java_properties
from rmqproto.java.java_hash import tag_code
from rmqproto.message import properties
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.record import (
    decode_record_untrusted,
    decode_records_untrusted,
    encode_batch,
    encode_record,
    split_batch_untrusted,
)
from rmqproto.message.special_messages import parse_recall_untrusted
from rmqproto.trace import parse_trace_untrusted
from rmqproto.wire import fastjson, header_binary, header_json
from rmqproto.wire.command import FrameReader, HeaderCodec, decode_frame_untrusted, encode_frame
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.doors.grpc.http2 import STREAMS_MAX, Http2
from rmqserver.namesrv import register_body
from rmqserver.store.timers.timer_check import DeliveryNote

SEEDS = Path(__file__).with_name("seeds")

BODIES = (
    Heartbeat, LockRequest, TopicConfigList, SubscriptionGroupConfig, TopicRoute, ConsumerStatus, ConsumerRunningInfo,
)  # fmt: skip

_CONFIGS = BrokerConfig(), NamesrvConfig()


def frame(data: bytes) -> None:
    commands = FrameReader().feed(data)
    in_pieces, at = FrameReader(), 0
    found = []
    while at < len(data):  # the bytes themselves decide where to cut
        size = 1 + data[at] % 16
        found += in_pieces.feed(data[at : at + size])
        at += size
    assert found == commands, "the cut makes no difference"
    for command in commands:
        if command.codec is HeaderCodec.ROCKETMQ and not command.language:
            continue
        again = decode_frame_untrusted(encode_frame(command))
        assert (again.code, again.opaque, again.flag, again.body) == (
            command.code, command.opaque, command.flag, command.body,
        )  # fmt: skip


def json_header(data: bytes) -> None:
    fields = header_json.decode_untrusted(data)
    encoded = header_json.encode(
        fields.code, fields.language, fields.version, fields.opaque, fields.flag, fields.remark, fields.ext
    )
    assert header_json.decode_untrusted(encoded) == fields
    header_type = REQUEST_HEADERS.get(fields.code)
    if header_type is not None:
        header = from_ext(fields.ext, header_type)
        assert from_ext(to_ext(header), header_type) == header


def binary_header(data: bytes) -> None:
    fields = header_binary.decode_untrusted(data)
    encoded = header_binary.encode(
        fields.code, fields.language, fields.version, fields.opaque, fields.flag, fields.remark, fields.ext
    )
    assert header_binary.decode_untrusted(encoded) == fields


def record(data: bytes) -> None:
    message = decode_record_untrusted(data)
    with contextlib.suppress(ProtocolError):
        message.plain_body()
    with contextlib.suppress(ProtocolError):
        assert isinstance(message.properties, dict)
    again = encode_record(message)
    if message.is_intact and len(again) == message.size_bytes:
        assert decode_record_untrusted(again) == message
    decode_records_untrusted(data)


def batch(data: bytes) -> None:
    items = split_batch_untrusted(data)
    assert split_batch_untrusted(encode_batch(items)) == items


def message_properties(data: bytes) -> None:
    found = properties.parse_untrusted(data)
    if not any("\x01" in value for value in found.values()):
        assert properties.parse(properties.render(found)) == found
    for name, value in found.items():
        assert name
        assert value


def json_body(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        value = fastjson.parse_untrusted(data)
        if not _has_floats_or_pairs(value):
            assert fastjson.parse_untrusted(fastjson.dumps(value)) == _without_nulls(value)
    for body in BODIES:
        with contextlib.suppress(ProtocolError):
            decoded = fastjson.loads_untrusted(data, body)
            assert fastjson.loads_untrusted(fastjson.dumps(decoded), body) == decoded


def _has_floats_or_pairs(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_floats_or_pairs, value.values()))
    if isinstance(value, list):
        return isinstance(value, fastjson.Pairs) or any(map(_has_floats_or_pairs, value))
    return isinstance(value, float)


def _without_nulls(value: object) -> object:
    """The value without null members, which dumps leaves out as fastjson does."""
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def expression(data: bytes) -> None:
    """Subscription expressions, attribute changes and message ids: all text from ext fields."""
    text = data.decode("utf-8", "replace")
    wanted = subscription.parse_tags(text)
    for tag in wanted.tags or ():
        assert wanted.matches(tag)
        assert tag_code(tag) in wanted.codes
    assert subscription.subscription_data("T", text, version=1).topic == "T"
    with contextlib.suppress(ProtocolError):
        attributes.alter(attributes.TOPIC_ATTRIBUTES, None, attributes.parse_untrusted(text))
    parse_offset_id_untrusted(text)


def sql92(data: bytes) -> None:
    matches = compile_sql92(data.decode("utf-8", "replace"))
    for found in ({}, {"a": "5", "b": "x"}, {"a": "x", "b": "TRUE", "c": "1e3"}):
        assert matches(found) in (True, False)


def config(data: bytes) -> None:
    pairs = java_properties.parse_untrusted(data)
    for settings in _CONFIGS:
        with contextlib.suppress(UsageError, ProtocolError):
            settings.load(pairs)
        with contextlib.suppress(UsageError):
            settings.update(pairs)


def registration(data: bytes) -> None:
    for version in (0, 513):
        with contextlib.suppress(ProtocolError):
            register_body.decode_untrusted(data, compressed=False, version=version)
        register_body.decode_untrusted(data, compressed=True, version=version)


def trace(data: bytes) -> None:
    found = parse_trace_untrusted(data)
    assert all(one.message_id for one in found)
    assert parse_trace_untrusted(data + b"\x02" + data) == found * 2, "a record ends where the next begins"


def recall_handle(data: bytes) -> None:
    handle = parse_recall_untrusted(data.decode("latin-1"))
    assert parse_recall_untrusted(handle.render()) == handle


def delivery_note(data: bytes) -> None:
    note = DeliveryNote.unpack_untrusted(data)
    if note is not None:
        note.settled(0)
        note.settled(1 << 62)


def packed_messages(data: bytes) -> None:
    for message in read_packed_untrusted(BytesIO(data)):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=ExportedMessage) == message


def message_line(data: bytes) -> None:
    found = decode_line_untrusted(data)
    assert isinstance(found.body, bytes)
    assert all(found.properties.values())


def http2(data: bytes) -> None:
    """Each request is answered at its end, as far as the peer's windows allow."""
    connection, at = Http2(), 0
    while at < len(data):
        size = 1 + data[at] % 64
        assert not connection.has_more, "these are too few bytes for so many frames"
        for event in connection.received(data[at : at + size]):
            if event.is_last:
                connection.put(event.stream, b"\x88", bytes(100), b"\x88")
        at += size
    connection.to_send()
    assert 0 <= connection.queued_bytes <= 100 * STREAMS_MAX


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        frame, json_header, binary_header, record, batch, message_properties, json_body, expression,
        sql92, config, registration, trace, recall_handle, delivery_note, packed_messages, message_line, gate,
        http2, core_calls, core_frames, core_headers, core_pulls, core_received, core_records, core_sends, core_signed,
        core_wanted,
    )
}  # fmt: skip


def run_one(target: Callable[[bytes], None], data: bytes) -> None:
    """Runs a target. ProtocolError is the only permitted refusal; any other exception is a find."""
    with contextlib.suppress(ProtocolError):
        target(data)


def seeds(name: str) -> list[bytes]:
    """The seeds of a target. Each line of ``seeds/NAME.txt`` is one, in hex; ``#`` begins a remark."""
    lines = (SEEDS / f"{name}.txt").read_text().splitlines()
    return [bytes.fromhex(text) for line in lines if (text := line.partition("#")[0].strip()) or line == "''"]
