"""Apache's exchanges of transactions, played against our broker. A recorded request that ends a transaction names a log
offset, which is replaced by ours; the half message has the unique key that the request names."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.message import properties as props
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.wire.command import Command, decode_frame_untrusted, encode_frame
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import create_topic, ok, produce
from tests.rmqserver.broker.messaging import stored
from tests.support import servers
from tests.support.golden import exchange, exchanges
from tests.support.servers import until
from tests.support.wire import Wire

SETTINGS = ("transactionTimeOut=100", "transactionCheckInterval=50", "transactionCheckMax=1000000")
END = "37-END_TRANSACTION"


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    """A connection on which the recorded producer is online."""
    with servers.standalone(tmp_path, *servers.sets(*SETTINGS)) as server, Wire(server.broker_addr) as connection:
        create_topic(connection, "TransTopic", 2)
        produce(connection, "TransProducerGroup")
        yield connection


@pytest.mark.parametrize(
    ("half", "commit", "roll_back", "unknown", "check", "check_commit", "check_unknown"),
    [("23", "01", "02", "03", "01", "04", "05"), ("49", "08", "09", "10", "02", "11", "12")],
    ids=["json", "binary"],
)
def test_transactions(
    wire: Wire, half: str, commit: str, roll_back: str, unknown: str, check: str, check_commit: str, check_unknown: str
) -> None:
    half = f"310-SEND_MESSAGE_V2/{half}"
    end(wire, commit, at=places(send_half(wire, half, commit)))
    end(wire, roll_back, at=places(send_half(wire, half, roll_back)))
    until(lambda: keys(wire) == [key_of(commit)])

    golden = decode_frame_untrusted(exchange(f"39-CHECK_TRANSACTION_STATE/{check}").request)
    theirs = decode_record_untrusted(golden.body)
    end(wire, unknown, at=places(send_half(wire, half, unknown, theirs)))
    asked = checked(wire, unknown)
    assert (asked.code, asked.flag, asked.ext.keys()) == (golden.code, golden.flag, golden.ext.keys())
    same = ("topic", "msgId", "transactionId", "bname")
    assert [asked.ext[name] for name in same] == [golden.ext[name] for name in same]
    ours = decode_record_untrusted(asked.body)
    assert (ours.topic, ours.queue_id, ours.body, ours.properties) == (
        theirs.topic, theirs.queue_id, theirs.body, theirs.properties,
    )  # fmt: skip
    end(wire, check_commit, at=(asked.ext["commitLogOffset"], asked.ext["tranStateTableOffset"]))
    until(lambda: keys(wire) == [key_of(commit), key_of(check_commit)])

    send_half(wire, half, check_unknown)
    for times in ("1", "2"):
        asked = checked(wire, check_unknown)
        assert decode_record_untrusted(asked.body).properties["TRANSACTION_CHECK_TIMES"] == times
        end(wire, check_unknown, at=(asked.ext["commitLogOffset"], asked.ext["tranStateTableOffset"]))
    assert keys(wire) == [key_of(commit), key_of(check_commit)]
    play(wire, "315-VIEW_BROKER_STATS_DATA/07", "sum", "tps", "avgpt")


def key_of(end_number: str) -> str:
    return decode_frame_untrusted(exchange(f"{END}/{end_number}").request).ext["transactionId"]


def send_half(wire: Wire, name: str, end_number: str, like: StoredMessage | None = None) -> Command:
    """Sends the recorded half message with another unique key, or with keys, tags and body of ``like``. It is born now,
    because the broker does not ask about one that is three days old."""
    request = decode_frame_untrusted(exchange(name).request)
    request.ext["g"] = str(time.time_ns() // 1_000_000)
    sent = props.parse(request.ext["i"]) | {"UNIQ_KEY": key_of(end_number)}
    if like is not None:
        sent |= {key: like.properties[key] for key in ("KEYS", "TAGS")}
        request.body = like.body
    request.ext["i"] = props.render(sent)
    wire.send(encode_frame(request))
    answer = wire.receive()
    while not answer.is_answer:  # a check of the previous one
        answer = wire.receive()
    assert ok(answer).ext["transactionId"] == key_of(end_number)
    return answer


def places(sent: Command) -> tuple[str, str]:
    """The half message's log offset and queue offset."""
    return str(parse_offset_id_untrusted(sent.ext["msgId"]).log_offset), sent.ext["queueOffset"]


def end(wire: Wire, number: str, *, at: tuple[str, str]) -> None:
    request = decode_frame_untrusted(exchange(f"{END}/{number}").request)
    assert request.is_oneway
    request.ext["commitLogOffset"], request.ext["tranStateTableOffset"] = at
    wire.send(encode_frame(request))


def checked(wire: Wire, end_number: str) -> Command:
    """The next check of this transaction. Checks of others may come first, sent before those ended."""
    request = wire.receive()
    while request.code != R.CHECK_TRANSACTION_STATE or request.ext["transactionId"] != key_of(end_number):
        request = wire.receive()
    return request


def keys(wire: Wire) -> list[str]:
    """The unique keys of the delivered messages."""
    queue_id = next(queue_id for queue_id in (0, 1) if wire.ask(R.GET_MAX_OFFSET, place(queue_id)).ext["offset"] != "0")
    return [message.properties["UNIQ_KEY"] for message in stored(wire, "TransTopic", queue_id)]


def place(queue_id: int) -> dict[str, str]:
    return {"topic": "TransTopic", "queueId": str(queue_id)}


def test_every_exchange_is_played_here_or_with_the_sends() -> None:
    """The refused ones are in ``test_golden_messaging.py``."""
    assert [len(exchanges(code)) for code in (R.END_TRANSACTION, R.CHECK_TRANSACTION_STATE)] == [14, 2]
