"""The native core with arbitrary bytes: what it takes is compared with the Python way, and the rest is left to that."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace
from typing import Any

from rmqproto.codes import TopicMessageType
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import from_ext
from rmqproto.headers.sending import SendHeader, SendHeaderV2
from rmqproto.message import properties as props
from rmqproto.message.record import decode_records_untrusted, host_bytes
from rmqproto.wire import header_json
from rmqproto.wire.command import HeaderCodec, decode_header_untrusted
from rmqproto.wire.frames import frame
from rmqserver.auth.signed_fields import SignedFields
from rmqserver.broker.sending.properties import USUAL
from rmqserver.core import (
    FrameCutter,
    HeaderDecoder,
    PlainPulls,
    PlainSends,
    RoundBuffer,
    cut_ack,
    cut_send,
    cut_signed,
    header_blocks,
    pack_received,
    plain_records,
    simple,
    take_wanted,
)
from rmqserver.doors.grpc.call_checks import ms_of
from rmqserver.doors.grpc.messages import CLASSES
from rmqserver.doors.grpc.plain_calls import RESERVED
from rmqserver.doors.grpc.stored import MD5, PLAIN_ROLES, checked_message, put_message
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.disk.segments import FileCache, SegmentedFile
from rmqserver.store.fate import INDEXED, QUEUED
from rmqserver.store.log.scan import records_untrusted
from rmqserver.store.queues.consume_queue import UNIT, ConsumeQueue
from rmqserver.store.queues.consume_queues import Topic
from rmqserver.store.running_flags import RunningFlags

LOG_OFFSET = 1 << 33
_FATES = bytes([QUEUED | INDEXED]) * 256
_MARKS = (b"DELAY\x01",)
_NAMES = ("AccessKey", "Signature", "a", "b")
_KEYS = tuple(map(str.encode, _NAMES))


def core_records(data: bytes) -> None:
    """A copied log: what is taken of it are the records that recovery finds there."""
    end, last, store_ms, runs, _ = plain_records(data, LOG_OFFSET, _FATES, QUEUED, INDEXED, _MARKS, b"odd")
    found = records_untrusted(data[: end - LOG_OFFSET], LOG_OFFSET, check_crc=True)
    assert sorted((each.log_offset, each.size_bytes) for each in found) == sorted(
        unit[:2] for *_, units in runs for unit in UNIT.iter_unpack(units)
    )
    if found:
        assert (found[-1].log_offset, found[-1].store_timestamp_ms) == (last, store_ms)
        assert found[-1].log_offset + found[-1].size_bytes == end


def core_wanted(data: bytes) -> None:
    """Some units, and then the records to which they lead or do not lead."""
    count = data[0] % 4 if data else 0
    units, records = data[1 : 1 + 20 * count], data[1 + 20 * count :]
    if len(units) < 20 * count:
        return
    values = ((b"a\x01", b"TAGS\x01"), lambda first, second: first is not None)
    for by_values in (None, values):
        in_c: list[bytes] = []
        in_python: list[bytes] = []
        seen = take_wanted(records, units, 0, _has_a, by_values, in_c, 3)
        assert simple.take_wanted(records, units, 0, _has_a, None, in_python, 3) == seen
        assert by_values is not None or in_c == in_python


def _has_a(properties: bytes) -> bool:
    return b"a\x01" in properties


def core_signed(data: bytes) -> None:
    """A header of JSON: what is cut out of it is what decoding it gives."""
    cut = cut_signed(_KEYS, bytes((0, 2, 3, 1)), (b"me", None, b"1", None), 0, data, b"body")
    try:
        is_object = isinstance(json.loads(data)["extFields"], dict)
    except (ValueError, KeyError, TypeError, RecursionError):
        is_object = False  # it is only asked about headers that were decoded
    if cut is not None and is_object:
        access_key, content, signature = SignedFields(_NAMES).read(data)
        assert access_key == "me"
        assert cut[:2] == (content + b"body", signature)


def core_frames(data: bytes) -> None:
    """The same frames, refusals and held bytes as in Python. The bytes themselves decide where to cut."""
    found: list[list[Any]] = []
    for make in (FrameCutter, simple.FrameCutter):
        seen: list[Any] = []

        def on_frame(owner: None, codec: int, peeked: int, header: bytes, body: bytes, seen: list[Any] = seen) -> None:
            is_peeked = len(header) + len(body) >= 12  # of a shorter frame, the number has no meaning
            seen.append((codec, peeked if is_peeked else None, header, body))

        cutter, at = make(on_frame, None, []), 0
        while at < len(data):
            size = 1 + data[at] % 32
            try:
                cutter.feed_untrusted(data[at : at + size])
            except ProtocolError as error:
                seen.append(str(error))
                break
            seen.append(cutter.held_bytes)
            at += size
        found.append(seen)
    assert found[0] == found[1]


def core_headers(data: bytes) -> None:
    """The same headers, calls and refusals as in Python. The bytes themselves decide where to cut."""
    found: list[list[Any]] = []
    for make in (HeaderDecoder, header_blocks.HeaderDecoder):
        decoder, at = make(), 0
        seen: list[Any] = []
        found.append(seen)
        while at < len(data):
            size = 1 + data[at]
            try:
                seen.append(decoder.take_call_untrusted(data, at, data[at] & 7))
                seen.append(decoder.decode_untrusted(data[at + 1 : at + size]))
            except ProtocolError as error:
                seen.append(str(error))
                break
            at += size
    assert found[0] == found[1]


def core_calls(data: bytes) -> None:
    """A message of gRPC that is cut out as a plain one is, by protobuf, the same, and breaks no rule."""
    call, address = struct.pack(">BI", 0, len(data)) + data, "10.0.0.1:5"
    acked = cut_ack(call)
    if acked is not None:
        request = CLASSES["AckMessageRequest"].FromString(data)
        (entry,) = request.entries
        assert not entry.HasField("lite_topic")
        group, topic, message_id, receipt, before, offset = acked
        assert (group, topic) == (request.group.name, request.topic.name)
        assert (message_id, receipt) == (entry.message_id.encode(), entry.receipt_handle.encode())
        start, _, last = entry.receipt_handle.rpartition(" ")
        assert (start.rpartition(" ")[0], int(start.rpartition(" ")[2]), last.count(" ")) == (before, offset, 0)
    sent = cut_send(call, RESERVED, address)
    if sent is None:
        return
    topic, sys_flag, born_ms, body, stored, keys = sent
    (message,) = CLASSES["SendMessageRequest"].FromString(data).messages
    asked = checked_message(message, 0, address)
    assert asked.kind is TopicMessageType.NORMAL
    assert (topic, body) == (message.topic.name, message.body)
    assert sorted(stored.split(b"\2")) == sorted(props.joined(asked.properties).split(b"\2"))
    assert (sys_flag, born_ms) == (asked.sys_flag, ms_of(message.system_properties.born_timestamp))
    usual = USUAL.fullmatch(stored)
    assert usual is not None
    assert usual.groups(b"") == keys


def core_received(data: bytes) -> None:
    """Records that are packed as answers of gRPC: by protobuf, the same. With a filter, only if all have its tags."""
    handles, tags = [b"handle"] * (data[0] if data else 0), frozenset({"A", "1", "kk"})
    packed, filtered = (
        pack_received(data[1:], b"topic", handles, PLAIN_ROLES, wanted, 3, MD5) for wanted in (None, tags)
    )
    if packed is None:
        assert filtered is None
        return
    at, records = 0, decode_records_untrusted(data[1:])
    assert filtered == (packed if all(each.properties.get(props.TAGS) in tags for each in records) else None)
    for record in records:
        answer, size = CLASSES["ReceiveMessageResponse"](), int.from_bytes(packed[at + 1 : at + 5], "big")
        put_message(answer.message, record, record.properties, "topic", f"handle {record.log_offset}")
        assert record.reconsume_times < 3
        assert CLASSES["ReceiveMessageResponse"].FromString(packed[at + 5 : at + 5 + size]) == answer
        assert (packed[at], size) == (0, answer.ByteSize())
        at += 5 + size
    assert at == len(packed)


_HOST = host_bytes("127.0.0.1", 1)
_NAMES_V1, _NAMES_V2 = (
    tuple(name.encode() for name in kind.__struct_encode_fields__) for kind in (SendHeader, SendHeaderV2)
)


def core_sends(data: bytes) -> None:
    """The header of a send, in JSON up to a zero byte, and its body. What is taken is in the log as a decoder reads
    it."""
    codec = HeaderCodec.JSON if data[:1] == b"{" else HeaderCodec.ROCKETMQ
    header, _, body = data.partition(b"\0" if codec == HeaderCodec.JSON else b"\0BODY")
    topic, disk = Topic("T"), OsDisk()
    topic.queues[0] = ConsumeQueue("T", 0, SegmentedFile("unused", 1000, disk, FileCache(disk, 1)))
    round_buffer = RoundBuffer(lambda: 1, RunningFlags())
    round_buffer.records_end_offset = round_buffer.body_size_max_bytes = 1 << 20
    round_buffer.indexed_bits = INDEXED
    target = SimpleNamespace(is_plain=True, queue_limit=1, sys_flag=0, flow=SimpleNamespace(add=lambda *counts: None))
    address = SimpleNamespace(advertised_host=_HOST)
    sends = PlainSends(
        round_buffer, {"T": topic}, {"T": target}, address, lambda: "0" * 32, _NAMES_V1, _NAMES_V2, (b"DELAY",),
        b"PRODUCER_SEQ\x01", 1 << 30,
    )  # fmt: skip
    sends.configure(b"CLUSTER\x01c\x02", 2 * (b"{", b",", b",", b",", b",", b"}"), False)
    left: list[Any] = []
    owner = SimpleNamespace(born_host=_HOST, local_host=_HOST)
    cutter = FrameCutter(lambda owner, *cut: left.append(cut), owner, [sends])
    cutter.feed_untrusted(frame(header, body, codec))
    records = decode_records_untrusted(round_buffer.take())
    assert bool(records) != bool(left)
    if records:
        fields = decode_header_untrusted(codec, header)
        meant = from_ext(fields.ext, SendHeader if fields.code == 10 else SendHeaderV2)
        assert (meant.topic, meant.queue_id) == ("T", 0)
        assert all(each.is_intact and each.born_timestamp_ms == meant.born_timestamp for each in records)
        assert meant.batch or records[0].body == body
        puts = sends.take_written()
        assert (puts is None) == bool(fields.flag)
        if puts is not None:
            assert sends.answers(puts)


def core_pulls(data: bytes) -> None:
    """The header of a pull, of which a plan is left, and by which it is looked for."""
    pulls = PlainPulls(SimpleNamespace(segments=None), 0, 1 << 40)
    plan = SimpleNamespace(is_deleted=True, min_offset=0, max_offset=0), print, (b"",) * 5, 1, 1, 1, 1, None
    try:
        fields = header_json.decode_untrusted(data)
        opaque, queue_offset = fields.opaque, int(fields.ext.get("queueOffset", "0"))
    except (ProtocolError, ValueError):
        opaque, queue_offset = 1, 0
    pulls.keep(data, opaque, queue_offset, 0, plan)
    left: list[object] = []
    FrameCutter(lambda *found: left.append(found), None, [pulls]).feed_untrusted(frame(data))
    assert left
