"""Trace records: from a real client, of every type, and damaged."""

import contextlib
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqproto.trace import (
    DELAYED_MESSAGE,
    FAILED,
    Consumed,
    Delivered,
    Published,
    TraceRecord,
    encode_trace,
    parse_trace_untrusted,
)
from rmqproto.wire.command import decode_frame_untrusted
from tests.support.golden import FILE


def record(*fields: object) -> bytes:
    return "\x01".join(map(str, fields)).encode() + b"\x02"


def test_what_a_real_producer_sent() -> None:
    with lzma.open(FILE, "rt") as lines:
        line = next(one for one in map(json.loads, lines) if one["source"] == "tt67wq-pyrocketmq/basic/7")
    body = decode_frame_untrusted(bytes.fromhex(line["hex"])).body
    (found,) = parse_trace_untrusted(body)
    assert found == TraceRecord(
        "Pub", "7F00000129650000E31100000bb80001", 1795220244436, "PID_capture", cost_ms=9, success=True,
        topic="TopicCapture",
    )  # fmt: skip


def test_every_type_of_record() -> None:
    body = (
        record("SubBefore", 5, "R", "g", "request", "id", 2, "key")
        + record("SubAfter", "request", "id", 7, "false", "key", 4, 12, "g")
        + record("EndTransaction", 1, "R", "p", "T", "id", "", "", "host", 2, "tx", "COMMIT_MESSAGE", "false")
        + record("Recall", 1, "R", "p", "T", "id", "true")
        + record("Unheard", "of")
    )
    assert parse_trace_untrusted(body) == [
        TraceRecord("SubBefore", "id", 5, "g", "request", retry_times=2),
        TraceRecord("SubAfter", "id", 12, "g", "request", 7, False, context_code=4),
        TraceRecord("EndTransaction", "id", 1, "p", state="COMMIT_MESSAGE", topic="T"),
        TraceRecord("Recall", "id", 1, "p", success=True, topic="T"),
    ]


def test_older_consumers_leave_the_last_fields_out() -> None:
    assert parse_trace_untrusted(record("SubAfter", "request", "id", 7, "true", "key")) == [
        TraceRecord("SubAfter", "id", request_id="request", cost_ms=7, success=True)
    ]


@pytest.mark.parametrize("body", [b"\xff", record("Pub", "soon"), record("SubBefore", 1, "R", "g", "r", "id", "many")])
def test_damaged_records_are_protocol_errors(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="trace"):
        parse_trace_untrusted(body)


@given(st.binary())
def test_any_bytes_are_records_or_a_protocol_error(body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        parse_trace_untrusted(body)


APACHES = Path(__file__).parent.parent / "golden/client/traces.jsonl"
TIME_MS, REGION, REQUEST, KEYS = 1700000000123, "DefaultRegion", "0A0000010001", "key1 key2"


def test_records_are_written_as_apaches_client_writes_them() -> None:
    """``TraceDataEncoder`` of 5.5.0 made the records (see Traces.java beside the file)."""
    host = "127.0.0.1:10911"
    ours = {
        "published": encode_trace(
            Published(
                TIME_MS, REGION, "group", "Topic", "ID1", "TagA", KEYS, host, 42, 7, DELAYED_MESSAGE, "offsetID1", True
            )
        ),
        "delivered": "".join(
            encode_trace(Delivered(TIME_MS, REGION, "group", REQUEST, each, 3, KEYS)) for each in ("ID1", "ID2")
        ),
        "consumed": encode_trace(Consumed(REQUEST, "ID1", 7, False, KEYS, FAILED, TIME_MS, "group")),
    }
    assert ours == {case["name"]: case["data"] for case in map(json.loads, APACHES.read_text().splitlines())}


texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=5)
counts = st.integers(0, 2**31)


@given(st.builds(Consumed, texts, texts, counts, st.booleans(), texts, st.integers(0, 4), counts, texts))
def test_what_is_encoded_is_parsed(record: Consumed) -> None:
    assert parse_trace_untrusted(encode_trace(record).encode()) == [
        TraceRecord(
            "SubAfter",
            record.message_id,
            record.time_ms,
            record.group,
            record.request_id,
            record.cost_ms,
            record.is_success,
            context_code=record.context_code,
        )
    ]
