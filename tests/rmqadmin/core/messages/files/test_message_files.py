"""Message files, without a broker: what is written can be read, and damage is reported."""

import io
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.cli.registry import ENTRIES
from rmqadmin.core.messages.files.exported_message import ExportedMessage, as_message, exported, problem_with
from rmqadmin.core.messages.files.formats import (
    PACK_FORMAT,
    FileFormat,
    JsonLine,
    encoded,
    format_of_content,
    format_of_name,
    read_untrusted,
)
from rmqadmin.core.messages.lookup import FoundMessage, found_message
from rmqadmin.core.messages.message_rows import StoredMessageRow
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.message import properties as props
from rmqproto.message.sys_flag import COMPRESSED, COMPRESSION_LZ4
from rmqproto.wire.frames import BODY_SIZE_MAX_BYTES
from tests.rmqclient.fake_broker import record
from tests.support.quick import in_one_test

TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


@st.composite
def messages(draw: Callable[..., Any], born_ms_max: int = 1 << 62) -> FoundMessage:
    properties = draw(st.dictionaries(TEXT, TEXT, max_size=4))
    stored = msgspec.structs.replace(
        record(draw(st.integers(0, 1 << 40)), draw(st.binary(max_size=60))),
        flag=draw(INT32), born_timestamp_ms=draw(st.integers(-born_ms_max, born_ms_max)),
        properties_raw=props.render(properties).encode(),
    )  # fmt: skip
    return found_message(stored, draw(TEXT), "addr")


def file_of(batches: list[list[FoundMessage]], format: FileFormat) -> io.BytesIO:
    return io.BytesIO(b"".join(encoded(batches, format, "msg export")))


def read(data: bytes, format: FileFormat) -> list[ExportedMessage]:
    return list(read_untrusted(io.BytesIO(data), format))


@given(st.lists(st.lists(messages(), max_size=3), max_size=4), st.sampled_from([FileFormat.JSONL, FileFormat.MSGPACK]))
def test_what_is_written_is_read(batches: list[list[FoundMessage]], format: FileFormat) -> None:
    file = file_of(batches, format)
    assert format_of_content(file, None) is (format if file.getvalue() else FileFormat.JSONL)
    assert list(read_untrusted(file, format)) == [exported(one) for batch in batches for one in batch]


@pytest.mark.slow
@given(st.lists(st.lists(messages(born_ms_max=1 << 50), max_size=3), max_size=4))
def test_what_is_written_as_parquet_is_read(batches: list[list[FoundMessage]]) -> None:
    file = file_of(batches, FileFormat.PARQUET)
    assert format_of_content(file, None) is FileFormat.PARQUET
    assert list(read_untrusted(file, FileFormat.PARQUET)) == [exported(one) for batch in batches for one in batch]


def one_message(**fields: Any) -> FoundMessage:
    return found_message(msgspec.structs.replace(record(0, b"body"), **fields), "broker-a", "addr")


def test_bodies_that_are_compressed_still_and_damaged_properties_survive() -> None:
    packed = msgspec.structs.replace(one_message(sys_flag=COMPRESSED | COMPRESSION_LZ4), packed="lz4")
    plain = one_message(sys_flag=COMPRESSED | COMPRESSION_LZ4)  # it was compressed and has been unpacked
    for format in FileFormat:
        found = list(read_untrusted(file_of([[packed, plain]], format), format))
        assert [one.body_compression for one in found] == ["lz4", None]
        assert [one.body for one in found] == [b"body", b"body"]
    damaged = one_message(properties_raw=b"a\x01\xff\x02")
    for format in (FileFormat.JSONL, FileFormat.MSGPACK):
        (one,) = read_untrusted(file_of([[damaged]], format), format)
        assert one.properties_raw == b"a\x01\xff\x02"
        assert problem_with(one, "T") == "its properties are not UTF-8, which no producer can send"
    with pytest.raises(UsageError, match="T@broker-a:0:0: its properties are not UTF-8"):
        file_of([[damaged]], FileFormat.PARQUET)
    with pytest.raises(UsageError, match="its born time"):
        file_of([[one_message(born_timestamp_ms=1 << 62)]], FileFormat.PARQUET)


# --- JSON Lines ------------------------------------------------------------------------------------------------------


def test_a_line_by_hand() -> None:
    lines = b'\n{"body": "text", "tags": "paid", "keys": ["A", "B"]}\r\n{"body_base64": "/w==", "flag": 7}\n'
    first, second = read(lines, FileFormat.JSONL)
    assert (first.body, first.properties) == (b"text", {"TAGS": "paid", "KEYS": "A B"})
    assert (second.body, second.flag, second.born_ms, second.topic) == (b"\xff", 7, None, "")


def test_lines_of_every_command_that_shows_messages_are_taken() -> None:
    """Their rows have fields of their own, which no message has."""
    for entry in ENTRIES:
        if entry.file.startswith("message."):
            entry.load()
    rows: list[type[StoredMessageRow]] = [StoredMessageRow, *StoredMessageRow.__subclasses__()]
    assert {"FoundRow", "DeadLetterRow", "MessageRow"} <= {row.__name__ for row in rows}
    for row in rows:
        assert set(row.__struct_fields__) <= set(JsonLine.__struct_fields__), row


def test_an_unknown_name_in_a_packed_message_is_told() -> None:
    packed = msgspec.msgpack.encode({"topic": "T", "boddy": b"x"})
    data = PACKED[: 5 + PACKED[4]] + b"\xce" + len(packed).to_bytes(4, "big") + packed
    with pytest.raises(ProtocolError, match="there is no field 'boddy'") as raised:
        read(data, FileFormat.MSGPACK)
    assert raised.value.hint == "Did you mean body?"


def test_tags_and_keys_of_a_line_win_over_its_properties() -> None:
    line = {"body": "x", "tags": "new", "keys": None, "properties": {"TAGS": "old", "KEYS": "K", "UNIQ_KEY": "U"}}
    (found,) = read(json.dumps(line).encode(), FileFormat.JSONL)
    assert found.properties == {"TAGS": "new", "KEYS": "K", "UNIQ_KEY": "U"}


@in_one_test(
    (b"{", "line 2 is not a message: "),
    (b"7", "line 2 is not a message: Expected `object`"),
    (b'{"body": 7}', "Expected `str | null`, got `int` - at `$.body`"),
    (b'{"body_base64": "?"}', "line 2 is not a message: "),
    (b'{"flag": 3000000000}', "at `$.flag`"),
    (b'{"body": "\xff"}', "line 2 is not a message: "),
    (b"[" * 100_000, "line 2 is not a message: "),
)
def test_a_line_that_is_no_message_is_named(line: bytes, said: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        read(b'{"body": "x"}\n' + line, FileFormat.JSONL)
    assert said in str(raised.value)


# --- MessagePack -----------------------------------------------------------------------------------------------------

PACKED = file_of([[one_message(), one_message(flag=3)], [one_message(flag=4)]], FileFormat.MSGPACK).getvalue()


@given(st.integers(0, len(PACKED) - 1))
def test_a_packed_file_that_was_cut_off_is_told(size: int) -> None:
    with pytest.raises(ProtocolError, match="at byte"):
        read(PACKED[:size], FileFormat.MSGPACK)


@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_a_damaged_byte_is_told_or_is_in_a_value(at: int, difference: int) -> None:
    damaged = bytearray(PACKED)
    damaged[at] ^= difference
    try:
        found = read(bytes(damaged), FileFormat.MSGPACK)
    except ProtocolError:
        return
    assert len(found) == 3


def test_packed_files_may_be_joined() -> None:
    assert [one.flag for one in read(PACKED * 2, FileFormat.MSGPACK)] == [0, 3, 4] * 2


def test_any_reader_of_messagepack_streams_reads_the_file() -> None:
    """The file alternates sizes and maps, then has 0 and the count."""
    data, found = PACKED, []
    while data:
        assert data[0] == 0xCE
        size = msgspec.msgpack.decode(data[:5])
        found.append(msgspec.msgpack.decode(data[5 : 5 + size]) if size else msgspec.msgpack.decode(data[5:]))
        data = data[5 + size :] if size else b""
    assert found[0] == {"format": "rmqadmin messages", "version": 1}
    assert [each["flag"] for each in found[1:4]] == [0, 3, 4]
    assert found[4:] == [3]


def test_what_is_no_such_file_or_of_another_version() -> None:
    for data in (b"", b"text that is no file", b"\xce\xff\xff\xff\xff", b"\xce\0\0\0\x01\x80"):
        with pytest.raises(ProtocolError):
            read(data, FileFormat.MSGPACK)
    head = msgspec.msgpack.encode({"format": PACK_FORMAT, "version": 2})
    with pytest.raises(ProtocolError, match="version 2, is not"):
        read(b"\xce" + len(head).to_bytes(4, "big") + head, FileFormat.MSGPACK)


# --- Parquet ---------------------------------------------------------------------------------------------------------


def parquet_of(**columns: list[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def test_a_table_made_elsewhere_needs_topic_and_body() -> None:
    (found,) = read(parquet_of(topic=["T"], body=[b"x"], corrupt=[None]), FileFormat.PARQUET)
    assert (found.topic, found.body, found.queue_id, found.properties) == ("T", b"x", None, {})
    topic, body = {"topic": ["T"]}, {"body": [b"x"]}
    odd: list[dict[str, Any]] = [
        {"body": ["text"]},
        {"topic": [1]},
        {"sysFlag": ["x"]},
        {"properties": [7]},
        {"queueId": [1 << 40]},
    ]
    for columns in (topic, body, *(topic | body | each for each in odd)):
        with pytest.raises(ProtocolError):
            read(parquet_of(**columns), FileFormat.PARQUET)
    for data in (b"", b"PAR1 and no more", parquet_of(topic=["T"], body=[b"x"])[:-20]):
        with pytest.raises(ProtocolError, match="Parquet"):
            read(data, FileFormat.PARQUET)


def test_columns_of_a_table_made_elsewhere_are_taken_or_refused() -> None:
    """Tags and keys were left out in silence where the table had no properties."""
    (found,) = read(parquet_of(topic=["T"], body=[b"x"], tags=["paid"], keys=["A B"]), FileFormat.PARQUET)
    assert found.properties == {"TAGS": "paid", "KEYS": "A B"}
    with pytest.raises(ProtocolError, match="a column 'key', which no message has") as raised:
        read(parquet_of(topic=["T"], body=[b"x"], key=["A"]), FileFormat.PARQUET)
    assert raised.value.hint == "Did you mean keys?"


# --- names, and what is sent -----------------------------------------------------------------------------------------


def test_the_format_is_what_was_said_or_what_the_name_ends_in() -> None:
    names = {"a.jsonl": "jsonl", "A.NDJSON": "jsonl", "x.msgpack": "msgpack", "b.parquet": "parquet"}
    for name, format in names.items():
        assert format_of_name(name, None) == format
    assert format_of_name("a.txt", FileFormat.MSGPACK) is FileFormat.MSGPACK
    assert format_of_name(None, None) is FileFormat.JSONL
    with pytest.raises(UsageError, match=r"a\.txt does not end in \.jsonl"):
        format_of_name("a.txt", None)


def test_marks_of_its_use_are_not_sent_and_a_dead_letter_keeps_its_origin() -> None:
    marks = {"DELAY": "3", "RETRY_TOPIC": "O", "REPLAY_ID": "j:b:T:0:1", "TIMER_DELIVER_MS": "1", "TRAN_MSG": "true"}
    found = ExportedMessage(body=b"x", flag=3, properties={"UNIQ_KEY": "U", "own": "1", **marks})
    assert as_message(found, "T").properties == {"UNIQ_KEY": "U", "own": "1"}
    assert as_message(found, "%DLQ%g").properties == {"UNIQ_KEY": "U", "own": "1", "RETRY_TOPIC": "O"}


@in_one_test(
    ({"body": b""}, "the message body is empty"),
    ({"body": bytes(BODY_SIZE_MAX_BYTES + 1)}, "more than a message may have"),
    ({"body": b"x", "properties": {"a": "\x02"}}, "holds a separator"),
    ({"body": b"x", "properties": {"a": "x" * 40_000}}, "the properties take more than"),
    ({"body": b"x", "body_compression": "rar"}, "'rar' is not a compression that RocketMQ knows"),
    ({"body": b"x"}, None),
    ({"body": bytes(BODY_SIZE_MAX_BYTES)}, None),
)
def test_what_no_broker_takes_is_known_beforehand(fields: dict[str, Any], problem: str | None) -> None:
    found = problem_with(ExportedMessage(**fields), "T")
    assert (found is None) == (problem is None)
    assert (problem or "") in (found or "")
