"""The vectorised parser and the plain decoder of ``rmqproto`` read the same fields from the same bytes."""

import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.record import (
    MAGIC_BLANK,
    StoredMessage,
    decode_records_untrusted,
    encode_record,
    host_bytes,
    host_text,
)
from rmqserver.core import simple
from spark_tools.arrow_records import BatchMaker, BatchOptions, plain_body_untrusted
from spark_tools.located import PlaceState, first_certified, locate_untrusted, record_starts, state_at
from spark_tools.schema import NAMES

GOLDEN = bytes.fromhex(
    "0000007b daa320a7 77d18982 00000003 00000000 0000000000000007 0000000000000400 00000000"
    "0000018bcfe56800 c0a8010a0000c350 0000018bcfe5687b 0a00000100002a9f 00000000 0000000000000000"
    "00000005 48656c6c6f 09 546f70696354657374 0012 4b455953016b310254414753015461674102"
)


def rows_of(data: bytes, **options) -> list[dict]:
    array = np.frombuffer(data, np.uint8)
    starts, end = record_starts(array)
    assert end == len(data)
    columns = options.pop("columns", [name for name in NAMES if name != "corrupt"])
    maker = BatchMaker(BatchOptions(columns=columns, broker_name="broker-a", **options))
    located = locate_untrusted(array, starts)
    maker.check(located)
    return maker.batch(located).to_pylist(maps_as_pydicts="strict")


def test_the_golden_record():
    (row,) = rows_of(GOLDEN)
    assert row["topic"] == "TopicTest"
    assert row["body"] == b"Hello"
    assert row["properties"] == {"KEYS": "k1", "TAGS": "TagA"}
    assert row["msgId"] == row["offsetMsgId"] == "0A00000100002A9F0000000000000400"
    assert row["bornHost"] == "192.168.1.10:50000"
    assert int(row["storeTimestamp"].timestamp() * 1000) == 1700000000123
    assert (row["queueId"], row["queueOffset"], row["logOffset"], row["storeSize"]) == (3, 7, 1024, 123)


def test_a_number_that_is_no_date_is_no_time():
    """A producer sends its time as any number. Python has no date for this one, and failed for all rows."""
    data = bytearray(GOLDEN)
    data[40:48] = (1 << 62).to_bytes(8, "big")
    (row,) = rows_of(bytes(data))
    assert row["bornTimestamp"] is None
    assert int(row["storeTimestamp"].timestamp() * 1000) == 1700000000123


hosts = st.sampled_from([("10.0.0.1", 10911), ("10.0.0.0", 0), ("2001:db8::1", 10911), ("::", 1)])
texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=9)


@st.composite
def messages(draw) -> StoredMessage:
    return StoredMessage(
        0, 0, draw(st.integers(0, 9)), draw(st.integers(-5, 5)), draw(st.integers(0, 2**40)),
        draw(st.integers(0, 2**40)), draw(st.sampled_from([0, 0x2, 0x4, 0x8])), draw(st.integers(0, 2**42)),
        host_bytes(*draw(hosts)), draw(st.integers(0, 2**42)), host_bytes(*draw(hosts)), draw(st.integers(0, 20)),
        draw(st.integers(0, 2**40)),
        draw(st.one_of(st.binary(max_size=30), st.just(GOLDEN), st.just(GOLDEN[4:8] * 3))),
        draw(st.one_of(st.text("abc%_-", min_size=1, max_size=20), st.just("%RETRY%" + "g" * 140))),
        draw(st.one_of(
            st.dictionaries(texts, texts, max_size=4).map(lambda each: props.render(each).encode()),
            st.sampled_from([
                b"", b"\x02", b"neither", b"a\x01b", b"a\x01\x02b\x01c\x02", b"UNIQ_KEY\x01K\x02RETRY_TOPIC\x01T\x02"]),
        )),
    )  # fmt: skip


@settings(deadline=None)
@given(st.lists(messages(), min_size=1, max_size=12))
def test_same_fields_as_the_plain_decoder(some):
    data = b"".join(map(encode_record, some))
    rows = rows_of(data)
    for row, message in zip(rows, decode_records_untrusted(data), strict=True):
        properties = message.properties
        assert row == {
            "topic": message.topic, "brokerName": "broker-a", "queueId": message.queue_id,
            "queueOffset": message.queue_offset, "logOffset": message.log_offset, "storeSize": message.size_bytes,
            "sysFlag": message.sys_flag, "flag": message.flag, "bornTimestamp": row["bornTimestamp"],
            "storeTimestamp": row["storeTimestamp"], "bornHost": host_text(message.born_host),
            "storeHost": host_text(message.store_host), "reconsumeTimes": message.reconsume_times,
            "preparedTransactionOffset": message.prepared_transaction_offset,
            "msgId": properties.get("UNIQ_KEY") or message.message_id, "offsetMsgId": message.message_id,
            "tags": properties.get("TAGS"), "keys": properties.get("KEYS"), "properties": properties,
            "body": message.body, "originTopic": properties.get("RETRY_TOPIC") or message.topic,
        }  # fmt: skip
        assert row["bornTimestamp"].timestamp() * 1000 == pytest.approx(message.born_timestamp_ms)


@settings(deadline=None)
@given(st.lists(messages(), min_size=1, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_selection_has_the_selected_rows(some, chosen):
    data = np.frombuffer(b"".join(map(encode_record, some)), np.uint8)
    located = locate_untrusted(data, record_starts(data)[0])
    mask = np.array(chosen[: len(some)])
    maker = BatchMaker(BatchOptions(columns=[name for name in NAMES if name != "corrupt"]))
    everything = maker.batch(located).to_pylist(maps_as_pydicts="strict")
    assert maker.batch(located.select(mask)).to_pylist(maps_as_pydicts="strict") == [
        row for row, keep in zip(everything, chosen, strict=False) if keep
    ]


@settings(deadline=None)
@given(st.lists(messages(), min_size=1, max_size=4), st.data())
def test_damaged_lengths_are_named_and_nothing_outside_is_read(some, data):
    raw = bytearray(b"".join(map(encode_record, some)))
    array = np.frombuffer(raw, np.uint8)
    starts, _ = record_starts(array)
    at = data.draw(st.integers(0, len(raw) - 1))
    if not any(0 <= at - start < 8 for start in starts.tolist()):  # the scanner checks size and magic
        raw[at] ^= data.draw(st.integers(1, 255))
    array = np.frombuffer(bytes(raw), np.uint8)
    maker = BatchMaker(BatchOptions(columns=list(NAMES)))
    located = locate_untrusted(array, starts)
    assert maker.batch(located).num_rows == len(starts)


def test_a_compressed_body_is_read_plain_unless_told_otherwise():
    (message,) = decode_records_untrusted(GOLDEN)
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    packed = StoredMessage(**{**fields, "body": zlib.compress(b"plain" * 99), "sys_flag": 0x301})
    data = encode_record(packed)
    assert rows_of(data)[0]["body"] == b"plain" * 99
    assert rows_of(data, decompress=False)[0]["body"] == packed.body
    broken = encode_record(StoredMessage(**{**fields, "body": b"nothing", "sys_flag": 0x1}))
    with pytest.raises(ProtocolError, match="damaged"):
        rows_of(broken)
    assert "damaged" in rows_of(broken, columns=["body", "corrupt"])[0]["corrupt"]
    for codec, sys_flag in (("lz4", 0x101), ("zstd", 0x201)):
        packed_body = pa.compress(b"plain" * 99, codec=codec, asbytes=True)
        assert plain_body_untrusted(packed_body, sys_flag) == b"plain" * 99
        with pytest.raises(ProtocolError, match="damaged"):
            plain_body_untrusted(b"nothing of the kind", sys_flag)


@pytest.mark.parametrize(("codec", "sys_flag"), [("zlib", 0x301), ("lz4", 0x101), ("zstd", 0x201)])
def test_a_compressed_body_that_is_cut_off_is_no_shorter_body(codec, sys_flag):
    """zlib alone returns the bytes that it has and reports no error."""
    plain = bytes(range(256)) * 40
    packed = zlib.compress(plain) if codec == "zlib" else pa.compress(plain, codec=codec, asbytes=True)
    assert plain_body_untrusted(packed, sys_flag) == plain
    for size in (len(packed) - 1, len(packed) // 2):
        with pytest.raises(ProtocolError, match="damaged"):
            plain_body_untrusted(packed[:size], sys_flag)


def test_a_wrong_crc_is_found_only_when_asked_for():
    data = bytearray(GOLDEN)
    data[88] ^= 1
    assert rows_of(bytes(data))[0]["body"] != b"Hello"
    assert "CRC" in rows_of(bytes(data), columns=["topic", "corrupt"], verify_crc=True)[0]["corrupt"]


def test_a_record_inside_a_body_is_not_taken_for_one():
    """A body with a copied commit log has whole records, with magic and sizes; only their log offsets are wrong."""
    (message,) = decode_records_untrusted(GOLDEN)
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    outer = encode_record(StoredMessage(**{**fields, "body": GOLDEN * 3, "log_offset": 4096}))
    after = encode_record(StoredMessage(**{**fields, "log_offset": 4096 + len(outer)}))
    array = np.frombuffer(outer + after, np.uint8)
    assert record_starts(array)[0].tolist() == [0, len(outer)]
    for at in range(1, len(outer)):
        assert first_certified(array, 4096, at) == len(outer)


@given(
    st.lists(st.integers(0, 90), max_size=6), st.tuples(st.integers(0, 7), st.binary(max_size=4)), st.integers(-1, 900)
)
def test_records_are_found_alike_with_the_native_core_and_without(
    body_sizes: list[int], damage: tuple[int, bytes], stop: int
):
    """Each has the size and the magic of V1 or V2 in turn. The damage is in these of the second record."""
    native = pytest.importorskip("rmqserver.core._core")
    data = bytearray()
    for number, size in enumerate(body_sizes):
        data += struct.pack(">iI", 91 + size, 0xDAA320AB if number % 2 else 0xDAA320A7) + bytes(83 + size)
    at, wrong = damage
    second = 91 + body_sizes[0] + at if body_sizes else 0
    data[second : second + len(wrong)] = wrong
    found = native.record_starts(bytes(data), stop)
    assert found == simple.record_starts(bytes(data), stop)
    if not wrong:
        places = [91 * number + sum(body_sizes[:number]) for number in range(len(body_sizes))]
        assert memoryview(found[0]).cast("q").tolist() == [place for place in places if place < stop]


def test_every_cut_of_a_record_is_incomplete_and_not_damaged():
    array = np.frombuffer(GOLDEN + GOLDEN, np.uint8)
    for cut in range(len(GOLDEN), 2 * len(GOLDEN)):
        starts, end = record_starts(array[:cut])
        assert (starts.tolist(), end) == ([0], len(GOLDEN))
        assert state_at(array[:cut], end)[0] is PlaceState.INCOMPLETE
    blank = np.frombuffer(struct.pack(">iI", 100, MAGIC_BLANK & 0xFFFFFFFF), np.uint8)
    assert state_at(blank, 0)[0] is PlaceState.FILE_END
    assert state_at(np.zeros(20, np.uint8), 0)[0] is PlaceState.DAMAGED
    assert state_at(np.frombuffer(b"garbage!" * 3, np.uint8), 0)[0] is PlaceState.DAMAGED
