"""The outcome of ``async with`` around a client."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest
import trio.testing
from anyio.abc import TaskGroup

from rmqclient.lifetime import LEAVE_TIMEOUT_S, Lifetime

Task = Callable[[], Awaitable[None]]


async def nothing() -> None:
    pass


class Sample(Lifetime):
    def __init__(self, *, start: Task = nothing, background: Task = anyio.sleep_forever, leave: Task = nothing):
        self.start, self.background, self.leave = start, background, leave
        self.events: list[str] = []

    async def _start(self, nursery: TaskGroup) -> None:
        nursery.start_soon(self._run)
        await self.start()

    async def _run(self) -> None:
        try:
            await self.background()
        finally:
            self.events.append("background ended")

    async def _leave(self) -> None:
        await self.leave()
        self.events.append("left")


async def fail() -> None:
    raise ValueError("broken")


@pytest.mark.anyio
async def test_leaving_comes_before_the_background_ends() -> None:
    """A consumer commits its offsets over connections that must still be open."""
    async with Sample() as sample:
        await anyio.lowlevel.checkpoint()
    assert sample.events == ["left", "background ended"]


@pytest.mark.anyio
async def test_what_the_body_raises_comes_out_as_it_is() -> None:
    sample = Sample()
    with pytest.raises(ValueError, match="broken"):
        async with sample:
            await fail()
    assert sample.events[-1] == "background ended"
    assert "left" in sample.events


@pytest.mark.anyio
async def test_what_the_start_raises_comes_out_as_it_is() -> None:
    with pytest.raises(ValueError, match="broken"):
        async with Sample(start=fail):
            raise AssertionError("the body must not run")


@pytest.mark.anyio
async def test_a_background_task_that_fails_ends_the_body() -> None:
    """A client whose background task has died must not look alive."""
    sample = Sample(background=fail)
    with pytest.RaisesGroup(ValueError, flatten_subgroups=True):
        async with sample:
            await anyio.sleep_forever()
    assert "left" not in sample.events


@pytest.mark.anyio
async def test_cancelling_from_outside_still_takes_leave() -> None:
    sample = Sample(leave=lambda: anyio.sleep(0))
    with anyio.CancelScope() as scope:
        async with sample:
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert sample.events == ["left", "background ended"]


@pytest.mark.anyio
async def test_a_client_that_is_cancelled_before_it_begins_ends_at_once() -> None:
    """It used to wait for its own background tasks, which are shielded, and so for ever."""
    sample = Sample(start=anyio.lowlevel.checkpoint)
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with sample:
            pytest.fail("the body must not begin")
    assert scope.cancelled_caught
    assert sample.events == ["background ended"]


@pytest.mark.trio
async def test_taking_leave_of_a_broker_that_hangs_ends(autojump_clock: trio.testing.MockClock) -> None:
    started_s = anyio.current_time()
    async with Sample(leave=anyio.sleep_forever):
        pass
    assert anyio.current_time() - started_s == pytest.approx(LEAVE_TIMEOUT_S)
