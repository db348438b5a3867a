"""Plain messages are packed in C as protobuf writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.core_targets import core_received
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, encode_record, host_bytes
from rmqserver import core
from rmqserver.core import pack_received
from rmqserver.doors.grpc.stored import MD5, PLAIN_ROLES
from tests.rmqserver.doors.grpc.calls import TopicAndGroup, message_to, receive
from tests.support.grpc_client import GrpcClient

pytestmark = pytest.mark.skipif(not core.IS_NATIVE, reason="the native core is not built")

NAMES = st.sampled_from([*sorted(map(bytes.decode, PLAIN_ROLES)), "colour", "a"]) | st.text("ab", max_size=2)
USUAL_NAMES = ["UNIQ_KEY", "KEYS", "TAGS", "BORN_TIMESTAMP", "__BORNHOST", "PGROUP", "colour", "region"]
VALUES = st.sampled_from(["1", "170", "k1  k2 ", " ", "", "é", "\x01", "v" * 300]) | st.text("0a ", max_size=20)
SPELLED = st.lists(st.tuples(NAMES, VALUES), max_size=6) | st.lists(
    st.tuples(st.sampled_from(USUAL_NAMES), st.text("0k", min_size=1, max_size=9)),
    max_size=8,
    unique_by=lambda each: each[0],
)
HOSTS = st.sampled_from([host_bytes("127.0.0.1", 10_911), host_bytes("255.0.255.255", 0), host_bytes("::1", 5)])
NUMBERS = st.integers(-1, 1 << 40) | st.sampled_from([0, 1, 127, 128])


def stored(properties: list[tuple[str, str]], **more: object) -> bytes:
    raw = "".join(f"{name}\x01{value}\x02" for name, value in properties).encode()
    fields = {
        "size_bytes": 0, "body_crc": 0, "queue_id": 1, "flag": 0, "queue_offset": 5, "log_offset": 1 << 40,
        "sys_flag": 0, "born_timestamp_ms": 1_700_000_000_123, "born_host": host_bytes("10.0.0.1", 5),
        "store_timestamp_ms": 1_700_000_001_000, "store_host": host_bytes("10.0.0.2", 10_911), "reconsume_times": 0,
        "prepared_transaction_offset": 0, "body": b"hello", "topic": "T", "properties_raw": raw, **more,
    }  # fmt: skip
    return encode_record(StoredMessage(**fields))  # type: ignore[arg-type]


RECORDS = st.builds(
    stored, SPELLED, queue_id=st.integers(-1, 200), queue_offset=NUMBERS, log_offset=NUMBERS, born_timestamp_ms=NUMBERS,
    store_timestamp_ms=NUMBERS, sys_flag=st.sampled_from([0, 0, 1, 4]), born_host=HOSTS, store_host=HOSTS,
    reconsume_times=st.integers(-1, 4), body=st.binary(max_size=200), topic=st.sampled_from(["T", "t" * 130]),
) | st.builds(lambda more: stored([("UNIQ_KEY", "01"), *more]), SPELLED)  # fmt: skip


@given(st.lists(RECORDS, max_size=3), st.integers(0, 3))
def test_what_is_packed_is_what_protobuf_writes(records: list[bytes], count: int) -> None:
    core_received(bytes([count]) + b"".join(records))
    core_received(bytes([len(records)]) + b"".join(records))


@given(RECORDS, st.lists(st.tuples(st.integers(0, 200), st.binary(min_size=1, max_size=2)), max_size=3))
def test_so_it_is_with_any_bytes(record: bytes, changes: list[tuple[int, bytes]]) -> None:
    for at, put in changes:
        record = record[:at] + put + record[at + len(put) :]
    core_received(b"\1" + record)


USUAL = [("UNIQ_KEY", "01AB"), ("PGROUP", "T"), ("TAGS", "A"), ("KEYS", "k1 k2"), ("colour", "light blue")]


def test_usual_messages_are_packed() -> None:
    record = stored(USUAL)
    assert pack_received(record * 32, b"T", [b"1 2 3"] * 32, PLAIN_ROLES, frozenset({"A", "B"}), 16, MD5) is not None
    core_received(b"\2" + 2 * record)


@pytest.mark.parametrize(
    "record",
    [
        stored([]), stored([*USUAL, ("DELAY", "1")]), stored([*USUAL, ("TRAN_MSG", "true")]), stored(USUAL, sys_flag=1),
        stored([*USUAL, ("PGROUP", "é")]), stored([*USUAL, ("TAGS", "B")]), stored([*USUAL, ("colour", "red")]),
        stored(USUAL, reconsume_times=3), stored(USUAL, born_host=host_bytes("::1", 5)), stored(USUAL)[:-1],
        stored([(f"n{number}", "v" * 9) for number in range(20)] + USUAL),
        stored([*USUAL, (props.BORN_TIMESTAMP, "0")]),
    ],
)  # fmt: skip
def test_what_is_unusual_is_left(record: bytes) -> None:
    assert pack_received(stored(USUAL) + record, b"T", [b"1 2 3"] * 2, PLAIN_ROLES, None, 3, MD5) is None


@pytest.mark.parametrize("other", [[("TAGS", "C")], []])
def test_a_message_without_a_wanted_tag_is_left(other: list[tuple[str, str]]) -> None:
    records = stored(USUAL) + stored([("UNIQ_KEY", "01"), *other])
    for tags, is_packed in ((None, True), (frozenset({"A", "B"}), False), (frozenset({"A", "C"}), bool(other))):
        packed = pack_received(records, b"T", [b"1 2 3"] * 2, PLAIN_ROLES, tags, 3, MD5)
        assert (packed is not None) == is_packed


def test_plain_messages_come_as_others_do(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    """One that is compressed makes those beside it go the other way."""
    topic, group = topic_and_group()
    sent = [message_to(topic, b"%d" % number, {"colour": "blue"}, tag="A", keys=["k"]) for number in range(2)]
    found = []
    for others in ([], [message_to(topic, b"\x1f\x8b", body_encoding=2)]):
        client.call("SendMessage", {"messages": [*sent, *others]})
        found.append(receive(client, topic, group)[:2])
    for plain, other in zip(*found, strict=True):
        for message in (plain, other):
            system = message.system_properties
            assert system.receipt_handle.split(" ")[-2] == str(system.queue_offset)
            for name in ("receipt_handle", "queue_offset", "store_timestamp", "born_timestamp"):
                assert system.HasField(name)
                system.ClearField(name)
        assert plain == other
