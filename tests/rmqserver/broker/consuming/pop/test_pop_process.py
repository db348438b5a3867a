"""POP in a real broker: requests that wait, and kill -9 while messages are invisible."""

import signal
import time
from contextlib import ExitStack
from pathlib import Path

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.popping import NotificationHeader, PollingInfoHeader, PopHeader
from rmqproto.message.record import decode_records_untrusted
from rmqproto.wire.command import Command, encode_frame
from tests.rmqserver.broker.golden_state import create_topic, send
from tests.support import servers
from tests.support.wire import Wire

TOPIC, GROUP = "T", "G"
OTHER_GROUP = "N"
"""The notification has a group of its own: a message that a pop has taken is no news to the popper's group."""
POLL_MS = 15_000
WAITING = 12


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def pop_header(invisible_ms: int = 60_000, count: int = 32) -> PopHeader:
    return PopHeader(
        consumer_group=GROUP, topic=TOPIC, queue_id=-1, max_msg_nums=count, invisible_time=invisible_ms,
        poll_time=POLL_MS, born_time=now_ms(), init_mode=0,
    )  # fmt: skip


def bodies(answer: Command) -> list[bytes]:
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT), (answer.code, answer.remark)
    return [message.body for message in decode_records_untrusted(answer.body)]


def test_what_waits_is_woken_by_a_message(tmp_path: Path) -> None:
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as producer:
        create_topic(producer, TOPIC)
        with Wire(server.broker_addr) as popper, Wire(server.broker_addr) as noticer:
            notification = NotificationHeader(
                consumer_group=OTHER_GROUP, topic=TOPIC, queue_id=-1, poll_time=POLL_MS, born_time=now_ms()
            )
            asked = PollingInfoHeader(consumer_group=GROUP, topic=TOPIC, queue_id=-1)
            for waiter, request in (
                (popper, Command(code=RequestCode.POP_MESSAGE, ext=to_ext(pop_header()))),
                (noticer, Command(code=RequestCode.NOTIFICATION, ext=to_ext(notification))),
            ):
                waiter.send(encode_frame(request))
                # A connection's requests are served in order: this answer shows that the request before it waits.
                assert waiter.ask(RequestCode.POLLING_INFO, asked).ext["pollingNum"] == "1"
            send(producer, TOPIC, 2, body=b"news")
            assert bodies(popper.receive()) == [b"news"]
            assert noticer.receive().ext["hasMsg"] == "true"


def test_every_message_finds_one_of_those_that_wait(tmp_path: Path) -> None:
    """Each message wakes one pop. Two clients are gone when their turn comes, and a pop may take another message than
    the one that woke it."""
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as producer, ExitStack() as stack:
        create_topic(producer, TOPIC)
        poppers = [stack.enter_context(Wire(server.broker_addr)) for _ in range(WAITING)]
        asked = PollingInfoHeader(consumer_group=GROUP, topic=TOPIC, queue_id=-1)
        for number, popper in enumerate(poppers, 1):
            header = pop_header(count=1)
            header.poll_time = 120_000
            popper.send(encode_frame(Command(code=RequestCode.POP_MESSAGE, ext=to_ext(header))))
            assert popper.ask(RequestCode.POLLING_INFO, asked).ext["pollingNum"] == str(number)
        for gone in poppers[:2]:
            gone.hang_up()
        sent = [b"%d" % number for number in range(WAITING - 2)]
        for number, body in enumerate(sent):
            send(producer, TOPIC, number % 4, body=body)
        found = [bodies(popper.receive()) for popper in poppers[2:]]
        assert sorted(found) == sorted([body] for body in sent)


def test_nothing_is_lost_by_a_kill_while_it_is_invisible(tmp_path: Path) -> None:
    data = ("--data", tmp_path / "data")
    with servers.standalone(tmp_path, *data) as server, Wire(server.broker_addr) as wire:
        create_topic(wire, TOPIC)
        send(wire, TOPIC, 0, body=b"one")
        assert bodies(wire.ask(RequestCode.POP_MESSAGE, pop_header(invisible_ms=1000))) == [b"one"]
        server.stop(signal.SIGKILL)
    with servers.standalone(tmp_path, *data) as server, Wire(server.broker_addr) as wire:
        answer = wire.ask(RequestCode.POP_MESSAGE, pop_header())
        assert answer.code == ResponseCode.SUCCESS, answer
        (again,) = decode_records_untrusted(answer.body)
        assert (again.body, again.reconsume_times) == (b"one", 1)
