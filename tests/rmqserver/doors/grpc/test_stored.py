import zlib
from typing import Any

import msgspec
import pytest

from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, host_bytes
from rmqproto.message.sys_flag import COMPRESSED
from rmqserver.doors.grpc.messages import CLASSES, value
from rmqserver.doors.grpc.stored import put_message

HOST = host_bytes("127.0.0.1", 10911)


def _record(reconsume_times: int = 0, **properties: str) -> StoredMessage:
    return StoredMessage(
        200, 0, 0, 0, 5, 4711, 0, 1_000, HOST, 2_000, HOST, reconsume_times, 0, b"body", "T", props.joined(properties)
    )


def message_of(record: StoredMessage, topic: str, handle: str | None) -> Any:
    message = CLASSES["Message"]()
    put_message(message, record, record.properties, topic, handle)
    return message


@pytest.mark.parametrize("text", ["2147483648", "999999999999999999"])
def test_a_priority_of_the_older_protocol_may_be_larger_than_fits(text: str) -> None:
    """Such a message would otherwise keep all those from being received that are popped with it."""
    got = message_of(_record(**{props.PRIORITY: text}), "T", "handle")
    assert (got.body, got.system_properties.priority) == (b"body", 2**31 - 1)


def test_attempts_are_counted_no_further_than_fits() -> None:
    got = message_of(_record(reconsume_times=2**31 - 1), "T", None)
    assert got.system_properties.delivery_attempt == 2**31 - 1


@pytest.mark.parametrize("name", [props.BORN_TIMESTAMP, props.TIMER_DELIVER_MS])
def test_any_time_can_be_told(name: str) -> None:
    assert message_of(_record(**{name: "9" * 18}), "T", None).body == b"body"


@pytest.mark.parametrize("name", [props.DELAY, props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS])
def test_what_the_older_protocol_delays_is_a_delayed_message(name: str) -> None:
    got = message_of(_record(**{name: "3"}), "T", None)
    assert got.system_properties.message_type == value("MessageType", "DELAY")


@pytest.mark.parametrize(("plain_bytes", "encoding"), [(1 << 20, "IDENTITY"), (40 << 20, "GZIP")])
def test_a_body_that_unpacks_to_very_much_goes_out_as_it_is(plain_bytes: int, encoding: str) -> None:
    record = msgspec.structs.replace(_record(), body=zlib.compress(bytes(plain_bytes)), sys_flag=COMPRESSED)
    got = message_of(record, "T", "handle")
    assert got.system_properties.body_encoding == value("Encoding", encoding)
    assert len(got.body) == (plain_bytes if encoding == "IDENTITY" else len(record.body))
