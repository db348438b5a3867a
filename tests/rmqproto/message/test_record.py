"""Stored messages and batch items: the appendix's vectors, round trips, and damage of every kind."""

import contextlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqproto.message.message_id import UniqueIds, offset_id, parse_offset_id_untrusted
from rmqproto.message.record import (
    RECORD_V4,
    BatchItem,
    StoredMessage,
    body_crc,
    decode_record_untrusted,
    decode_records_untrusted,
    encode_batch,
    encode_record,
    host_bytes,
    host_text,
    split_batch_untrusted,
)
from rmqproto.message.sys_flag import COMPRESSED

GOLDEN = bytes.fromhex(
    "00000068daa320a73610a686000000030000000000000000000000050000000000000064000000000000018bcfe56800"
    "0a00000100009c400000018bcfe568010a00000200002a9f0000000000000000000000000000000568656c6c6f01540007"
    "54414753014102"
)
GOLDEN_BATCH = bytes.fromhex(
    "000000290000000000000000000000000000000262310011574149540174727565025441475301410200000022000000"
    "000000000000000000000000026232000a57414954017472756502"
)

hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
i32 = st.integers(-(1 << 31), (1 << 31) - 1)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)


@st.composite
def messages(draw: st.DrawFn) -> StoredMessage:
    body = draw(st.binary(max_size=60))
    born_host, store_host = draw(hosts), draw(hosts)
    flags = draw(st.integers(0, 0xF)) | (0x10 if len(born_host) == 20 else 0) | (0x20 if len(store_host) == 20 else 0)
    topic = draw(st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=200))
    message = StoredMessage(
        0, body_crc(body), draw(i32), draw(i32), draw(i64), draw(i64), flags, draw(i64), born_host, draw(i64),
        store_host, draw(i32), draw(i64), body, topic, draw(st.binary(max_size=40)),
    )  # fmt: skip
    return decode_record_untrusted(encode_record(message))


def test_golden_record() -> None:
    message = decode_record_untrusted(GOLDEN)
    assert (message.topic, message.body, message.queue_id, message.queue_offset) == ("T", b"hello", 3, 5)
    assert (host_text(message.born_host), host_text(message.store_host)) == ("10.0.0.1:40000", "10.0.0.2:10911")
    assert message.properties == {"TAGS": "A"}
    assert message.message_id == "0A00000200002A9F0000000000000064"
    assert message.is_intact
    assert encode_record(message) == GOLDEN


def test_fixed_part_is_88_bytes() -> None:
    assert RECORD_V4.size == 88


@given(messages())
def test_encode_then_decode_is_the_identity(message: StoredMessage) -> None:
    data = encode_record(message)
    assert len(data) == message.size_bytes
    assert decode_record_untrusted(data) == message
    assert decode_records_untrusted(data + data) == [message, message]


@given(messages())
def test_every_prefix_is_refused(message: StoredMessage) -> None:
    data = encode_record(message)
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            decode_record_untrusted(data[:end])


@given(messages(), st.data())
def test_a_changed_byte_gives_a_record_or_the_one_error(message: StoredMessage, data: st.DataObject) -> None:
    damaged = bytearray(encode_record(message))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ProtocolError):
        decode_record_untrusted(damaged)


def test_a_topic_past_127_bytes_takes_the_second_version() -> None:
    message = decode_record_untrusted(GOLDEN)
    longer = StoredMessage(
        **{f: getattr(message, f) for f in message.__struct_fields__} | {"topic": "%RETRY%" + "g" * 121}
    )
    data = encode_record(longer)
    assert data[4:8].hex() == "daa320ab"
    assert decode_record_untrusted(data).topic == longer.topic


def test_golden_batch() -> None:
    items = split_batch_untrusted(GOLDEN_BATCH)
    assert [item.body for item in items] == [b"b1", b"b2"]
    assert encode_batch(items) == GOLDEN_BATCH


@given(st.lists(st.builds(BatchItem, i32, st.binary(max_size=20), st.binary(max_size=20)), max_size=5))
def test_batch_round_trip(items: list[BatchItem]) -> None:
    assert split_batch_untrusted(encode_batch(items)) == items


def test_of_a_batch_item_only_the_lengths_of_body_and_properties_are_read() -> None:
    """Clients that left the size 0 were served by Apache's broker and refused by ours."""
    items = split_batch_untrusted(GOLDEN_BATCH)
    half = len(GOLDEN_BATCH) - len(encode_batch(items[1:]))
    for size in (0, -1, 5, 1 << 30):
        odd = size.to_bytes(4, "big", signed=True) + b"\xff" * 8
        assert split_batch_untrusted(odd + GOLDEN_BATCH[12:half] + odd + GOLDEN_BATCH[half + 12 :]) == items


@pytest.mark.parametrize("place", [16, 20 + len(b"b1")], ids=["body", "properties"])
@pytest.mark.parametrize("length", [b"\xff\xff", b"\x7f\xff", b"\0\x60"])
def test_a_batch_item_with_a_length_past_the_end_is_refused(place: int, length: bytes) -> None:
    damaged = GOLDEN_BATCH[:place] + length + GOLDEN_BATCH[place + 2 :]
    with pytest.raises(ProtocolError, match="batch item at byte"):
        split_batch_untrusted(damaged)


@given(st.binary(max_size=100))
def test_a_body_that_is_no_batch_raises_nothing_but_the_one_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        split_batch_untrusted(data)


def test_compressed_bodies() -> None:
    message = decode_record_untrusted(GOLDEN)
    fields = {f: getattr(message, f) for f in message.__struct_fields__}
    packed = StoredMessage(**fields | {"body": zlib.compress(b"hello", 5), "sys_flag": COMPRESSED | 0x300})
    assert packed.plain_body() == b"hello"
    plain = StoredMessage(**fields | {"body": b"hello", "sys_flag": 0})
    for size_bytes in (1, 4, 5, 6):
        assert packed.beginning_of_body(size_bytes) == plain.beginning_of_body(size_bytes) == b"hello"[:size_bytes]
    for flags, body in ((COMPRESSED, b"no zlib"), (COMPRESSED | 0x100, b"no frame of lz4")):
        with pytest.raises(ProtocolError):
            StoredMessage(**fields | {"body": body, "sys_flag": flags}).plain_body()
        with pytest.raises(ProtocolError):
            StoredMessage(**fields | {"body": body, "sys_flag": flags}).beginning_of_body(10)


def test_offset_ids() -> None:
    assert offset_id(host_bytes("10.0.0.2", 10911), 100) == "0A00000200002A9F0000000000000064"
    assert offset_id(host_bytes("::1", 10911), 100) == "0000000000000000000000000000000100002A9F0000000000000064"
    found = parse_offset_id_untrusted("0A00000200002A9F0000000000000064")
    assert (found.host, found.port, found.log_offset) == ("10.0.0.2", 10911, 100)
    for bad in ("", "xyz", "0A" * 15, "ZZ" * 16, " " * 32, "0A " * 11 + "0A" * 11 + "0"):
        with pytest.raises(ProtocolError):
            parse_offset_id_untrusted(bad)


def test_mapped_addresses_are_stored_as_ipv4() -> None:
    assert host_bytes("::ffff:10.0.0.1", 1) == host_bytes("10.0.0.1", 1)


def test_unique_ids_differ_and_restart_with_the_month() -> None:
    now_s = [1_700_000_000.0]
    ids = UniqueIds(b"\x0a\0\0\1", lambda: now_s[0])
    made = [ids.next() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(len(one) == 32 and one.startswith("0A000001") for one in made)
    now_s[0] += 40 * 86400
    since_ms = int.from_bytes(bytes.fromhex(ids.next())[10:14], "big")
    assert since_ms < 31 * 86_400_000


def test_a_compressed_body_is_bounded_and_whole() -> None:
    """A frame of 16 MiB can hold 16 GiB of zeros, which a consumer or the tools would unpack."""
    fields = {name: getattr(decode_record_untrusted(GOLDEN), name) for name in StoredMessage.__struct_fields__}
    for body in (zlib.compress(bytes(65 << 20), 1), zlib.compress(b"x" * 100)[:-5], b"\x78\x9c"):
        with pytest.raises(ProtocolError, match=r"compressed body is (longer than|damaged)"):
            StoredMessage(**fields | {"body": body, "sys_flag": COMPRESSED}).plain_body()
