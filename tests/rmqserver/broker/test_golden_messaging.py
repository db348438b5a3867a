"""Apache's exchanges of sending and consuming, played against our broker. Pulls and transactions have files of their
own."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.properties import parse
from rmqproto.wire.command import decode_frame_untrusted
from tests.rmqserver.broker.golden_play import compare, play
from tests.rmqserver.broker.golden_state import configure, consume, create_group, create_topic, fill, send, subscription
from tests.rmqserver.broker.messaging import HELD_MS, bodies, pull
from tests.support import servers
from tests.support.golden import exchange, exchanges, said
from tests.support.servers import Server
from tests.support.wire import Wire

TOPICS = {
    "PlainTopic": 4, "NormalTopic": 4, "DelayTopic": 2, "BigTopic": 2, "BatchTopic": 2, "OrderTopic": 4,
    "PriorityTopic": 4, "LiteTopic": 1, "AdminTopic": 4, "RequestTopic": 2, "EmptyTopic": 3, "RetryTopic": 2,
    "TimerTopic": 2, "TransTopic": 2,
}  # fmt: skip


def numbers(code: str, *ranges: range | int) -> list[str]:
    each = [n for part in ranges for n in (part if isinstance(part, range) else [part])]
    return [f"{code}/{n:02d}" for n in each]


SENDS = [
    *numbers("10-SEND_MESSAGE", 1, *range(10, 16), 17, *range(25, 30)),
    *numbers("310-SEND_MESSAGE_V2", *(range(1, 7), range(8, 13), range(14, 22), range(23, 27))),
    *numbers("310-SEND_MESSAGE_V2", *(range(27, 33), range(34, 39), range(40, 48), range(49, 57))),
    *numbers("320-SEND_BATCH_MESSAGE", 1, 3, 4, 6),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("messaging")
    with (
        servers.standalone(directory, "--set", "enablePropertyFilter=true") as running,
        Wire(running.broker_addr) as wire,
    ):
        for topic, queues in TOPICS.items():
            create_topic(wire, topic, queues)
        for group in ("RetryGroup", "OrderGroup"):
            create_group(wire, group)
        fill(wire, "PlainTopic", (5, 4, 4, 4))
        fill(wire, "NormalTopic", (4, 4, 4, 4))
        fill(wire, "OrderTopic", (4, 4))
        fill(wire, "RetryTopic", (1,))
        yield running


@pytest.mark.parametrize("name", SENDS)
def test_sends(wire: Wire, name: str) -> None:
    made_here = ("transactionId",) if name.startswith("10-") else ()  # these requests have no unique key
    play(wire, name, "msgId", "queueOffset", "recallHandle", *made_here)


@pytest.mark.parametrize("name", numbers("310-SEND_MESSAGE_V2", 7, 33))
def test_a_send_without_an_answer(wire: Wire, name: str) -> None:
    golden = decode_frame_untrusted(exchange(name).request)
    queue = {"topic": golden.ext["b"], "queueId": golden.ext["e"]}
    before = int(wire.ask(RequestCode.GET_MAX_OFFSET, queue).ext["offset"])
    wire.send(exchange(name).request)
    # A pull that comes in the same read finds nothing yet: it is held.
    answer = pull(wire, golden.ext["b"], int(golden.ext["e"]), before, hold_ms=HELD_MS)
    assert bodies(answer) == [golden.body] == [b"oneway"]


@pytest.mark.parametrize("name", numbers("310-SEND_MESSAGE_V2", 13, 39))
def test_a_time_to_deliver_at(wire: Wire, name: str) -> None:
    """The recorded time is past, so another one of the same length replaces it."""
    golden = exchange(name)
    recorded = parse(decode_frame_untrusted(golden.request).ext["i"])["TIMER_DELIVER_MS"].encode()
    soon = b"%d" % (time.time_ns() // 1_000_000 + 60_000)
    assert golden.request.count(recorded) == 1
    ours = said(wire.exchange(golden.request.replace(recorded, soon)))
    compare(name, ours, said(golden.answer), "msgId", "queueOffset", "recallHandle")


def test_a_queue_of_the_brokers_choice(wire: Wire) -> None:
    assert (
        0
        <= int(play(wire, "10-SEND_MESSAGE/02", "msgId", "queueOffset", "queueId", "transactionId")["ext"]["queueId"])
        < 4
    )


def test_checks_of_filters(wire: Wire) -> None:
    configure(wire, enablePropertyFilter="true")
    for one in exchanges(RequestCode.CHECK_CLIENT_CONFIG):
        play(wire, one.name)


def test_sending_back(wire: Wire) -> None:
    """The message at log offset 0 is the first one that was sent."""
    for number in ("02", "03", "04", "06", "07", "08"):  # 01 and 05 name a place in Apache's log, see below
        play(wire, f"36-CONSUMER_SEND_MSG_BACK/{number}")


def test_sending_back_what_lies_where_it_lay(tmp_path: Path) -> None:
    """The log is filled up to the log offset that the requests name."""
    for number in ("01", "05"):
        golden = decode_frame_untrusted(exchange(f"36-CONSUMER_SEND_MSG_BACK/{number}").request)
        place = int(golden.ext["offset"])
        with servers.standalone(tmp_path / number) as server, Wire(server.broker_addr) as wire:
            create_topic(wire, "RetryTopic", 2)
            create_group(wire, "RetryGroup")
            send(wire, "RetryTopic", 0)
            size_bytes = parse_offset_id_untrusted(send(wire, "RetryTopic", 0)).log_offset
            send(wire, "RetryTopic", 0, body=bytes(place - 3 * size_bytes + len(b"a message")))
            assert parse_offset_id_untrusted(send(wire, "RetryTopic", 0)).log_offset == place
            play(wire, f"36-CONSUMER_SEND_MSG_BACK/{number}")
            assert wire.ask(RequestCode.GET_MAX_OFFSET, {"topic": "SCHEDULE_TOPIC_XXXX", "queueId": "0"}).ext == {
                "offset": "1"
            }


def test_ends_of_no_transaction(wire: Wire) -> None:
    for number in ("06", "07", "13", "14"):
        play(wire, f"37-END_TRANSACTION/{number}")


def test_resuming_checks(wire: Wire) -> None:
    for one in exchanges(RequestCode.RESUME_CHECK_HALF_MESSAGE):
        play(wire, one.name)


def test_locks(wire: Wire) -> None:
    for number in ("01", "02"):
        play(wire, f"41-LOCK_BATCH_MQ/{number}")
        play(wire, f"42-UNLOCK_BATCH_MQ/{number}")


def test_telling_members(wire: Wire) -> None:
    consume(wire, "NormalGroup", subscription("NormalTopic"))
    notice = wire.receive()
    for each in exchanges(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED):
        golden = decode_frame_untrusted(each.request)
        assert (notice.code, notice.flag, notice.ext) == (golden.code, golden.flag, golden.ext)
