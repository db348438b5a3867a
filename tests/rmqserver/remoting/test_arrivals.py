"""What arrives on a stream comes to a plain function, by a task of trio's as in the rounds of the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing
from socket import socket, socketpair

import pytest
import trio

from rmqserver.remoting.arrivals import ByLoop, Ended, HandOver, Take, by_task
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Service

TIMEOUT_S = 20
LONG_S = 3600.0

Talk = Callable[[socket], Awaitable[None]]


class Rounds(Service):
    def __init__(self, events: list[object]) -> None:
        super().__init__("rounds", {})
        self._events = events

    def end_round(self) -> None:
        self._events.append("round")


@pytest.fixture(params=["by task", "by loop"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def handed_over(
    way: str, take: Take, talk: Talk, *, silence_max_s: float = LONG_S, at_once: int = 100,
    events: list[object] | None = None,
) -> Ended:  # fmt: skip
    """How it ended, while ``talk`` has the other end. ``events``: there each round notes its end."""
    found: list[Ended] = []

    async def main() -> None:
        with ExitStack() as stack, trio.fail_after(TIMEOUT_S):
            ours, theirs = socketpair()
            stack.enter_context(theirs)
            loop = stack.enter_context(closing(Loop()))
            loop.listen("127.0.0.1", 0, Rounds([] if events is None else events))
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
            hand_over: HandOver = ByLoop(loop) if way == "by loop" else by_task
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(loop.run)
                nursery.start_soon(talk, theirs)
                try:
                    ended = await hand_over(stream, take, at_once_max_bytes=at_once, silence_max_s=silence_max_s)
                    found.append(ended)
                finally:
                    assert ours.fileno() not in loop._watched
                    nursery.cancel_scope.cancel()

    trio.run(main)
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


def test_what_the_function_raises_is_raised_where_it_is_waited_for(way: str) -> None:
    def take(data: bytes | memoryview) -> bool:
        raise ValueError(bytes(data))

    async def talk(peer: socket) -> None:
        peer.send(b"abc")

    with pytest.raises(BaseExceptionGroup) as raised:
        handed_over(way, take, talk)
    assert raised.group_contains(ValueError, match="abc")


def test_it_comes_in_a_round_of_the_loop_which_ends_behind_it() -> None:
    """So what it answers is sent at once."""
    events: list[object] = []

    def take(data: bytes | memoryview) -> bool:
        events.append(bytes(data))
        return True

    async def talk(peer: socket) -> None:
        for each in (b"a", b"b"):
            peer.send(each)
            while each not in events or events[-1] != "round":
                await trio.sleep(0)
        peer.close()

    assert handed_over("by loop", take, talk, events=events) is Ended.CLOSED
    assert [each for each in events if each != "round"] == [b"a", b"b"]
    assert all(events[events.index(each) + 1] == "round" for each in (b"a", b"b"))
