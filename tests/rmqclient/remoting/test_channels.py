"""The trio channels: answers reach the right task, broken connections, requests from the broker."""

import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from rmqclient.remoting.channel import UNSENT_MAX_BYTES
from rmqclient.remoting.channels import REQUEST_TIMEOUT_S, BrokerRequestHandler, Channels
from rmqproto.codes import ONEWAY_FLAG, RequestCode
from rmqproto.errors import ConnectError, NotFoundError, RefusedError, RequestTimeoutError
from rmqproto.wire.command import Command
from tests.support.peer import CLOSE, Peer, answer

pytestmark = pytest.mark.trio

CODE = RequestCode.SEND_MESSAGE_V2
SOON_S = 0.05
LONG_S = 20.0


def echo(request: Command) -> Command:
    return answer(request, body=request.body)


@asynccontextmanager
async def running(
    *,
    handlers: Mapping[int, BrokerRequestHandler] | None = None,
    greeting: Callable[[str], bytes | None] = lambda address: None,
) -> AsyncIterator[Channels]:
    channels = Channels(None, handlers, greeting)
    async with trio.open_nursery() as nursery:
        await nursery.start(channels.run)
        yield channels
        nursery.cancel_scope.cancel()


async def until(peer: Peer, condition: Callable[[], bool]) -> None:
    await trio.to_thread.run_sync(peer.wait_for, condition)


async def test_many_tasks_share_one_connection_and_get_each_their_own_answer() -> None:
    with Peer(echo) as peer:
        async with running() as channels, trio.open_nursery() as nursery:

            async def ask(number: int) -> None:
                for _ in range(10):
                    body = b"%d" % number
                    assert (await channels.request(peer.address, CODE, body=body, timeout_s=LONG_S)).body == body

            for number in range(30):
                nursery.start_soon(ask, number)
        assert peer.connections == 1


@pytest.mark.parametrize("address", ["nowhere", "host:port", "a..b:10911"])
async def test_what_is_no_address_fails_alone(address: str) -> None:
    """A name server may report a broker with such an address, which used to end the client."""
    with Peer(echo) as peer:
        async with running() as channels:
            with pytest.raises(ConnectError, match="is not an address"):
                await channels.request(address, CODE)
            assert (await channels.request(peer.address, CODE, body=b"x", timeout_s=LONG_S)).body == b"x"


async def test_answers_may_come_in_any_order() -> None:
    held: list[Command] = []

    def reply(request: Command) -> list[Command]:
        held.append(request)
        return [echo(each) for each in reversed(held)] if len(held) == 3 else []

    got: list[bytes] = []
    with Peer(reply) as peer:
        async with running() as channels, trio.open_nursery() as nursery:

            async def ask(body: bytes) -> None:
                got.append((await channels.request(peer.address, CODE, body=body)).body)

            for body in (b"a", b"b", b"c"):
                nursery.start_soon(ask, body)
    assert sorted(got) == [b"a", b"b", b"c"]


async def test_a_request_of_the_broker_with_our_opaque_is_not_taken_for_the_answer() -> None:
    def ask_back(request: Command) -> list[Command]:
        return [Command(code=999, opaque=request.opaque, body=b"push"), echo(request)]

    with Peer(ask_back) as peer:
        async with running() as channels:
            assert (await channels.request(peer.address, CODE, body=b"right")).body == b"right"
            await until(peer, lambda: bool(peer.answers))
        assert (peer.answers[0].code, peer.answers[0].remark) == (3, " request type 999 not supported")


async def test_a_broker_that_hangs_is_a_timeout_for_each_request_and_the_connection_stays() -> None:
    with Peer(lambda request: echo(request) if request.body else None) as peer:
        async with running() as channels:
            await channels.request(peer.address, CODE, body=b"first")  # connects, however long that takes
            with pytest.raises(RequestTimeoutError, match="310 SEND_MESSAGE_V2"):
                await channels.request(peer.address, CODE, timeout_s=SOON_S)
            assert (await channels.request(peer.address, CODE, body=b"x")).body == b"x"
        assert peer.connections == 1


async def test_a_connection_that_breaks_wakes_all_who_wait() -> None:
    """If the tasks waited for their time-outs, pulls of thirty seconds would hang long after the broker is back."""
    with Peer(lambda request: CLOSE if request.body == b"die" else None) as peer:
        async with running() as channels, trio.open_nursery() as nursery:
            failures: list[str] = []

            async def ask(body: bytes) -> None:
                with pytest.raises(ConnectError) as caught:
                    await channels.request(peer.address, CODE, body=body, timeout_s=LONG_S)
                failures.append(caught.value.address)

            for _ in range(5):
                nursery.start_soon(ask, b"")
            await until(peer, lambda: len(peer.requests) == 5)
            nursery.start_soon(ask, b"die")
        assert failures == [peer.address] * 6


async def test_the_next_request_after_a_break_connects_again() -> None:
    with Peer(echo) as peer:
        async with running() as channels:
            await channels.request(peer.address, CODE)
            peer.hang_up()
            while channels.addresses:
                await trio.lowlevel.checkpoint()
            with pytest.raises(ConnectError, match="refused"):
                await channels.request(peer.address, CODE)
            peer.listen()
            assert (await channels.request(peer.address, CODE, body=b"x")).body == b"x"


async def test_a_broker_that_says_go_away_is_connected_to_anew() -> None:
    """A broker answers 1500 before it stops, so the next request on the old connection would fail."""
    with Peer(lambda request: answer(request, 0 if request.body else 1500)) as peer:
        async with running() as channels:
            with pytest.raises(RefusedError):
                await channels.request(peer.address, CODE)
            await channels.request(peer.address, CODE, body=b"x")
        assert peer.connections == 2


async def test_who_waits_for_a_connection_shares_the_attempt_and_its_failure() -> None:
    """If each task tried on its own, a hundred queues of a dead broker would wait for minutes."""
    with Peer(echo) as peer:
        peer.hang_up()
        async with running() as channels, trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(ConnectError):
                    await channels.request(peer.address, CODE)

            for _ in range(50):
                nursery.start_soon(ask)


async def test_a_task_that_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    with Peer(lambda request: echo(request) if request.body else None) as peer:
        async with running() as channels:
            with trio.move_on_after(SOON_S):
                await channels.request(peer.address, CODE, timeout_s=LONG_S)
            assert (await channels.request(peer.address, CODE, body=b"x")).body == b"x"


async def test_who_wants_a_connection_when_all_ends_hears_that_it_has_ended() -> None:
    """A task that is cancelled together with the channels may still ask for a connection. It used to meet a closed
    nursery."""
    channels = Channels()
    async with trio.open_nursery() as nursery:
        await nursery.start(channels.run)
        nursery.cancel_scope.cancel()
    with pytest.raises(ConnectError, match="not running"):
        await channels.request("127.0.0.1:1", CODE)


async def test_garbage_closes_the_connection() -> None:
    with Peer(lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n") as peer:
        async with running() as channels:
            with pytest.raises(ConnectError, match="frame"):
                await channels.request(peer.address, CODE, timeout_s=LONG_S)


async def test_a_new_connection_begins_with_a_heartbeat_and_waits_for_its_answer() -> None:
    """After a reconnect the broker does not know our groups: a pull before the heartbeat is refused with 24."""
    with Peer(echo) as peer:
        async with running(greeting=lambda address: b"hello") as channels:
            await channels.request(peer.address, CODE)
            peer.drop_channels()
            while channels.addresses:
                await trio.lowlevel.checkpoint()
            await channels.request(peer.address, CODE)
        assert peer.codes() == [34, 310, 34, 310]
        assert peer.requests[0].body == b"hello"


async def test_a_heartbeat_that_is_refused_does_not_keep_us_from_working() -> None:
    with Peer(lambda request: answer(request, 1 if request.code == 34 else 0)) as peer:
        async with running(greeting=lambda address: b"hello") as channels:
            await channels.request(peer.address, CODE)


async def test_a_heartbeat_that_is_never_answered_is_passed_over(mock_clock: MockClock) -> None:
    """The connection used to be given up with the heartbeat, and was never closed."""
    with Peer(lambda request: None if request.code == 34 else echo(request)) as peer:
        async with running(greeting=lambda address: b"hello") as channels, trio.open_nursery() as nursery:
            nursery.start_soon(partial(channels.request, peer.address, CODE, timeout_s=LONG_S))
            await until(peer, lambda: peer.codes() == [34])
            mock_clock.jump(REQUEST_TIMEOUT_S + 1)
        assert peer.codes() == [34, CODE]
        assert peer.connections == 1


async def test_requests_of_the_broker_are_answered() -> None:
    async def fine(request: Command) -> bytes:
        return b"info"

    async def unknown(request: Command) -> bytes:
        raise NotFoundError("no such topic")

    async def broken(request: Command) -> bytes:
        raise KeyError("bug")

    handlers = {307: fine, 221: unknown, 309: broken}
    with Peer(echo) as peer:
        async with running(handlers=handlers) as channels:
            await channels.request(peer.address, CODE)
            for code in handlers:
                peer.push(Command(code=code, opaque=code))
                await until(peer, lambda code=code: peer.answers[-1:] != [] and peer.answers[-1].opaque == code)
            peer.push(Command(code=307, opaque=1, flag=ONEWAY_FLAG))
            peer.push(Command(code=307, opaque=2))
            await until(peer, lambda: len(peer.answers) == 4)
            await channels.request(peer.address, CODE)  # the connection survived it all
        assert [(a.opaque, a.code, a.remark, a.body) for a in peer.answers] == [
            (307, 0, None, b"info"),
            (221, 1, "no such topic", b""),
            (309, 1, "KeyError: 'bug'", b""),
            (2, 0, None, b"info"),
        ]


async def test_a_peer_that_does_not_read_stops_the_senders() -> None:
    """Without a bound, oneway messages to a hanging broker would fill our memory."""
    stop = threading.Event()
    frame = bytes(1 << 20)
    sent_bytes = 0

    def hang(request: Command) -> Command | None:
        if request.body == b"first":
            return echo(request)
        stop.wait(LONG_S)
        return None

    async def flood(channels: Channels) -> None:
        nonlocal sent_bytes
        while sent_bytes < 4 * UNSENT_MAX_BYTES:
            await channels.oneway(peer.address, CODE, body=frame, timeout_s=SOON_S)
            sent_bytes += len(frame)

    with Peer(hang) as peer:
        async with running() as channels:
            await channels.request(peer.address, CODE, body=b"first")
            with pytest.raises(RequestTimeoutError, match="does not read"):
                await flood(channels)
        stop.set()
    assert sent_bytes <= UNSENT_MAX_BYTES * 2


async def test_large_requests_and_answers_pass_in_pieces() -> None:
    body = bytes(range(256)) * (8 * 1024)
    with Peer(echo) as peer:
        async with running() as channels:
            assert (await channels.request(peer.address, CODE, body=body, timeout_s=LONG_S)).body == body
