"""Bytes that arrive on a stream are handed to a plain function, by a trio task just as in the rounds of the loop."""

import random
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing, suppress
from socket import socket, socketpair

import pytest
import trio

from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Service
from rmqserver.remoting.traffic import BY_TASK, ByLoop, Ended, Take, Traffic, take_much, write_now

TIMEOUT_S = 20
LONG_S = 3600.0

Talk = Callable[[socket], Awaitable[None]]
Do = Callable[[Traffic, trio.SocketStream], Awaitable[None]]


class Rounds(Service):
    def __init__(self, events: list[str]) -> None:
        super().__init__("rounds", {})
        self._events = events

    def end_round(self) -> None:
        self._events.append("round")


@pytest.fixture(params=["by task", "by loop"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def between(
    way: str, talk: Talk, do: Callable[[Traffic, trio.SocketStream], Awaitable[None]], events: list[str]
) -> None:
    """Runs ``do`` on one end of a connection, and ``talk`` on the other. Each round adds "round" to ``events``."""

    async def main() -> None:
        with ExitStack() as stack, trio.fail_after(TIMEOUT_S):
            ours, theirs = socketpair()
            theirs.setblocking(False)
            stack.enter_context(theirs)
            loop = stack.enter_context(closing(Loop()))
            loop.listen("127.0.0.1", 0, Rounds(events))
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(loop.run)
                nursery.start_soon(talk, theirs)
                try:
                    await do(ByLoop(loop) if way == "by loop" else BY_TASK, stream)
                finally:
                    assert len(loop._watched) <= 2, "only its own, and trio's"
                    nursery.cancel_scope.cancel()

    trio.run(main)


def handed_over(
    way: str, take: Take, talk: Talk, *, silence_max_s: float = LONG_S, at_once: int = 100,
    events: list[str] | None = None,
) -> Ended:  # fmt: skip
    """Hands a connection over to ``take``; returns how it ended."""
    found: list[Ended] = []

    async def do(traffic: Traffic, stream: trio.SocketStream) -> None:
        found.append(await traffic.hand_over(stream, take, at_once_max_bytes=at_once, silence_max_s=silence_max_s))

    between(way, talk, do, [] if events is None else events)
    return found[0]


def test_all_of_it_comes_in_order_until_the_peer_closes(way: str) -> None:
    came: list[bytes] = []

    def take(data: bytes | memoryview) -> bool:
        came.append(bytes(data))
        return True

    async def talk(peer: socket) -> None:
        peer.send(b"first")
        while came != [b"fir", b"st"]:
            await trio.sleep(0)
        peer.send(b"abc")
        peer.close()

    assert handed_over(way, take, talk, at_once=3) is Ended.CLOSED
    assert came == [b"fir", b"st", b"abc"]


def test_nothing_comes_behind_what_was_enough(way: str) -> None:
    came: list[bytes] = []

    def take(data: bytes | memoryview) -> bool:
        came.append(bytes(data))
        return False

    async def talk(peer: socket) -> None:
        peer.send(b"abcdef")

    assert handed_over(way, take, talk, at_once=3) is Ended.ENOUGH
    assert came == [b"abc"]


def test_a_peer_that_is_silent_is_given_up_counted_from_its_last_word(way: str) -> None:
    came_s: list[float] = []

    def take(data: bytes | memoryview) -> bool:
        came_s.append(trio.current_time())
        return True

    async def talk(peer: socket) -> None:
        for number in range(1, 4):
            peer.send(b"x")
            while len(came_s) < number:
                await trio.sleep(0)

    assert handed_over(way, take, talk, silence_max_s=0.3) is Ended.SILENT
    assert len(came_s) == 3


def test_what_has_come_is_taken_though_the_time_is_over() -> None:
    """A process that stood still finds its timers first. It used to give up a peer that had not been silent."""
    came: list[bytes] = []

    def take(data: bytes | memoryview) -> bool:
        came.append(bytes(data))
        return True

    async def main() -> Ended:
        ours, theirs = socketpair()
        with theirs, closing(Loop()) as loop:  # which has not had its turn yet
            theirs.send(b"word")
            async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
                return await ByLoop(loop).hand_over(stream, take, at_once_max_bytes=100, silence_max_s=0)

    assert trio.run(main) is Ended.SILENT
    assert came == [b"word"]


def test_what_the_function_raises_is_raised_where_it_is_waited_for(way: str) -> None:
    def take(data: bytes | memoryview) -> bool:
        raise ValueError(bytes(data))

    async def talk(peer: socket) -> None:
        peer.send(b"abc")

    with pytest.raises(BaseExceptionGroup) as raised:
        handed_over(way, take, talk)
    assert raised.group_contains(ValueError, match="abc")


def test_it_comes_in_a_round_of_the_loop_which_ends_behind_it() -> None:
    """So the answers are sent at once."""
    events: list[str] = []

    def take(data: bytes | memoryview) -> bool:
        events.append(bytes(data).decode())
        return True

    async def talk(peer: socket) -> None:
        for each in ("a", "b"):
            peer.send(each.encode())
            while each not in events or events[-1] != "round":
                await trio.sleep(0)
        peer.close()

    assert handed_over("by loop", take, talk, events=events) is Ended.CLOSED
    assert [each for each in events if each != "round"] == ["a", "b"]
    assert all(events[events.index(each) + 1] == "round" for each in ("a", "b"))


def test_much_more_than_a_socket_takes_comes_whole_and_in_order(way: str) -> None:
    data = random.Random(1).randbytes(8 << 20)
    came = bytearray()

    async def talk(peer: socket) -> None:
        while True:
            with suppress(BlockingIOError):
                came.extend(peer.recv(300_000))
            await trio.sleep(0)

    async def do(traffic: Traffic, stream: trio.SocketStream) -> None:
        view = memoryview(data)
        await traffic.write_all(stream, [view[at : at + 3000] for at in range(0, len(data), 3000)])
        await traffic.write_all(stream, [b"the", b" end"])
        while len(came) < len(data) + 7:
            await trio.sleep(0)

    between(way, talk, do, [])
    assert came == data + b"the end"


def test_who_writes_hears_that_the_peer_is_gone(way: str) -> None:
    async def talk(peer: socket) -> None:
        while True:
            with suppress(BlockingIOError):
                peer.recv(100)
                peer.close()
                return
            await trio.sleep(0)

    async def do(traffic: Traffic, stream: trio.SocketStream) -> None:
        await traffic.write_all(stream, [bytes(8 << 20)])

    with pytest.raises(BaseExceptionGroup) as raised:
        between(way, talk, do, [])
    assert raised.group_contains(OSError)


def test_a_socket_takes_as_much_as_it_has_room_for() -> None:
    """A socket of trio takes 128 KiB. A slave that caught up used to get only so much at a time."""

    def taken(*, much: bool) -> int:
        async def main() -> int:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            stream = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
            async with listener, stream, await listener.accept():
                if much:
                    take_much(stream)
                return write_now(stream, [bytes(1 << 20)])

        return trio.run(main)

    assert taken(much=True) > 2 * taken(much=False)
