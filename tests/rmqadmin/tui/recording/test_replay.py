"""A dashboard over a real broker is recorded, and the recording shows the same screens again, step by step."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.recording.recording_file import Head, PartTaken, RecordingReader, RecordingWriter
from rmqadmin.tui.recording.replay import RecordingClient, Replay
from rmqproto.codes import SUCCESS_ALONE, RequestCode, ResponseCode
from rmqproto.errors import RefusedError
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.opened import Driver, at_row, drive, line_of
from tests.rmqadmin.tui.test_groups import queue_line
from tests.support.peer import Peer, answer

FAST_S = 0.1
WIDE = (264, 40)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def record(world: World, path: Path) -> None:
    """Records the pulse, the groups, a group, and the arrival of one more message."""
    writer = RecordingWriter(path, Head(world.server.namesrv_addr, now_ms()))

    def make(*, read_only: bool) -> DashboardClient:
        client = RecordingClient(world.server.namesrv_addr, None, 5.0, read_only=read_only)
        client.recording, client.recorded_ms = writer, now_ms
        return client

    async def test(driver: Driver) -> None:
        await driver.until(lambda: driver.app.sampler is not None)
        sampler = driver.app.sampler
        assert sampler is not None
        await driver.until(lambda: sampler.pulse.is_complete)
        await at_row(driver, "g", world.group)
        await driver.until(lambda: " 4 " in line_of(driver, world.group, "offline"))
        await driver.press("enter")
        await driver.until_shown("4 queues, lag 4")
        world.send(b"one more")
        await driver.until_shown("4 queues, lag 5")
        brokers_s = sampler.brokers_s
        await driver.press("h")
        await driver.until(lambda: sampler.brokers_s > brokers_s)

    drive(make, test, size=WIDE, interval_s=FAST_S, recording=writer)
    writer.close()


@pytest.mark.parametrize(("accepted", "answered"), [(17, None), (None, 17)])
def test_a_refusal_is_accepted_by_who_accepts_it_whoever_asked_when_it_was_recorded(
    tmp_path: Path, accepted: int | None, answered: int | None
) -> None:
    """``accepted`` by who was recorded, ``answered`` to who asks the recording."""
    gone, path = {"topic": "T"}, tmp_path / "recording"

    def ask(client: DashboardClient, may_be_gone: int | None) -> int:
        accept = SUCCESS_ALONE if may_be_gone is None else (*SUCCESS_ALONE, may_be_gone)
        try:
            return client.call(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, gone, accept=accept).code
        except RefusedError as error:
            return -error.code

    with Peer(lambda request: answer(request, ResponseCode.TOPIC_NOT_EXIST)) as peer:
        address = peer.address
        writer = RecordingWriter(path, Head(address, now_ms()))
        with RecordingClient(address) as client:
            client.recording, client.recorded_ms = writer, now_ms
            assert ask(client, accepted) == (17 if accepted else -17)
        writer.end_step(now_ms())
        writer.close()
    replay = Replay(RecordingReader(path))
    replay.go_to(0)
    with replay.make_client(read_only=True) as asked:
        assert ask(asked, answered) == (17 if answered else -17)
    replay.reader.close()


@pytest.mark.slow
def test_the_same_screens_step_by_step(world: World, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    record(world, path)
    reader = RecordingReader(path)
    ends = [reader.events(step)[-1] for step in range(reader.step_count)]
    assert all(isinstance(end, PartTaken) and end.part == "brokers" for end in ends)
    replay = Replay(reader)
    last = reader.step_count

    async def at_step(driver: Driver, number: int) -> None:
        """Waits until the step is shown and no move is under way: a key pressed during a move would move again."""
        await driver.until(lambda: driver.app.sampler is not None and f"step {number} of {last}" in driver.text)

    async def test(driver: Driver) -> None:
        await at_step(driver, 1)
        await driver.until_shown("broker-a/0")
        await driver.press("right")
        await at_step(driver, 2)
        await driver.press("left")
        await at_step(driver, 1)
        await driver.press("shift+right")
        await at_step(driver, last)
        await driver.press("right")
        await at_step(driver, last)
        await at_row(driver, "g", world.group)
        await driver.until(lambda: "offline" in line_of(driver, world.group))
        await driver.press("enter")
        await driver.until(lambda: queue_line(driver, world, 0).split()[5:6] == ["2"])
        assert "read-only" in driver.text
        await driver.press("shift+left")
        await at_step(driver, 1)
        await driver.press("t", "p")
        await driver.until_shown("not in the recording")

    drive(
        replay.make_client, test, size=WIDE, clock=replay.now_ms, replay=replay, read_only=True, interval_s=FAST_S,
        context="replay",
    )  # fmt: skip
    assert replay.position == 0
    reader.close()


@pytest.mark.slow
def test_a_step_back_is_as_it_was_the_first_time(world: World, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    record(world, path)
    replay = Replay(RecordingReader(path))

    def state() -> object:
        pulse = replay.sampler.pulse
        return replay.now_ms(), pulse.brokers.lines(), pulse.wrong(), pulse.log.newest_first(), pulse.verdict()

    states = []
    for step in range(replay.reader.step_count):
        replay.go_to(step)
        states.append(state())
    for step in reversed(range(replay.reader.step_count)):
        replay.go_to(step)
        assert state() == states[step]
    replay.go_to(replay.reader.step_count - 1)
    lags = replay.sampler.pulse.groups.lags or {}
    assert world.group in lags
    replay.reader.close()
