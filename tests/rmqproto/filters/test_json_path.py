import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import UsageError
from rmqproto.filters.json_path import document_of, has_texts, parse_path, parse_values, split_path_text, text_at
from tests.support.quick import in_one_test

BODY = (
    b'{"type":"refund","order":{"lines":[{"sku":"a"},{"unit price":1.50,"n":10000000000000000000001}]},'
    b'"paid":true,"x":null}'
)


@in_one_test(
    ("$.type", "refund"),
    ("$['type']", "refund"),
    ("$.order.lines[0].sku", "a"),
    ("$.order.lines[1]['unit price']", "1.50"),  # as the body spells it
    ("$.order.lines[1].n", "10000000000000000000001"),
    ("$.paid", "true"),
    ("$.x", None),
    ("$.order", None),
    ("$.order.lines[7].sku", None),
    ("$.type.sku", None),
    ("$.lines[0]", None),
)
def test_what_stands_at_a_path(path: str, text: str | None) -> None:
    assert text_at(document_of(BODY), parse_path(path)) == text


def test_all_texts_must_stand_there() -> None:
    for values, holds in (
        ({}, True),
        ({"$.type": "refund", "$.paid": "true"}, True),
        ({"$.type": "refund", "$.paid": "false"}, False),
    ):
        assert has_texts(parse_values(values), BODY) == holds


@in_one_test(b"", b"plain", b"\xff\xfe", b"[" * 100_000, b"7", b'"text"')
def test_what_is_no_object_holds_nothing(body: bytes) -> None:
    assert text_at(document_of(body), parse_path("$.a")) is None


@in_one_test("", "$", "type", "$type", "$.", "$..a", "$.a[", "$.a[-1]", "$.a[*]", "$.*", "$['']")
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="not a JSON path"):
        parse_path(path)


@given(st.dictionaries(st.text("abc d", min_size=1, max_size=3), st.text() | st.integers() | st.booleans()))
def test_every_member_is_found_by_its_name(document: dict[str, str | int | bool]) -> None:
    body = json.dumps(document).encode()
    for name, value in document.items():
        text = value if isinstance(value, str) else json.dumps(value)
        assert text_at(document_of(body), parse_path(f"$['{name}']")) == text


@in_one_test(
    ("$.a=b", ("$.a", "b")),
    ("$.a=b=c", ("$.a", "b=c")),
    ("$['a=b'].c=d", ("$['a=b'].c", "d")),
    ("$.a=['x=y']", ("$.a", "['x=y']")),
    ("$.a=", ("$.a", "")),
    ("$.a=two\nlines", ("$.a", "two\nlines")),
    ("$['a=b", ("$['a", "b")),
    ("$.a", None),
    ("=b", None),
)
def test_a_condition_is_cut_behind_its_path(condition: str, parts: tuple[str, str] | None) -> None:
    assert split_path_text(condition) == parts
