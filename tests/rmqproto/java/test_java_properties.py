from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqproto.java.java_properties import parse_untrusted, render


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
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
    ],
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
