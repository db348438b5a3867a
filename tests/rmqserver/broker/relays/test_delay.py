"""Which delayed messages are due, and when the delivery progress is saved."""

from pathlib import Path
from typing import Any

import pytest

from rmqproto.names import SCHEDULE_TOPIC
from rmqserver.broker.relays.delay import count_due
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode, StoreOptions
from rmqserver.store.results import MessageRefused
from tests.rmqserver.broker.parts import parts_on
from tests.rmqserver.store.conftest import put
from tests.support.clock import Clock

LEVEL_MS = 1000


class Bench:
    """Delays of one level on a store and a clock of their own."""

    def __init__(
        self,
        directory: Path,
        flush_mode: FlushMode = FlushMode.ASYNC,
        *,
        waits_for_copies: bool = False,
        has_light_queues: bool = False,
    ):
        self.clock = Clock()
        options = StoreOptions(
            flush_mode=flush_mode, waits_for_copies=waits_for_copies, commit_log_file_size_bytes=1 << 20,
            index_slot_count=10, index_unit_count=40, delay_levels_ms=(LEVEL_MS,), message_size_max_bytes=1000,
            light_queues_enabled=has_light_queues,
        )  # fmt: skip
        self.options = options
        self.store = MessageStore(directory, options, clock_ms=self.clock, background=False)
        self.store.open()
        self.files = ConfigFiles(str(directory / "config"), OsDisk())
        self.delays = parts_on(self.store, self.files, "messageDelayLevel=1s").delays
        self.delays.load()

    def wait(self, body: bytes = b"body", topic: str = "T", more: str = "", queue_id: int = 0) -> None:
        """Stores a delayed message, with ``more`` properties."""
        properties = f"DELAY\x011\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x010\x02{more}".encode()
        put(self.store, SCHEDULE_TOPIC, queue_id, body, properties=properties)
        self.store.commit()

    async def deliver(self) -> bool:
        (relay,) = self.delays.relays()
        return await relay.step()

    def delivered(self, topic: str = "T") -> int:
        return self.store.max_offset(topic, 0)

    def close(self) -> None:
        self.files.close()
        self.store.close()


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    made = Bench(tmp_path)
    yield made
    made.close()


async def test_message_is_delivered_when_its_time_has_come(bench: Bench) -> None:
    bench.wait()
    bench.clock.now_ms += LEVEL_MS - 1
    assert not await bench.deliver()
    assert bench.delivered() == 0
    bench.clock.now_ms += 1
    assert await bench.deliver()
    assert (bench.delivered(), bench.delays.offsets) == (1, {1: 1})
    assert not await bench.deliver()


async def test_time_further_off_than_the_level_is_long_does_not_count(bench: Bench) -> None:
    """The clock was set back, or the levels were longer when the message came: it must not wait for years."""
    bench.wait()
    bench.clock.now_ms -= 3_600_000
    queue = bench.store.queues.find(SCHEDULE_TOPIC, 0)
    assert queue is not None
    assert count_due(queue, 0, bench.clock.now_ms, LEVEL_MS) == 1


async def test_what_waits_in_a_level_that_the_settings_lack_by_now_is_delivered(tmp_path: Path) -> None:
    """It waited without a word, until the settings had as many levels again."""
    bench = Bench(tmp_path)
    bench.wait(queue_id=16)
    bench.close()
    again = Bench(tmp_path)
    again.clock.now_ms += LEVEL_MS - 1
    relay = again.delays.relays()[-1]
    assert not await relay.step()
    again.clock.now_ms += 1
    assert await relay.step()
    assert (again.delivered(), again.delays.offsets) == (1, {17: 1})
    again.close()


async def test_damaged_and_half_messages_are_passed_over(bench: Bench) -> None:
    bench.wait(topic="RMQ_SYS_TRANS_HALF_TOPIC")
    put(bench.store, SCHEDULE_TOPIC, 0, b"no real topic")
    put(bench.store, SCHEDULE_TOPIC, 0, b"bad queue", properties=b"REAL_TOPIC\x01T\x02REAL_QID\x01x\x02")
    bench.wait(b"good")
    bench.clock.now_ms += LEVEL_MS
    while await bench.deliver():
        pass
    assert bench.delays.offsets == {1: 4}
    assert bench.delivered("RMQ_SYS_TRANS_HALF_TOPIC") == 0
    assert bench.store.get("T", 0, 0, 9).records()[0].count(b"good") == 1


async def test_copy_that_is_refused_is_the_next_to_be_tried(bench: Bench) -> None:
    """The copies before it are delivered once, and the refused one is not lost."""
    for body in (b"first", b"x" * 900, b"last"):
        bench.wait(body)
    bench.clock.now_ms += LEVEL_MS
    smaller = StoreOptions(message_size_max_bytes=100, delay_levels_ms=(LEVEL_MS,))
    bench.store.use_options(smaller)
    for _ in range(2):
        with pytest.raises(MessageRefused):
            await bench.deliver()
        assert (bench.delivered(), bench.delays.offsets) == (1, {1: 1})
    bench.store.use_options(bench.options)
    assert await bench.deliver()
    assert (bench.delivered(), bench.delays.offsets) == (3, {1: 3})


async def test_copy_that_can_never_be_put_holds_up_none_behind_it(tmp_path: Path) -> None:
    """The copy's properties would also name its place in a light queue, and they have no room for that."""
    bench = Bench(tmp_path, has_light_queues=True)
    bench.wait(b"long", more=f"INNER_MULTI_DISPATCH\x01%LMQ%a\x02K\x01{'v' * 32_690}\x02")
    bench.wait(b"last")
    bench.clock.now_ms += LEVEL_MS
    assert await bench.deliver()
    assert (bench.delivered(), bench.delays.offsets) == (1, {1: 2})
    bench.close()


async def test_what_comes_where_another_log_had_delivered_already_is_delivered(bench: Bench) -> None:
    """A slave knows how far its master has delivered, even beyond its own copy of the log. As the master's successor it
    used to pass over new messages until there were as many, and what only the master's log has delivered."""
    bench.files.save("delayOffset.json", {"offsetTable": {"1": 5, "2": 3}})
    bench.files.wait_until_saved()
    bench.delays.load()
    bench.wait(b"old")
    bench.delays.hold_back()
    bench.wait(b"new")
    bench.clock.now_ms += LEVEL_MS
    assert await bench.deliver()
    assert (bench.delivered(), bench.delays.offsets) == (2, {1: 2, 2: 0})
    assert bench.store.get("T", 0, 0, 9).records()[1].count(b"new") == 1


async def test_what_was_delivered_before_the_clock_went_back_stays_delivered(bench: Bench) -> None:
    bench.wait(b"first")
    bench.clock.now_ms -= 3_600_000
    assert await bench.deliver()
    bench.files.save("delayOffset.json", {"offsetTable": {"1": 1}})
    bench.files.wait_until_saved()
    bench.delays.load()
    bench.delays.hold_back()
    assert bench.delays.offsets == {1: 1}


async def test_progress_is_saved_when_the_copies_are_on_the_device(tmp_path: Path) -> None:
    """If it were saved before, a power cut in between would lose the messages."""
    bench = Bench(tmp_path, FlushMode.SYNC)
    bench.wait()
    bench.store.flush()
    bench.clock.now_ms += LEVEL_MS
    assert await bench.deliver()
    bench.delays.progress.save_when_kept()
    bench.delays.progress.save_when_kept()
    bench.files.wait_until_saved()
    saved = tmp_path / "config/delayOffset.json"
    assert not saved.exists()
    bench.store.flush()
    bench.delays.progress.save_when_kept()
    bench.files.wait_until_saved()
    assert b"1:1" in saved.read_bytes()
    bench.close()


async def test_nor_before_they_are_at_all_brokers_that_are_in_sync(tmp_path: Path) -> None:
    """Another broker may be elected without the copies, and this one then cuts them off. Whoever led later from these
    files would pass the messages over."""
    bench = Bench(tmp_path, waits_for_copies=True)
    bench.wait()
    bench.store.copied(bench.store.written_offset)
    bench.clock.now_ms += LEVEL_MS
    assert await bench.deliver()
    for _ in range(3):
        bench.store.flush()
        bench.delays.progress.save_when_kept()
    bench.files.wait_until_saved()
    saved = tmp_path / "config/delayOffset.json"
    assert not saved.exists()
    assert not bench.store.is_all_kept
    bench.store.copied(bench.store.written_offset)
    bench.delays.progress.save_when_kept()
    bench.files.wait_until_saved()
    assert b"1:1" in saved.read_bytes()
    assert bench.store.is_all_kept
    bench.close()
