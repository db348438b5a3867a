"""Crashes of ``timerwheel``, ``timerlog``, ``timercheck`` and the log, by the fault model of ``recording_disk.py``. No
timer is lost. After a kill none comes twice; after a power cut, none comes twice that the checkpoint counts as
delivered."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
import trio
from trio.testing import MockClock

from rmqproto.message import properties as props
from rmqproto.message.record import decode_record_untrusted
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.message_store import MessageStore
from rmqserver.store.new_message import NewMessage
from rmqserver.store.options import FlushMode
from rmqserver.store.timers.timer_check import TimerCheckpoint
from tests.rmqserver.broker.parts import parts_on
from tests.support.clock import Clock

from .invariants import Violation
from .recording_disk import Loss, RecordingDisk
from .workload import HOST, ROOT, USER_DIRECTORY, options_for

START_MS = 1_800_000_000_000
SETTINGS = "timerFlushIntervalMs=1000\nmappedFileSizeTimerLog=1040"
"""A timer log file holds 19 units."""
STEPS = 12
IMAGE_EVERY = 3
"""How many changes of the disk lie between two images: an image contains a wheel of 39 MB."""
LOSSES = (Loss.NOTHING, Loss.EVERYTHING, Loss.TORN, Loss.SOME)


class TimerBroker:
    """Timers on a store on ``disk``."""

    def __init__(self, disk: RecordingDisk, clock: Clock):
        self.store = MessageStore(ROOT, options_for(FlushMode.SYNC), disk, clock_ms=clock, background=False)
        recovered = self.store.open()
        self._files = ConfigFiles(self.store.directory.config, disk, background=False)
        parts = parts_on(self.store, self._files, SETTINGS)
        self._put, self.timers = parts.put, parts.timers
        self.timers.load(clean=recovered.was_clean)

    def send(self, number: int, delay_ms: int) -> None:
        named = {props.UNIQUE_KEY: f"K{number}", "TIMER_DELAY_MS": str(delay_ms)}
        self._put.put(NewMessage(
            topic="T", queue_id=0, flag=0, sys_flag=0, born_timestamp_ms=1, born_host=HOST, store_host=HOST,
            reconsume_times=0, body=b"%d" % number, properties=named,
        ))  # fmt: skip
        self.store.commit()

    async def step(self) -> bool:
        is_busy = await self.timers.step()
        self._files.wait_until_saved()
        self.store.flush()
        return is_busy

    async def deliver_all(self) -> Counter[int]:
        """Delivers all timers; returns how often each came."""
        while await self.step():
            pass
        found: list[bytes] = []
        while records := self.store.get("T", 0, len(found), 32).records():
            found += records
        return Counter(int(decode_record_untrusted(record).body) for record in found)

    def kill(self) -> None:
        self._files.close()
        self.store.abandon()


class Day:
    """One run of a seed; every few changes of the disk, an image is checked."""

    def __init__(self, seed: int, images_max: int):
        self.images_left = images_max
        self._seed = seed
        self._rng, self._image_rng = Random(seed), Random(seed + 1)
        self._disk = RecordingDisk()
        self._clock = Clock()
        self._clock.now_ms = START_MS
        self._due_ms: dict[int, int] = {}
        self._kept_count = 0
        """How many timers were acknowledged, since a flush covered them."""
        self._change_count = 0
        self._violation: Violation | None = None

    async def run(self, time: MockClock) -> None:
        self._disk.mkdir(USER_DIRECTORY)
        self._disk.sync_directory("/")
        broker = TimerBroker(self._disk, self._clock)
        self._disk.on_change = self._crash
        for _ in range(STEPS):
            for _ in range(self._rng.randrange(6)):
                number, delay_ms = len(self._due_ms), self._rng.randrange(1, 6) * 1000
                self._due_ms[number] = self._clock.now_ms + delay_ms
                broker.send(number, delay_ms)
            broker.store.flush()
            self._kept_count = len(self._due_ms)
            await broker.step()
            time.jump(self._rng.choice((0, 2)))  # after a jump, a checkpoint is saved
            self._clock.now_ms += self._rng.choice((0, 0, 1000, 3000))
            await broker.step()
        self._disk.on_change = None
        broker.kill()
        if self._violation is not None:
            raise self._violation

    def _crash(self) -> None:
        self._change_count += 1
        if self.images_left <= 0 or self._violation is not None or self._change_count % IMAGE_EVERY:
            return
        self.images_left -= 1
        loss = self._image_rng.choice(LOSSES)
        image = self._disk.image(loss, Random(self._image_rng.getrandbits(32)))
        try:
            with ThreadPoolExecutor(1) as thread:  # trio.run cannot be nested
                thread.submit(trio.run, self._check, image, loss).result()
        except Exception as error:
            about = f"[seed {self._seed}, change {self._change_count}, {loss.name}]"
            self._violation = Violation(f"{error} {about}").with_traceback(error.__traceback__)

    async def _check(self, image: RecordingDisk, loss: Loss) -> None:
        kept_count, sent_count = self._kept_count, len(self._due_ms)
        check = TimerCheckpoint.read(image, f"{ROOT}/config/timercheck")
        clock = Clock()
        clock.now_ms = self._clock.now_ms
        broker = TimerBroker(image, clock)
        clock.now_ms += 60_000
        counts = await broker.deliver_all()
        broker.kill()
        lost = [number for number in range(kept_count) if not counts[number]]
        once = [number for number in range(sent_count)
                if loss is Loss.NOTHING or self._due_ms[number] + 1000 <= check.read_time_ms]  # fmt: skip
        twice = [number for number in once if counts[number] > 1]
        if lost or twice:
            raise Violation(f"lost: {lost}, twice: {twice}")


@pytest.mark.parametrize("count", [12, pytest.param(500, marks=pytest.mark.crash)])
def test_no_timer_is_lost_and_none_comes_twice(count: int) -> None:
    left, seed = count, 0
    while left > 0:
        day = Day(seed, left)
        time = MockClock()
        trio.run(day.run, time, clock=time)
        left, seed = day.images_left, seed + 1
