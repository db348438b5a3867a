"""Feeds: never two refreshes at once, longer waits after failures, and no waiting thread after a screen is closed."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable

import pytest

from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.refresh import BACKOFF_MAX_S, Feed
from rmqproto.errors import ConnectError, RefusedError, RequestTimeoutError, RocketMQError
from tests.support.quick import in_one_test

NOWHERE = "127.0.0.1:1"


def made(
    once: Callable[[Feed], Awaitable[None]],
    *,
    namesrv: str = NOWHERE,
    interval_s: float = 0.0,
    deadline_s: float = 60.0,
) -> Feed:
    client = DashboardClient(namesrv, None, 60.0, read_only=True)
    return Feed(client, once, lambda: None, lambda: interval_s, deadline_s=deadline_s)


async def stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_refreshes_do_not_overlap_and_wishes_are_one() -> None:
    async def run() -> None:
        running, begun, go_on = 0, 0, asyncio.Event()

        async def once(feed: Feed) -> None:
            nonlocal running, begun
            assert running == 0
            running, begun = running + 1, begun + 1
            await go_on.wait()
            go_on.clear()
            running -= 1

        feed = made(once, interval_s=3600)
        task = asyncio.create_task(feed.run())
        while begun < 1:
            await asyncio.sleep(0)
        for _ in range(5):
            feed.want()
        go_on.set()
        while begun < 2:
            await asyncio.sleep(0)
        go_on.set()
        while running:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert begun == 2, "five wishes during a refresh are one refresh after it"
        await stopped(task)

    asyncio.run(run())


def test_nothing_is_asked_while_paused_but_what_is_wanted_expressly() -> None:
    async def run() -> None:
        begun = 0

        async def once(feed: Feed) -> None:
            nonlocal begun
            begun += 1

        feed = made(once)
        feed.pause(True)
        task = asyncio.create_task(feed.run())
        for _ in range(50):
            await asyncio.sleep(0)
        assert begun == 0
        feed.want(although_paused=True)
        for _ in range(50):
            await asyncio.sleep(0)
        assert begun == 1
        await stopped(task)

    asyncio.run(run())


def test_waits_grow_after_failures_and_the_reason_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Timeout:
        def __init__(self, wait_s: float):
            waits.append(wait_s)

        async def __aenter__(self) -> None:
            await asyncio.sleep(0)
            raise TimeoutError

        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr(asyncio, "timeout", Timeout)

    async def run() -> None:
        works = False

        async def once(feed: Feed) -> None:
            if not works:
                raise ConnectError("nobody there")

        feed = made(once, interval_s=2.0)
        task = asyncio.create_task(feed.run())
        while len(waits) < 8:
            await asyncio.sleep(0)
        assert feed.error == "nobody there"
        assert feed.updated_s is None
        works = True
        count = len(waits)
        while len(waits) < count + 2:
            await asyncio.sleep(0)
        assert feed.error is None
        assert feed.updated_s is not None
        await stopped(task)

    asyncio.run(run())
    assert waits[:5] == [4.0, 8.0, 16.0, 32.0, BACKOFF_MAX_S]
    assert max(waits) == BACKOFF_MAX_S
    assert waits[-1] == 2.0, "one success, and it is as quick as ever"


@in_one_test(
    (ZeroDivisionError("division by zero"), "defect, ZeroDivisionError: division by zero"),
    (RefusedError(17, "No route: T\nSee https://rocketmq.apache.org/"), "refused: No route: T"),
)
def test_why_a_refresh_failed_is_said_in_one_line_and_does_not_end_the_dashboard(failure: Exception, told: str) -> None:
    async def run() -> None:
        async def once(feed: Feed) -> None:
            raise failure

        feed = made(once, interval_s=3600)
        task = asyncio.create_task(feed.run())
        while feed.error is None:
            await asyncio.sleep(0)
        assert feed.error == told
        await stopped(task)

    asyncio.run(run())


class Silent:
    """A server that accepts connections and never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(60)
        self.addr = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def accept(self) -> socket.socket:
        return self._listener.accept()[0]

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def test_closing_wakes_the_thread_that_waits_and_nothing_is_asked_after_it() -> None:
    """Otherwise a closed screen's threads would sit out their time-outs and keep the program from ending."""
    outcome: list[str] = []
    ended = threading.Event()

    def ask_two(client: DashboardClient) -> None:
        try:
            for _ in range(2):
                try:
                    client.topic_list()
                except RocketMQError as error:
                    outcome.append(str(error))
        finally:
            ended.set()

    async def run() -> None:
        with Silent() as server:

            async def once(feed: Feed) -> None:
                await feed.ask(ask_two)

            task = asyncio.create_task(made(once, namesrv=server.addr).run())
            with await asyncio.to_thread(server.accept) as connection:
                await asyncio.to_thread(connection.recv, 1)  # now the client waits for the answer
                await stopped(task)
                await asyncio.to_thread(ended.wait)

    asyncio.run(run())
    assert len(outcome) == 2
    assert "was cancelled" in outcome[0]
    assert "was closed" in outcome[1]


def test_a_refresh_ends_at_its_deadline() -> None:
    async def run() -> None:
        with Silent() as server:

            async def once(feed: Feed) -> None:
                await feed.ask(DashboardClient.topic_list)

            feed = made(once, namesrv=server.addr, interval_s=3600, deadline_s=0.05)
            task = asyncio.create_task(feed.run())
            while feed.error is None:
                await asyncio.sleep(0)
            # On a busy machine the time may be up before there is a connection, or before the first byte is sent.
            late = ("did not answer", "the time for all questions is up", "timed out")
            assert any(words in feed.error for words in late)
            await stopped(task)

    asyncio.run(run())


def test_after_the_deadline_nothing_is_sent() -> None:
    with DashboardClient(NOWHERE) as client:
        client.begin(0.0)
        with pytest.raises(RequestTimeoutError, match="was not asked: the time"):
            client.topic_list()
