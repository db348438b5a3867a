"""Plain calls are cut out of their bytes as protobuf reads them, and answered in the bytes that it would write."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.core_targets import core_calls
from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqserver import core
from rmqserver.doors.grpc.codes import OK, Code
from rmqserver.doors.grpc.messages import CLASSES
from rmqserver.doors.grpc.plain_calls import RESERVED, acked_answer, sent_answer
from tests.rmqserver.doors.grpc.calls import TopicAndGroup, message_to, receive
from tests.support.grpc_client import GrpcClient
from tests.support.servers import Server, topic_config

native = pytest.mark.skipif(not core.IS_NATIVE, reason="the native core is not built")
GOLDEN = json.loads((Path(__file__).parents[3] / "golden/grpc/messages.json").read_text())
REQUESTS = [bytes.fromhex(text) for name, text in GOLDEN if name in ("SendMessageRequest", "AckMessageRequest")]


def called(message: bytes) -> bytes:
    return struct.pack(">BI", 0, len(message)) + message


def cut_send(message: bytes) -> core.CutSend | None:
    return core.cut_send(called(message), RESERVED, "10.0.0.1:5")


# --- requests --------------------------------------------------------------------------------------------------------


def one(value: st.SearchStrategy[Any], *rare: Any) -> st.SearchStrategy[Any]:
    return st.one_of(*[value] * 8, *map(st.just, rare))


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


TEXTS = one(st.text("abcXYZ019-_%|", min_size=1, max_size=20), "", "a b", "é", "\x01", "TAGS", "x" * 5000)
NUMBERS = one(st.integers(0, 127), -1, 4, 1 << 30)
TIMES = st.fixed_dictionaries(
    {"seconds": one(st.integers(0, 1 << 32), -1, 1 << 34), "nanos": one(st.integers(0, 999_999_999), -1, 1_000_000_000)}
)
SYSTEM = some(
    tag=TEXTS, keys=st.lists(TEXTS, max_size=3), message_id=one(st.text("0AFz", min_size=1, max_size=52), "a-b"),
    body_digest=some(type=NUMBERS, checksum=TEXTS), body_encoding=NUMBERS, message_type=NUMBERS, born_timestamp=TIMES,
    born_host=TEXTS, queue_id=NUMBERS, delivery_attempt=NUMBERS, trace_context=TEXTS,
) | some(
    message_id=TEXTS, message_group=TEXTS, priority=NUMBERS, lite_topic=TEXTS, delivery_timestamp=TIMES,
    store_timestamp=TIMES, receipt_handle=TEXTS, orphaned_transaction_recovery_duration=TIMES,
)  # fmt: skip
NAMES = st.sampled_from(["colour", "region", "a"]) | TEXTS | st.sampled_from(sorted(map(bytes.decode, RESERVED)))
MESSAGES = st.fixed_dictionaries({
    "topic": st.fixed_dictionaries({"name": TEXTS}, optional={"resource_namespace": TEXTS}),
    "user_properties": st.dictionaries(NAMES, TEXTS, max_size=3), "system_properties": SYSTEM, "body": st.binary(),
})  # fmt: skip
SENDS = st.builds(
    lambda messages: CLASSES["SendMessageRequest"](messages=messages).SerializeToString(),
    st.lists(MESSAGES, min_size=1, max_size=1) | st.lists(MESSAGES, max_size=2),
)
ENTRIES = some(message_id=TEXTS, receipt_handle=TEXTS, lite_topic=TEXTS)
ACKS = st.builds(
    lambda **fields: CLASSES["AckMessageRequest"](**fields).SerializeToString(), group=some(name=TEXTS),
    topic=some(name=TEXTS), entries=st.lists(ENTRIES, max_size=2),
)  # fmt: skip


@native
@given(SENDS | ACKS)
def test_what_is_cut_out_of_a_request_is_what_protobuf_reads(message: bytes) -> None:
    core_calls(message)


@native
@given(st.sampled_from(REQUESTS), st.lists(st.tuples(st.integers(0, 250), st.binary(max_size=2)), max_size=3))
def test_so_it_is_with_any_bytes(message: bytes, changes: list[tuple[int, bytes]]) -> None:
    for at, put in changes:
        message = message[:at] + put + message[at + len(put) // 2 + 1 :]
    core_calls(message)


@native
def test_what_recorded_clients_send_is_plain() -> None:
    taken = [message for message in REQUESTS if cut_send(message) or core.cut_ack(called(message))]
    assert len(taken) >= 13, "the others are scenes of what is refused or unusual"


@native
@pytest.mark.parametrize("head", [b"\1\0\0\0\x33", b"\0\0\0\0\x34", b"\0\0\0\0\x32", b"\0\0\0"])
def test_a_message_that_is_compressed_or_not_whole_is_left(head: bytes) -> None:
    message = next(each for each in REQUESTS if cut_send(each))
    head = head.replace(b"\x33", b"%c" % len(message))
    assert core.cut_send(head + message, RESERVED, "") is None


# --- answers ---------------------------------------------------------------------------------------------------------


@given(st.text("0aF", min_size=1, max_size=50), st.integers(0, (1 << 63) - 1), st.text("0 a", min_size=1, max_size=300))
def test_answers_are_those_of_protobuf(message_id: str, offset: int, receipt: str) -> None:
    sent = {"status": OK, "message_id": message_id, "transaction_id": message_id, "offset": offset}
    expected = CLASSES["SendMessageResponse"](status=OK, entries=[sent])
    assert sent_answer(message_id.encode(), offset) == expected.SerializeToString()
    acked = {"status": OK, "message_id": message_id, "receipt_handle": receipt}
    expected = CLASSES["AckMessageResponse"](status=OK, entries=[acked])
    assert acked_answer(message_id.encode(), receipt.encode()) == expected.SerializeToString()


# --- both ways -------------------------------------------------------------------------------------------------------


@native
def test_both_ways_store_and_answer_the_same(
    client: GrpcClient, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    """A blank in a user property is all that makes the last message unusual. The first of a topic is never plain."""
    topic, _ = topic_and_group()
    config = topic_config(topic, topic_filter_type="MULTI_TAG",
        attributes={"+message.type": "NORMAL"})  # fmt: skip
    with AdminClient(typed_server.namesrv_addr) as admin:
        admin.create_topic(typed_server.broker_addr, config)
    answers = []
    for said in ("red", "blue", "light blue"):
        message = message_to(
            topic, b"hello", {"colour": said}, tag="A", keys=["k1", "k2"], message_id="01" * 17, delivery_attempt=1,
            born_timestamp={"seconds": 1_700_000_000, "nanos": 5_999_999}, born_host="h", trace_context="00-1-2-01",
        )  # fmt: skip
        request = CLASSES["SendMessageRequest"](messages=[message])
        assert (cut_send(request.SerializeToString()) is None) == (said == "light blue")
        answer = client.call("SendMessage", request)
        answer.entries[0].offset = 0
        answers.append(answer)
    assert answers[1] == answers[2]
    with AdminClient(typed_server.namesrv_addr) as admin:
        queue = MessageQueue(topic, "broker-a", 0)
        _, plain, other = admin.pull_message(typed_server.broker_addr, queue, 0).messages
    assert {**plain.properties, "colour": ""} == {**other.properties, "colour": ""}
    assert (plain.born_timestamp_ms, plain.born_host) == (other.born_timestamp_ms, other.born_host)
    assert (plain.body, plain.sys_flag, plain.store_host) == (other.body, other.sys_flag, other.store_host)


def ack_all(client: GrpcClient, topic: str, group: str, receipts: list[str]) -> list[Any]:
    """The statuses of acknowledgements that leave in one piece."""
    calls, flush = [], client.flush
    client.flush = lambda: None  # type: ignore[method-assign]
    for receipt in receipts:
        request = {"group": {"name": group}, "topic": {"name": topic}}
        entry = {"message_id": "01", "receipt_handle": receipt}
        calls.append(client.open("AckMessage"))
        calls[-1].send(CLASSES["AckMessageRequest"](**request, entries=[entry]), is_last=True)
    client.flush = flush  # type: ignore[method-assign]
    client.flush()
    return [next(call).entries[0].status.code for call in calls]


def acked_offsets(server: Server, topic: str) -> list[list[int]]:
    """Of each entry of the revive log about that topic."""
    found, log = [], "rmq_sys_REVIVE_LOG_DefaultCluster"
    with AdminClient(server.namesrv_addr) as admin:
        for queue_id in range(8):
            start = admin.min_offset(server.broker_addr, log, queue_id)
            while start < admin.max_offset(server.broker_addr, log, queue_id):
                queue = MessageQueue(log, "broker-a", queue_id)
                pulled = admin.pull_message(server.broker_addr, queue, start)
                start = pulled.next_begin_offset
                bodies = [json.loads(each.body) for each in pulled.messages]
                found += [body.get("aol", [body["ao"]]) for body in bodies if body["t"] == topic and "ao" in body]
    return found


@native
def test_acknowledgements_of_one_read_are_put_together(
    client: GrpcClient, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    """What cannot be acknowledged does not cost those beside it, and is told so itself."""
    topic, group = topic_and_group()
    client.call("SendMessage", {"messages": [message_to(topic, b"%d" % number) for number in range(4)]})
    messages = receive(client, topic, group)
    receipts = [message.system_properties.receipt_handle for message in messages]
    words = receipts[3].split(" ")
    late = " ".join([words[0], "1", *words[2:]])
    assert ack_all(client, topic, group, [*receipts[2:0:-1], late, "no receipt"]) == [
        Code.OK, Code.OK, Code.INVALID_RECEIPT_HANDLE, Code.INVALID_RECEIPT_HANDLE,
    ]  # fmt: skip
    beyond = " ".join([*words[:7], "99", words[8]])
    assert ack_all(client, topic, group, [receipts[0], beyond]) == [Code.OK, Code.INTERNAL_SERVER_ERROR]
    assert ack_all(client, topic, group, [receipts[3]]) == [Code.OK]
    assert acked_offsets(typed_server, topic) == [[1, 2], [0], [3]]
