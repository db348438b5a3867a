"""Frames and both header codecs: the vector of the protocol's own appendix, round trips, and every kind of damage."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqproto.wire.command import (
    Command,
    FrameReader,
    HeaderCodec,
    decode_frame_untrusted,
    decode_header_untrusted,
    encode_frame,
)
from rmqproto.wire.frames import FRAME_SIZE_MAX_BYTES

ROUTE_REQUEST = bytes.fromhex("000000810000007b") + (
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":513}hi'
)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


def test_a_frame_as_apache_writes_it() -> None:
    command = Command(code=105, opaque=7, ext={"topic": "T"}, body=b"hi")
    assert encode_frame(command) == ROUTE_REQUEST
    assert decode_frame_untrusted(ROUTE_REQUEST) == command


@given(
    st.builds(
        Command,
        code=st.integers(-(1 << 15), (1 << 15) - 1),
        opaque=INT32,
        flag=INT32,
        remark=st.none() | TEXT.filter(bool),
        ext=st.dictionaries(TEXT, TEXT, max_size=5),
        body=st.binary(max_size=100),
        codec=st.sampled_from(HeaderCodec),
    ),
    st.integers(1, 50),
)
def test_any_command_survives_in_any_cut(command: Command, cut: int) -> None:
    frame, reader, found = encode_frame(command), FrameReader(), []
    for at in range(0, len(frame), cut):
        found += reader.feed(frame[at : at + cut])
    assert found == [command]


@pytest.mark.parametrize(
    "command",
    [Command(code=200_000), Command(code=1, version=1 << 15), Command(code=1, ext={"n" * (1 << 15): ""})],
    ids=["code", "version", "name"],
)
def test_what_does_not_fit_a_binary_header_is_a_value_error(command: Command) -> None:
    command.codec = HeaderCodec.ROCKETMQ
    with pytest.raises(ValueError, match="does not fit a binary header"):
        encode_frame(command)


@given(st.sampled_from(HeaderCodec), st.data())
def test_a_damaged_frame_is_a_command_or_a_protocol_error(codec: HeaderCodec, data: st.DataObject) -> None:
    command = Command(code=310, opaque=9, ext={"a": "g", "b": "T", "e": "1"}, body=b"body", remark="r", codec=codec)
    frame = bytearray(encode_frame(command))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    del frame[data.draw(st.integers(0, len(frame))) :]
    with contextlib.suppress(ProtocolError):
        decode_frame_untrusted(frame)


@pytest.mark.parametrize(
    "head", [(FRAME_SIZE_MAX_BYTES - 3).to_bytes(4, "big") + bytes(4), bytes([0, 0, 0, 8, 0, 0, 0, 5]), b"\xff" * 8]
)
def test_lengths_that_cannot_be_are_refused_at_the_head(head: bytes) -> None:
    """They are refused before the server waits for the rest of the frame."""
    with pytest.raises(ProtocolError):
        FrameReader().feed(head)


@pytest.mark.parametrize("value", [b"[" * 900 + b"]" * 900, b"1" + b"0" * 4000, b"1" + b"0" * 5000, b'"\\ud800"'])
def test_odd_ext_values_are_text_or_no_header_and_nothing_worse(value: bytes) -> None:
    """Any error other than ProtocolError would end a server's loop."""
    header = b'{"code":1,"extFields":{"a":' + value + b"}}"
    with contextlib.suppress(ProtocolError):
        assert isinstance(decode_header_untrusted(0, header).ext["a"], str)


@pytest.mark.parametrize("codec", [HeaderCodec.JSON, HeaderCodec.ROCKETMQ])
@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("中文".encode("gbk"), "\ufffd\ufffd\ufffd\ufffd"),
        (b"L\xe4d", "L\ufffdd"),
        ("中".encode()[:-1] + b"x", "\ufffdx"),
    ],
)
def test_bytes_that_are_not_utf8_are_replaced_as_java_replaces_them(
    codec: HeaderCodec, given: bytes, read: str
) -> None:
    """A client that wrote its properties in GBK lost its connection; Apache's broker takes them."""
    frame = encode_frame(Command(code=310, opaque=9, ext={"i": "x" * len(given)}, remark="r", codec=codec))
    command = decode_frame_untrusted(frame.replace(b"x" * len(given), given))
    assert (command.opaque, command.ext) == (9, {"i": read})


def test_null_numbers_of_a_json_header_are_zero() -> None:
    header = decode_header_untrusted(0, b'{"code":10,"flag":null,"opaque":null,"version":null,"extFields":{"a":"b"}}')
    assert (header.code, header.flag, header.opaque, header.version, header.ext) == (10, 0, 0, 0, {"a": "b"})


@pytest.mark.parametrize("name", ["code", "opaque", "flag", "version"])
def test_numbers_of_a_header_past_32_bits_are_refused(name: str) -> None:
    with pytest.raises(ProtocolError):
        decode_header_untrusted(0, b'{"code":1,"%b":2147483648}' % name.encode())


@pytest.mark.parametrize("hello", ["160301020001000200", "150303000202460000"])
def test_tls_is_called_by_its_name(hello: str) -> None:
    """The first bytes of a client that uses TLS, and of an alert in reply to a frame."""
    with pytest.raises(ProtocolError, match="TLS is not spoken"):
        FrameReader().feed(bytes.fromhex(hello))
