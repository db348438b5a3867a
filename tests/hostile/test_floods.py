"""Too many allowed requests: answers that nobody reads, pulls that all wake at once, endless new names, thousands of
connections. Memory stays within the limits, and the good client is served."""

import contextlib
import resource
import socket
from collections.abc import Iterator

from rmqproto.codes import RequestCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.consuming import PullHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.wire.command import Command, encode_frame
from tests.hostile.conftest import Victim
from tests.support.wire import TIMEOUT_S, Wire

IDLE_CONNECTIONS = 2000
STUCK_S = 1.0
"""After a send has blocked for this long, the server has stopped reading from us."""


@contextlib.contextmanager
def deaf(address: str) -> Iterator[socket.socket]:
    """A connection of a client that never reads and has the smallest receive buffer that the kernel gives."""
    host, _, port = address.rpartition(":")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        sock.settimeout(TIMEOUT_S)
        sock.connect((host, int(port)))
        sock.settimeout(STUCK_S)
        yield sock


def flood(sock: socket.socket, data: bytes, rounds: int) -> None:
    """Sends until all rounds are sent, the server stops reading, or it closes the connection."""
    with contextlib.suppress(TimeoutError, ConnectionError):
        for _ in range(rounds):
            sock.sendall(data)


def store_messages(victim: Victim, topic: str, count: int, size_bytes: int) -> None:
    with Wire(victim.broker_addr) as wire:
        wire.create_topic(topic, 1)
        for _ in range(count):
            header = SendHeaderV2(producer_group="p", topic=topic, queue_id=0, born_timestamp=1)
            assert wire.ask(RequestCode.SEND_MESSAGE_V2, header, bytes(size_bytes)).code == 0


def pull(topic: str, queue_offset: int, count: int, *, hold_ms: int = 0) -> bytes:
    header = PullHeader(
        consumer_group="deaf", topic=topic, queue_id=0, queue_offset=queue_offset, max_msg_nums=count,
        sys_flag=6 if hold_ms else 4, suspend_timeout_millis=hold_ms, subscription="*",
    )  # fmt: skip
    return encode_frame(Command(code=RequestCode.PULL_MESSAGE, ext=to_ext(header)))


def test_pipelined_pulls_of_one_who_does_not_read(victim: Victim) -> None:
    """64 KiB of requests ask for more than 100 MiB, which used to be built whole before anything was sent."""
    store_messages(victim, "Large", 32, 8000)
    requests = pull("Large", 0, 32) * 1000
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            flood(stack.enter_context(deaf(victim.broker_addr)), requests[: 64 << 10], 1)
        victim.check()
        flood(stack.enter_context(deaf(victim.broker_addr)), requests, 100)
        victim.check()


def test_held_pulls_that_one_message_wakes_all_at_once(victim: Victim) -> None:
    """2,000 pulls on ten connections wait for one message of 4 MB, so its arrival asks for 8 GB of answers."""
    store_messages(victim, "Woken", 1, 10)
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            flood(stack.enter_context(deaf(victim.broker_addr)), pull("Woken", 1, 32, hold_ms=60_000) * 200, 1)
        store_messages(victim, "Woken", 1, 4_000_000)
        victim.check()


def test_requests_that_would_take_for_ever_are_cut_short(victim: Victim) -> None:
    """Three such requests: one topic named 20,000 times, a retry topic of 10^9 queues, and a pull that scans 10^9
    units."""
    store_messages(victim, "Slow", 3, 10)
    with Wire(victim.broker_addr) as wire:
        wire.create_topic("Wide", 16_384)
        fields = {"consumerGroup": "g", "topicList": "Wide;" * 20_000}
        assert wire.ask(RequestCode.GET_CONSUME_STATS, fields).code == 0
        group = b'{"groupName":"wide","retryQueueNums":1000000000}'
        assert wire.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group).code != 0
        wide = {"topic": "Wider", "readQueueNums": "1000000000", "writeQueueNums": "1000000000", "perm": "6"}
        assert wire.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**wide, "topicFilterType": "SINGLE_TAG"}).code != 0
        ask = {"consumerGroup": "g", "topic": "Slow", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1000000000"}
        answer = wire.ask(RequestCode.PULL_MESSAGE, {**ask, "sysFlag": "4", "subscription": "no-such-tag"})
        assert answer.ext["nextBeginOffset"] == "3"


def test_two_thousand_idle_connections(victim: Victim) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * IDLE_CONNECTIONS)), hard))
    try:
        with contextlib.ExitStack() as stack:
            idle = [
                stack.enter_context(Wire((victim.broker_addr, victim.namesrv_addr)[number % 2]))
                for number in range(IDLE_CONNECTIONS)
            ]
            victim.check()
            for wire in idle[:: IDLE_CONNECTIONS // 20]:  # each still gets an answer
                assert wire.ask(9999).code == 3
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
