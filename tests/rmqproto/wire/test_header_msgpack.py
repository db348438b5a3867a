"""MessagePack headers hold the same as JSON headers. Their first bytes identify them, and other bytes are refused."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.codes import RequestCode
from rmqproto.errors import ProtocolError
from rmqproto.wire import header_json, header_msgpack

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
HEADERS = st.tuples(INT32, TEXT, INT32, INT32, INT32, st.none() | TEXT, st.dictionaries(TEXT, TEXT, max_size=6))


@given(HEADERS)
def test_says_what_json_says(fields: tuple[int, str, int, int, int, str | None, dict[str, str]]) -> None:
    said = header_msgpack.decode_untrusted(header_msgpack.encode(*fields))
    assert said == header_json.decode_untrusted(header_json.encode(*fields))


@given(HEADERS)
def test_an_offer_is_json_with_the_code_behind(
    fields: tuple[int, str, int, int, int, str | None, dict[str, str]],
) -> None:
    """If the code came first, our server's fast decoders would take the header and miss the offer."""
    offer = header_msgpack.offer(*fields)
    assert header_json.decode_untrusted(offer) == header_json.decode_untrusted(header_json.encode(*fields))
    assert offer.startswith(b'{"extFields":')


@pytest.mark.parametrize("code", RequestCode)
def test_a_code_is_told_by_three_bytes_or_five(code: RequestCode) -> None:
    header = header_msgpack.encode(code, "PYTHON", 513, 1, 0, None, {})
    end = header_msgpack.CODE_END if code <= 0xFFFF else header_msgpack.LONG_CODE_END
    assert header[header_msgpack.CODE_AT : end] == header_msgpack.peeked(code)
    assert [other for other in RequestCode if header_msgpack.peeked(other) == header_msgpack.peeked(code)] == [code]


@given(st.binary(max_size=200) | st.recursive(INT32 | TEXT, st.lists).map(msgspec.msgpack.encode))
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        header_msgpack.decode_untrusted(data)


@given(HEADERS, st.data())
def test_a_damaged_header_is_read_or_refused(
    fields: tuple[int, str, int, int, int, str | None, dict[str, str]], data: st.DataObject
) -> None:
    header = bytearray(header_msgpack.encode(*fields))
    header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        header_msgpack.decode_untrusted(bytes(header[: data.draw(st.integers(0, len(header)))]))


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(ProtocolError):
        header_msgpack.decode_untrusted(b"\x91" * 100_000)
