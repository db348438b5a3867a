"""Messages that are sent again over the wire: each is stored once, and answered as the first time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.message.record import BatchItem, encode_batch
from rmqproto.wire.command import Command
from tests.rmqserver.broker.messaging import bodies, pull, send, send_header, text
from tests.support import servers
from tests.support.servers import Server
from tests.support.wire import Wire

TOLD = ("msgId", "queueId", "queueOffset", "transactionId")


server = servers.of_module()


def numbered(wire: Wire, topic: str, number: str, key: str = "AB12", queue_id: int = 0, **more: str) -> Command:
    return send(wire, topic, queue_id, properties=text(UNIQ_KEY=key, PRODUCER_SEQ=number, **more))


def told(answer: Command) -> dict[str, str]:
    assert answer.code == 0, (answer.code, answer.remark)
    return {name: answer.ext[name] for name in TOLD}


def count(wire: Wire, topic: str, queue_id: int = 0) -> int:
    return int(wire.ask(R.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)}).ext["offset"])


def test_a_number_that_comes_again_is_answered_as_the_first_time_and_not_stored(wire: Wire) -> None:
    first = [told(numbered(wire, "Again", f"p:0:{at}", f"AB{at}")) for at in range(3)]
    assert [answer["queueOffset"] for answer in first] == ["0", "1", "2"]
    again = [numbered(wire, "Again", f"p:0:{at}", f"AB{at}") for at in range(3)]
    assert [told(answer) for answer in again] == first
    assert all(answer.ext["repeated"] == "true" for answer in again)
    assert told(numbered(wire, "Again", "q:0:0"))["queueOffset"] == "3", "another producer's"
    assert told(numbered(wire, "Again", "p:0:0", queue_id=1))["queueOffset"] == "0", "another queue's"
    assert "repeated" not in numbered(wire, "Again", "p:0:3").ext
    assert count(wire, "Again") == 5


@pytest.mark.parametrize(
    ("number", "more", "code", "remark"),
    [
        ("p:1:2", {}, ResponseCode.ILLEGAL_OPERATION, "message 2 of epoch 1 comes before message 1"),
        ("p:0:7", {}, ResponseCode.ILLEGAL_OPERATION, "epoch 0 has ended"),
        ("new:0:1", {}, ResponseCode.ILLEGAL_OPERATION, "a new epoch begins with 0"),
        ("p;1;1", {}, ResponseCode.MESSAGE_ILLEGAL, "id:epoch:sequence"),
        ("p:1:1", {"DELAY": "3"}, ResponseCode.MESSAGE_ILLEGAL, "neither delayed"),
        ("p:1:1", {"TRAN_MSG": "true"}, ResponseCode.MESSAGE_ILLEGAL, "half of a transaction"),
        ("p:1:1", {"_SYS_MSG_PRIORITY_": "1"}, ResponseCode.MESSAGE_ILLEGAL, "no priority"),
    ],
)
def test_what_is_refused_says_why(wire: Wire, number: str, more: dict[str, str], code: int, remark: str) -> None:
    numbered(wire, "Refused", "p:1:0")
    before = count(wire, "Refused")
    answer = numbered(wire, "Refused", number, **more)
    assert (answer.code, count(wire, "Refused")) == (code, before)
    assert remark in (answer.remark or "")


def test_a_number_needs_a_queue(wire: Wire) -> None:
    answer = numbered(wire, "NoQueue", "p:0:0", queue_id=-1)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "names the queue" in (answer.remark or "")


def test_a_number_is_known_after_a_restart_and_after_the_file_is_lost(
    tmp_path: Path, start_standalone: Callable[..., Server]
) -> None:
    store = tmp_path / "store"
    first: dict[str, str] = {}
    for lose in (False, False, True, True):
        server = start_standalone("--data", str(store))
        with Wire(server.broker_addr) as wire:
            answer = told(numbered(wire, "Kept", "p:0:0"))
            assert answer["queueOffset"] == "0"
            assert not first or answer["msgId"][16:] == first["msgId"][16:]
            first = first or answer
            assert count(wire, "Kept") == 1
            assert bodies(pull(wire, "Kept")) == [b"body"]
        server.stop()
        files = list(store.rglob("producerSequences"))
        assert files or lose
        for path in files if lose else []:
            path.unlink()


def batch(wire: Wire, topic: str, *numbers: str | None, queue_id: int = 0) -> Command:
    properties = [text(PRODUCER_SEQ=number) if number else "" for number in numbers]
    items = [
        BatchItem(0, (number or "none").encode(), each.encode())
        for number, each in zip(numbers, properties, strict=True)
    ]
    return wire.ask(R.SEND_BATCH_MESSAGE, send_header(topic, queue_id, batch=True), encode_batch(items))


def test_a_batch_that_comes_again_is_answered_as_the_first_time_and_not_stored(wire: Wire) -> None:
    numbers = [f"p:0:{at}" for at in range(4)]
    first = batch(wire, "Batched", *numbers)
    again = batch(wire, "Batched", *numbers)
    assert (first.code, again.code, again.ext["repeated"]) == (0, 0, "true")
    assert "repeated" not in first.ext
    assert {name: first.ext[name] for name in TOLD[:3]} == {name: again.ext[name] for name in TOLD[:3]}
    assert again.ext["msgId"].count(",") == 3
    assert numbered(wire, "Batched", "p:0:2").ext["queueOffset"] == "2", "sent alone, it is the same message"
    assert numbered(wire, "Batched", "p:0:4").ext["queueOffset"] == "4"
    assert bodies(pull(wire, "Batched")) == [*map(str.encode, numbers), b"body"]
    assert batch(wire, "Batched", "p:1:0", "p:1:1").code == 0, "an epoch begins"
    assert count(wire, "Batched") == 7


@pytest.mark.parametrize(
    ("numbers", "code", "remark"),
    [
        (["p:0:1", "p:0:2"], ResponseCode.ILLEGAL_OPERATION, "of messages 1 to 2, 2 is the next"),
        (["p:0:3", "p:0:4"], ResponseCode.ILLEGAL_OPERATION, "message 3 of epoch 0 comes before message 2"),
        (["p:0:2", "p:0:4"], ResponseCode.MESSAGE_ILLEGAL, "follow each other"),
        (["p:0:2", "q:0:3"], ResponseCode.MESSAGE_ILLEGAL, "of one producer"),
        (["p:0:2", None], ResponseCode.MESSAGE_ILLEGAL, "id:epoch:sequence"),
    ],
)
def test_a_batch_is_stored_as_a_whole_or_not_at_all(
    wire: Wire, numbers: list[str | None], code: int, remark: str
) -> None:
    batch(wire, "Whole", "p:0:0", "p:0:1")
    answer = batch(wire, "Whole", *numbers)
    assert (answer.code, count(wire, "Whole")) == (code, 2)
    assert remark in (answer.remark or "")


def test_a_body_that_holds_the_name_of_the_number_makes_no_number(wire: Wire) -> None:
    items = [BatchItem(0, b"PRODUCER_SEQ\x01p:0:7\x02", b"")] * 2
    for _ in range(2):
        assert wire.ask(R.SEND_BATCH_MESSAGE, send_header("Bodies", 0, batch=True), encode_batch(items)).code == 0
    assert count(wire, "Bodies") == 4


# --- by unique keys --------------------------------------------------------------------------------------------------


checking = servers.of_module("--set", "uniqueKeyCheckMillis=600000")


def test_a_unique_key_that_comes_again_is_not_stored_where_a_setting_says_so(checking: Server, wire: Wire) -> None:
    with Wire(checking.broker_addr) as checked:
        first = told(send(checked, "Keyed", properties=text(UNIQ_KEY="AB12")))
        again = told(send(checked, "Keyed", 1, properties=text(UNIQ_KEY="AB12")))
        assert again == first, "wherever in the topic it is sent to"
        assert told(send(checked, "Keyed", properties=text(UNIQ_KEY="AB13")))["queueOffset"] == "1"
        assert told(send(checked, "Other", properties=text(UNIQ_KEY="AB12")))["queueOffset"] == "0"
        for _ in range(2):
            half = send(checked, "Keyed", properties=text(UNIQ_KEY="AB14", TRAN_MSG="true", PGROUP="G"), sys_flag=4)
            assert half.code == 0
        assert told(send(checked, "Keyed", properties=text(UNIQ_KEY="AB14")))["queueOffset"] == "2", "a half is none"
        assert count(checked, "Keyed") == 3
    for _ in range(2):
        send(wire, "Keyed", properties=text(UNIQ_KEY="AB12"))
    assert count(wire, "Keyed") == 2, "off by default"


def test_unique_keys_are_found_in_the_index_after_a_restart(
    tmp_path: Path, start_standalone: Callable[..., Server]
) -> None:
    given = ("--data", str(tmp_path / "store"), "--set", "uniqueKeyCheckMillis=600000")
    server = start_standalone(*given)
    with Wire(server.broker_addr) as wire:
        first = told(send(wire, "Keyed", 2, properties=text(UNIQ_KEY="AB12")))
    server.stop()
    server = start_standalone(*given)
    with Wire(server.broker_addr) as wire:
        again = told(send(wire, "Keyed", 1, properties=text(UNIQ_KEY="AB12")))
        assert (again["queueId"], again["queueOffset"]) == (first["queueId"], first["queueOffset"])
        assert count(wire, "Keyed", 1) == 0
