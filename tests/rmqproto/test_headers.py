"""Typed headers: conversion to and from text, and Java's reading of odd values."""

import re

import msgspec
import pytest

from rmqproto.codes import OwnRequestCode, RequestCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.base import Header, NoFields, from_ext, to_ext
from rmqproto.headers.consuming import PullHeader
from rmqproto.headers.request_table import REQUEST_HEADERS, REQUESTS
from rmqproto.headers.sending import SendHeader, SendHeaderV2
from rmqproto.java.java_numbers import Int32, Int64
from tests.support.quick import in_one_test

SEND = {"topic": "T", "queueId": "1", "bornTimestamp": "3"}


def test_short_names_carry_the_same_fields_as_long_ones() -> None:
    assert set(SendHeaderV2.__struct_fields__) == set(SendHeader.__struct_fields__)
    short = SendHeaderV2(producer_group="g", topic="T", queue_id=1, born_timestamp=3, batch=True)
    ext = to_ext(short)
    assert ext["a"] == "g"
    assert ext["m"] == "true"
    assert from_ext(ext, SendHeaderV2) == short


def test_text_that_is_no_boolean_is_false_as_in_java() -> None:
    assert from_ext(SEND | {"unitMode": "yes"}, SendHeader).is_unit is False
    assert from_ext(SEND | {"unitMode": "TRUE"}, SendHeader).is_unit is True


def test_cpp_1_marks_its_batches_with_a_number() -> None:
    """C++ 1.x sends a batch with code 10 and batch "1". Java reads that as false and stores one unreadable message."""
    assert from_ext(SEND | {"batch": "1"}, SendHeader).batch is True


def test_an_empty_value_counts_as_absent() -> None:
    assert from_ext(SEND | {"maxReconsumeTimes": ""}, SendHeader).max_reconsume_times is None


@pytest.mark.parametrize(
    ("ext", "problem"),
    [
        ({}, "header: topic is missing"),
        ({"topic": "T", "queueId": ""}, "header: queueId is missing"),
        (SEND | {"queueId": "x"}, "header: queueId=x is not a number"),
        (SEND | {"queueId": "1.5"}, "header: queueId=1.5 is not a number"),
        (SEND | {"queueId": "x" * 5000}, f"header: queueId={'x' * 100} is not a number"),
    ],
)
def test_missing_and_malformed_fields_are_named(ext: dict[str, str], problem: str) -> None:
    """Clients of any language show this text. It used to speak of Python's types."""
    with pytest.raises(ProtocolError, match=f"^{re.escape(problem)}$"):
        from_ext(ext, SendHeader)


@pytest.mark.parametrize("value", [str(1 << 31), str(-(1 << 31) - 1), str(1 << 63), "1" + "0" * 5000])
def test_numbers_that_java_cannot_hold_are_refused(value: str) -> None:
    """A queue id of 2^31 used to get into consumerOffset.json, which no Apache broker could then read."""
    problem = "is out of range" if len(value) < 40 else "is not a number"
    with pytest.raises(ProtocolError, match=f"^header: queueId={value[:100]} {problem}$"):
        from_ext(SEND | {"queueId": value}, SendHeader)


@pytest.mark.parametrize(("text", "number"), [("007", 7), ("+7", 7), ("-07", -7), ("00000000000000000007", 7)])
def test_numbers_are_read_as_java_reads_them(text: str, number: int) -> None:
    """Names that consist of digits stay as they are."""
    header = from_ext(SEND | {"queueId": text, "topic": "007"}, SendHeader)
    assert (header.queue_id, header.topic) == (number, "007")


def test_unknown_fields_are_passed_over() -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "5", "maxMsgNums": "32", "sysFlag": "2"}
    header = from_ext(ext | {"brandNew": "?"}, PullHeader)
    assert (header.queue_offset, header.sub_version, header.subscription) == (5, 0, None)


@in_one_test(*sorted(set(REQUEST_HEADERS.values()), key=str))
def test_every_header_of_the_table_survives_the_wire(type: type[Header]) -> None:
    samples = {Int32: 7, Int64: 7, str: "x", bool: True}
    kinds = {
        f.name: next(k for k in samples if k in (f.type, *getattr(f.type, "__args__", ())))
        for f in msgspec.structs.fields(type)
    }
    header = type(**{name: samples[kind] for name, kind in kinds.items()})
    assert from_ext(to_ext(header), type) == header


def test_the_table_has_a_row_for_each_request_code() -> None:
    assert list(REQUESTS) == [*RequestCode, *OwnRequestCode]
    assert NoFields not in REQUEST_HEADERS.values()
