"""Waiting beside trio: the loop gets its events, and trio does all its work, whichever way the loop waits."""

import os
import select
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio
from trio.testing import MockClock

from rmqserver.remoting import waits
from rmqserver.remoting.waits import Waits, inside_trio

TIMEOUT_S = 20.0
SOON_S = 0.01

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def epoll() -> Iterator[select.epoll]:
    with select.epoll() as made:
        yield made


@pytest.fixture
def pair(epoll: select.epoll) -> Iterator[Pair]:
    """A pair of sockets; the first one is in the epoll set."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        epoll.register(ours.fileno(), select.EPOLLIN)
        yield ours, theirs


@pytest.fixture(params=["beside trio", "in trio"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """If trio's epoll set is not found, the loop waits in trio, with the same results."""
    if request.param == "in trio":
        monkeypatch.setattr(waits, "inside_trio", lambda: None)
    return str(request.param)


async def waiting(epoll: select.epoll, events: list[int]) -> None:
    """Waits as the loop does, until cancelled."""
    with Waits(epoll) as beside:
        while True:
            for fd, _ in await beside.wait(gather=len(events) % 2 == 1) or epoll.poll(0):
                if fd in beside.watched:
                    beside.watched[fd]()
                else:
                    events.append(fd)
                    os.read(fd, 1)


def run(epoll: select.epoll, body: Callable[[list[int]], Awaitable[None]]) -> None:
    async def main() -> None:
        events: list[int] = []
        with trio.fail_after(TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waiting, epoll, events)
                await body(events)
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_the_trio_that_is_installed_has_its_set_where_we_look() -> None:
    """Otherwise the loop is slower than it could be. If this fails, find out where the set is now."""

    async def main() -> None:
        inside = inside_trio()
        assert inside is not None
        with trio.move_on_after(3600) as scope:
            assert inside.next_deadline_s() == scope.deadline

    trio.run(main)
    assert inside_trio() is None


def test_events_come_while_trio_sleeps_and_timers_while_nothing_comes(
    epoll: select.epoll, pair: Pair, way: str
) -> None:
    async def body(events: list[int]) -> None:
        for number in range(3):
            pair[1].send(b"x")
            while len(events) == number:
                await trio.sleep(SOON_S)

    run(epoll, body)


def test_descriptors_of_trios_own_and_threads_are_served(epoll: select.epoll, pair: Pair, way: str) -> None:
    async def body(events: list[int]) -> None:
        ours, theirs = trio.socket.socketpair()
        for _ in range(3):  # a descriptor that was ready once is waited for again
            await trio.to_thread.run_sync(lambda: None)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(theirs.send, b"x")
                assert await ours.recv(1) == b"x"
        ours.close()
        theirs.close()

    run(epoll, body)


@pytest.mark.parametrize("gather", [False, True])
def test_trio_has_its_turn_beside_a_peer_that_never_stops(epoll: select.epoll, way: str, gather: bool) -> None:
    """A descriptor that is always ready must not starve tasks that can run, deadlines, or trio's own descriptors."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        epoll.register(ours.fileno(), select.EPOLLIN)

        async def main() -> None:
            rounds = 0

            async def busy() -> None:
                nonlocal rounds
                with Waits(epoll) as beside:
                    while True:
                        for fd, _ in await beside.wait(gather=gather):
                            beside.watched.get(fd, int)()
                        rounds += 1

            with trio.fail_after(TIMEOUT_S):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(busy)
                    await trio.sleep(SOON_S)
                    await trio.to_thread.run_sync(lambda: None)
                    async with trio.open_nursery() as children:
                        for _ in range(10):
                            children.start_soon(trio.lowlevel.checkpoint)
                    assert rounds
                    nursery.cancel_scope.cancel()

        trio.run(main)


def test_tasks_that_were_scheduled_before_it_began_run(epoll: select.epoll, pair: Pair, way: str) -> None:
    done: list[int] = []

    async def main() -> None:
        async def child(number: int) -> None:
            for _ in range(number):
                await trio.lowlevel.checkpoint()
            done.append(number)

        with trio.fail_after(TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(child, number)
                with Waits(epoll) as beside:
                    nursery.start_soon(_send_when, lambda: len(done) == 20, pair[1])
                    while not (await beside.wait() or epoll.poll(0)):
                        pass

    trio.run(main)


async def _send_when(condition: Callable[[], bool], sock: socket.socket) -> None:
    while not condition():
        await trio.sleep(0.001)
    sock.send(b"x")


def test_with_the_clock_of_a_test_it_waits_in_trio(epoll: select.epoll, pair: Pair) -> None:
    """A clock that jumps when all are blocked must find all blocked."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting, epoll, [])
            await trio.sleep(3600)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
