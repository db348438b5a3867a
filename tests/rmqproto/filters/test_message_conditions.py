"""Conditions on stored messages: each alone, all together, and invalid ones."""

from typing import Any

import msgspec
import pytest

from rmqproto.errors import ProtocolError, UsageError
from rmqproto.filters.message_conditions import MessageConditions, compile_conditions
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
