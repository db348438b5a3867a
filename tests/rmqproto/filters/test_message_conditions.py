"""Conditions on stored messages: each alone, all together, and invalid ones."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError, UsageError
from rmqproto.filters.message_conditions import (
    MessageConditions,
    compile_conditions,
    document_of,
    has_texts,
    parse_path,
    parse_values,
    split_path_text,
    text_at,
)
from rmqproto.filters.sql92 import Sql92Error
from rmqproto.message import properties as props
from rmqproto.message.sys_flag import COMPRESSED
from tests.rmqclient.fake_broker import record
from tests.support.quick import in_one_test

PROPERTIES = {"TAGS": "paid", "KEYS": "K1 K2", "UNIQ_KEY": "U1", "price": "7", "empty": ""}
STORED = msgspec.structs.replace(
    record(3, '{"order":{"id":42},"who":"Zoë"}'.encode()),
    store_timestamp_ms=1000, reconsume_times=2, properties_raw=props.render(PROPERTIES).encode(),
)  # fmt: skip


def takes(message: Any = STORED, **conditions: Any) -> bool:
    return compile_conditions(MessageConditions(**conditions))(message, message.properties)


@in_one_test(
    ({}, True),
    ({"tags": "new || paid"}, True),
    ({"tags": "new"}, False),
    ({"keys": ["K2", "K1"]}, True),
    ({"keys": ["K1", "K3"]}, False),
    ({"properties": {"price": "7"}}, True),
    ({"properties": {"price": "7", "other": "x"}}, False),
    ({"ids": ["U2", "U1"]}, True),
    ({"ids": [STORED.message_id]}, True),
    ({"ids": ["U2"]}, False),
    ({"sql92": "price > 6"}, True),
    ({"sql92": "price > 7"}, False),
    ({"start_time_ms": 1000, "end_time_ms": 1001}, True),
    ({"start_time_ms": 1001}, False),
    ({"end_time_ms": 1000}, False),
    ({"reconsume_times_min": 2}, True),
    ({"reconsume_times_min": 3}, False),
    ({"json_values": {"$.order.id": "42"}}, True),
    ({"json_values": {"$.order.id": "43"}}, False),
    ({"body_pattern": r'"who":"Zo.\W'}, True),  # matches a character, not a byte
    ({"body_pattern": "^who"}, False),
    ({"body_pattern": "who", "json_values": {"$.order.id": "43"}}, False),
    ({"body_pattern": "who", "tags": "paid", "sql92": "price = 7", "keys": ["K1"]}, True),
)
def test_all_conditions_must_hold(conditions: dict[str, Any], holds: bool) -> None:
    assert takes(**conditions) is holds


def test_a_pattern_is_found_in_bytes_that_are_no_text() -> None:
    assert takes(msgspec.structs.replace(STORED, body=b"\x00\xffabc"), body_pattern=r"\\xffab")


def test_a_body_that_cannot_be_decompressed_matters_only_if_it_is_asked_for() -> None:
    damaged = msgspec.structs.replace(STORED, body=b"no zlib", sys_flag=COMPRESSED)
    assert takes(damaged, tags="paid")
    assert not takes(damaged, tags="new", body_pattern="x")
    with pytest.raises(ProtocolError):
        takes(damaged, body_pattern="x")


@pytest.mark.parametrize(
    ("conditions", "error"),
    [
        ({"json_values": {"order": "x"}}, UsageError),
        ({"body_pattern": "(unclosed"}, UsageError),
        ({"sql92": "price >"}, Sql92Error),
    ],
)
def test_what_is_no_condition(conditions: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        compile_conditions(MessageConditions(**conditions))


# --- paths into JSON bodies ------------------------------------------------------------------------------------------


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
