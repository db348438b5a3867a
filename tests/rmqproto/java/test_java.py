"""What Java does: property files, hashes, and numbers that users write."""

import contextlib
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqproto.java.java_hash import java_hash, jump_hash
from rmqproto.java.java_numbers import decimal_number, signed_number, whole_number
from rmqproto.java.java_properties import parse_untrusted, render
from tests.support.quick import in_one_test


@in_one_test(
    ("", {}),
    ("# a comment\n! another\n\n \t\n", {}),
    ("a=1\nb:2\nc 3\nd\t=\t4\r\ne\r", {"a": "1", "b": "2", "c": "3", "d": "4", "e": ""}),
    ("a = 1 = 2 ", {"a": "1 = 2 "}),
    ("a=1\na=2", {"a": "2"}),
    ("a=1,\\\n   2,\\\n#3", {"a": "1,2,#3"}),
    ("path=C:\\\\temp\nnext=x", {"path": "C:\\temp", "next": "x"}),
    ("a\\ b\\=c=\\u4e2d\\n\\q", {"a b=c": "中\nq"}),
    ("a=1\\", {"a": "1"}),
    ("=value", {"": "value"}),
)
def test_reads_as_java_reads(text: str, pairs: dict[str, str]) -> None:
    assert parse_untrusted(text) == pairs
    assert parse_untrusted(text.encode()) == pairs


@pytest.mark.parametrize(
    ("text", "problem"), [(b"a\xff=1", "UTF-8 at byte 1$"), ("a=\\u12", "hex digits"), ("a=\\uzzzz", "hex digits")]
)
def test_what_java_refuses_is_a_protocol_error(text: str | bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        parse_untrusted(text)


@given(st.text() | st.binary())
def test_any_text_is_pairs_or_a_protocol_error(text: str | bytes) -> None:
    with contextlib.suppress(ProtocolError):
        parse_untrusted(text)


@given(
    st.dictionaries(
        st.from_regex(r"[a-zA-Z]{1,20}", fullmatch=True), st.from_regex(r"[a-zA-Z0-9./;]{0,20}", fullmatch=True)
    )
)
def test_what_is_rendered_is_read_back(pairs: dict[str, str]) -> None:
    assert parse_untrusted(render(pairs)) == pairs


def test_a_character_past_16_bits_is_put_together_from_its_halves() -> None:
    """Two lone surrogates cannot be encoded, and would fail much later."""
    assert parse_untrusted("k=\\ud83d\\ude00") == {"k": "\U0001f600"}
    assert parse_untrusted("k=\\ud83d") == {"k": "\ufffd"}


PLACES = (1, 2, 4, 8, 16, 100, 1000)


@in_one_test(
    ("session-1", (0, 0, 3, 3, 10, 98, 98)),
    ("session-2", (0, 0, 2, 4, 9, 92, 501)),
    ("a", (0, 0, 0, 0, 0, 29, 346)),
    ("order_7", (0, 1, 2, 6, 6, 57, 431)),
    ("Zz-9", (0, 1, 3, 7, 7, 66, 675)),
    ("x", (0, 1, 1, 4, 12, 36, 36)),
    ("device-000001", (0, 0, 0, 5, 5, 37, 611)),
)
def test_places_are_those_of_guava(text: str, expected: tuple[int, ...]) -> None:
    assert tuple(jump_hash(java_hash(text), count) for count in PLACES) == expected


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 1000))
def test_one_more_place_moves_a_key_there_or_nowhere(key: int, count: int) -> None:
    assert 0 <= jump_hash(key, count) < count
    assert jump_hash(key, count + 1) in (jump_hash(key, count), count)


PYTHONS_OWN = ["5_000", "\u0665", "nan", "inf", "-Infinity", "0x10", "1e999", "", " ", "+", ".", "1 0", "\uff11"]


@pytest.mark.parametrize("text", PYTHONS_OWN)
def test_what_only_python_takes_is_no_number(text: str) -> None:
    assert (decimal_number(text), signed_number(text), whole_number(text)) == (None, None, None)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_decimal_number_is_read(number: float) -> None:
    assert decimal_number(f" {number!r} ") == number


@given(st.integers(-(10**18), 10**18))
@example(-(10**17))
@example(-(2**63))
def test_a_whole_number_is_read(number: int) -> None:
    assert signed_number(f" {number} ") == number
    assert decimal_number(str(number)) == float(number)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    found = decimal_number(text)
    assert found is None or math.isfinite(found)
