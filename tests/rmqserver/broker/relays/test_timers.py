"""Timer messages on a store and a clock of the test's own: when and in which form they are delivered."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from rmqproto.bodies.routes import TopicConfig
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.names import TIMER_TOPIC
from rmqserver.broker.relays.timer_messages import NEVER_IN_WHEEL
from rmqserver.broker.sending.recall import RECALL_TAG
from rmqserver.operation import Refused
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.new_message import NewMessage
from rmqserver.store.options import FlushMode, StoreOptions
from rmqserver.store.timers.timer_check import TimerCheckpoint
from tests.rmqserver.broker.parts import parts_on
from tests.support.clock import Clock

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
START_MS = 1_800_000_000_000
DAY_MS = 86_400_000


class Bench:
    """Timers on a store directory; ``settings`` are the broker's."""

    def __init__(self, directory: Path, clock: Clock, settings: str = "", flush_mode: FlushMode = FlushMode.ASYNC):
        self.clock = clock
        options = StoreOptions(
            flush_mode=flush_mode, commit_log_file_size_bytes=1 << 20, index_slot_count=10, index_unit_count=40
        )
        self.store = MessageStore(directory, options, clock_ms=clock, background=False)
        recovered = self.store.open()
        self.files = ConfigFiles(str(directory / "config"), OsDisk())
        self.parts = parts_on(self.store, self.files, f"timerFlushIntervalMs=10\n{settings}")
        self.put = self.parts.put
        self.timers = self.parts.timers
        self.timers.load(clean=recovered.was_clean)

    def send(
        self, body: bytes = b"body", key: str = "K", topic: str = "T", announce: bool = False, **properties: object
    ) -> NewMessage:
        message = NewMessage(
            topic=topic, queue_id=2, flag=7, sys_flag=0, born_timestamp_ms=1, born_host=HOST, store_host=HOST,
            reconsume_times=0, body=body,
            properties={props.UNIQUE_KEY: key, **{name: str(value) for name, value in properties.items()}},
        )  # fmt: skip
        appended = self.put.put(message)
        if announce and message.topic == TIMER_TOPIC and props.TIMER_DELETE_UNIQUE_KEY not in message.properties:
            self.parts.timer_store.announce(appended.log_offset, topic, int(message.properties[props.TIMER_OUT_MS]))
        self.store.commit()
        return message

    async def settle(self) -> None:
        while await self.timers.step():
            pass

    async def at(self, now_ms: int) -> list[bytes]:
        """Moves the clock; returns the bodies that are delivered by then."""
        self.clock.now_ms = now_ms
        await self.settle()
        return [message.body for message in self.delivered()]

    def delivered(self) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while records := self.store.get("T", 2, len(found), 32).records():
            found += map(decode_record_untrusted, records)
        return found

    def kill(self) -> None:
        self.files.close()
        self.store.abandon()

    def stop(self) -> None:
        self.store.flush()
        assert self.timers.close()
        self.files.close()
        assert self.store.close()


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.now_ms = START_MS + 300
    return clock


@pytest.fixture
def bench(tmp_path: Path, clock: Clock) -> Iterator[Bench]:
    made = Bench(tmp_path, clock)
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [
        ({"TIMER_DELAY_SEC": 2}, START_MS + 3000),
        ({"TIMER_DELAY_MS": 1500}, START_MS + 2000),
        ({"TIMER_DELIVER_MS": START_MS + 4000}, START_MS + 4000),
        ({"TIMER_DELIVER_MS": START_MS + 4001}, START_MS + 5000),
        ({"TIMER_DELAY_SEC": 1, "TIMER_DELAY_MS": 9000, "TIMER_DELIVER_MS": 5}, START_MS + 2000),
    ],
)
async def test_is_delivered_at_the_end_of_its_second(bench: Bench, properties: dict[str, int], due_ms: int) -> None:
    """Never before its time; a time that is a whole second is met exactly."""
    assert bench.send(**properties).topic == TIMER_TOPIC
    assert await bench.at(due_ms - 1) == []
    assert await bench.at(due_ms) == [b"body"]


async def test_how_late_is_told_until_all_is_delivered(bench: Bench) -> None:
    bench.send(TIMER_DELAY_SEC=2)
    await bench.settle()
    late_ms = bench.parts.timer_store.late_ms
    assert late_ms(START_MS + 2500) == 500, "it waits for its time"
    assert late_ms(START_MS + 22_000) == 20_000
    assert await bench.at(START_MS + 22_300) == [b"body"]
    assert late_ms(START_MS + 22_300) == 300


async def test_what_is_delivered(bench: Bench) -> None:
    """As Apache's broker does it: the properties of the waiting message stay, and two times are added."""
    bench.send(TIMER_DELAY_SEC=2, WAIT="true")
    await bench.settle()
    bench.clock.now_ms = START_MS + 3005
    await bench.settle()
    (message,) = bench.delivered()
    assert (message.topic, message.queue_id, message.flag, message.born_timestamp_ms) == ("T", 2, 7, 1)
    assert message.properties == {
        "UNIQ_KEY": "K", "TIMER_DELAY_SEC": "2", "WAIT": "true", "TIMER_OUT_MS": str(START_MS + 2000),
        "REAL_TOPIC": "T", "REAL_QID": "2", "TIMER_ENQUEUE_MS": str(START_MS), "TIMER_DEQUEUE_MS": str(START_MS + 3005),
    }  # fmt: skip


async def test_a_message_read_after_its_time_is_delivered_at_once(bench: Bench) -> None:
    bench.send(TIMER_DELAY_SEC=2)
    assert await bench.at(START_MS + 9000) == [b"body"]
    assert bench.delivered()[0].properties["TIMER_ENQUEUE_MS"] == str(NEVER_IN_WHEEL)
    assert bench.timers.counts.count("T") == 0


async def test_a_full_second_does_not_make_the_next_one_late(bench: Bench) -> None:
    for number in range(1000):
        bench.send(b"full", key=str(number), TIMER_DELAY_MS=1000)
    bench.send(b"next", TIMER_DELAY_MS=2000)
    await bench.settle()
    bench.clock.now_ms = START_MS + 3000
    for _ in range(10):
        await bench.timers.step()
    bodies = [message.body for message in bench.delivered()]
    assert b"next" in bodies[:100]
    await bench.settle()
    assert len(bench.delivered()) == 1001


async def test_a_far_delay_is_rolled_and_delivered_in_time(bench: Bench) -> None:
    bench.send(b"far", TIMER_DELIVER_MS=START_MS + 3 * DAY_MS)
    await bench.settle()
    for day in (1, 2):
        assert await bench.at(START_MS + day * DAY_MS + 1000) == []
    assert await bench.at(START_MS + 3 * DAY_MS - 1) == []
    assert await bench.at(START_MS + 3 * DAY_MS) == [b"far"]
    assert bench.delivered()[0].properties["TIMER_ROLL_TIMES"] == "1"
    assert bench.timers.counts.count("T") == 0


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("days", [6, 8, 13, 15, 30])
async def test_a_broker_that_was_down_for_days_delivers_everything(
    tmp_path: Path, clock: Clock, days: int, how: str
) -> None:
    """What had been due for more than seven days was lost, as with Apache's broker. A timer that is sent now may need
    the place that one of 14 days ago has in the wheel."""
    before = Bench(tmp_path, clock)
    hours = range(1, 49)
    for hour in hours:
        before.send(b"%d" % hour, key=f"{hour}", TIMER_DELAY_SEC=hour * 3600)
    await before.settle()
    getattr(before, how)()
    clock.now_ms = START_MS + days * DAY_MS
    bench = Bench(tmp_path, clock)
    for hour in hours:
        bench.send(b"new %d" % hour, key=f"new {hour}", TIMER_DELIVER_MS=clock.now_ms + hour * 3_600_000)
    assert await bench.at(clock.now_ms) == [b"%d" % hour for hour in hours]
    assert (await bench.at(clock.now_ms + 2 * DAY_MS))[len(hours) :] == [b"new %d" % hour for hour in hours]
    assert [metric.count for metric in bench.timers.counts.by_topic.values()] == [0]
    bench.stop()


async def test_recalled_messages_are_dropped_whatever_form_the_key_has(bench: Bench) -> None:
    for key in ("A", "B", "C"):
        bench.send(key.encode(), key=key, TIMER_DELAY_SEC=5)
    bench.send(b"0", key="A", TIMER_DELAY_SEC=5, TIMER_DEL_UNIQKEY="A")
    bench.send(b"0", key="B", TIMER_DELAY_SEC=5, TIMER_DEL_UNIQKEY="T+B")
    await bench.settle()
    assert bench.timers.counts.count("T") == 1
    assert await bench.at(START_MS + 60_000) == [b"C"]
    assert bench.timers.counts.count("T") == 0


@pytest.mark.parametrize("between_count", [0, 300])
async def test_a_recall_counts_though_it_is_read_after_its_time(bench: Bench, between_count: int) -> None:
    """As by a new master, which reads the timer topic from its start, or by a broker that was killed meanwhile."""
    bench.send(b"in the wheel", key="A", TIMER_DELAY_SEC=5)
    await bench.settle()
    for key in ("B", "C"):
        bench.send(key.encode(), key=key, TIMER_DELAY_SEC=5)
    for number in range(between_count):
        bench.send(b"other", key=str(number), TIMER_DELAY_SEC=6)
    for key, recalled in (("A", "A"), ("B", "T+B")):
        bench.send(b"0", key=key, TIMER_DELAY_SEC=5, TIMER_DEL_UNIQKEY=recalled, TAGS=RECALL_TAG)
    assert await bench.at(START_MS + 60_000) == [b"C"] + [b"other"] * between_count
    assert bench.timers.counts.count("T") == 0


@pytest.mark.parametrize("saved", ["", '{"timingCount":{"T":{"count":900},"Gone":{"count":3},"Aa":{"count":1}}}'])
async def test_after_a_crash_it_is_counted_anew_what_waits(tmp_path: Path, clock: Clock, saved: str) -> None:
    """``Aa`` and ``BB`` have the same hash. Some messages of the first second are delivered, and one of the last four
    is recalled."""
    bench = Bench(tmp_path, clock)
    for number in range(100):
        bench.send(key=str(number), TIMER_DELAY_SEC=2)
    for topic, count in (("Aa", 2), ("BB", 1), ("T", 4)):
        for number in range(count):
            bench.send(key=f"{topic}{number}", topic=topic, TIMER_DELAY_SEC=3600 * (number + 1))
    bench.send(b"0", key="T0", TIMER_DELAY_SEC=3600, TIMER_DEL_UNIQKEY="T0")
    await bench.settle()
    clock.now_ms = START_MS + 5000
    while len(bench.delivered()) < 32:
        await bench.timers.step()
    left = 100 - len(bench.delivered())
    bench.kill()
    (tmp_path / "config/timermetrics").write_text(saved)
    again = Bench(tmp_path, clock, "timerStopDequeue=true")
    again.parts.topics.put(TopicConfig(topic_name="Aa"), TopicConfig(topic_name="BB"))
    await again.settle()
    counts = {topic: again.timers.counts.count(topic) for topic in ("T", "Aa", "BB", "Gone")}
    assert counts == {"T": left + 3, "Aa": 2, "BB": 1, "Gone": 0}
    again.kill()
    last = Bench(tmp_path, clock)
    last.parts.topics.put(TopicConfig(topic_name="Aa"), TopicConfig(topic_name="BB"))
    assert len(await last.at(START_MS + DAY_MS)) == 103
    assert {last.timers.counts.count(topic) for topic in counts} == {0}
    last.stop()


async def test_a_stop_leaves_exactly_the_rest(tmp_path: Path, clock: Clock) -> None:
    bench = Bench(tmp_path, clock)
    for number in range(100):
        bench.send(b"%d" % number, key=str(number), TIMER_DELAY_SEC=2)
    await bench.settle()
    clock.now_ms = START_MS + 5000
    while len(bench.delivered()) < 32:
        await bench.timers.step()
    bench.stop()
    again = Bench(tmp_path, clock)
    await again.settle()
    assert [message.body for message in again.delivered()] == [b"%d" % number for number in range(100)]
    again.stop()
    assert TimerCheckpoint.read(OsDisk(), f"{tmp_path}/config/timercheck").queue_offset == 100


async def test_a_clock_set_back_before_a_clean_stop_brings_nothing_again(tmp_path: Path, clock: Clock) -> None:
    bench = Bench(tmp_path, clock)
    bench.send(b"once", TIMER_DELAY_SEC=2)
    await bench.settle()
    assert await bench.at(START_MS + 5000) == [b"once"]
    clock.now_ms = START_MS + 1000
    bench.send(b"later", TIMER_DELAY_SEC=30)
    await bench.settle()
    bench.stop()
    again = Bench(tmp_path, clock)
    assert await again.at(START_MS + 60_000) == [b"once", b"later"]
    again.stop()


@pytest.mark.parametrize("step_count", range(12))
async def test_kill_9_at_any_step_loses_nothing_and_doubles_nothing(
    tmp_path: Path, clock: Clock, step_count: int
) -> None:
    bench = Bench(tmp_path, clock)
    for number in range(70):
        bench.send(b"%d" % number, key=str(number), TIMER_DELAY_SEC=1 + number % 3)
    for _ in range(step_count):
        clock.now_ms += 400
        await bench.timers.step()
    bench.kill()
    again = Bench(tmp_path, clock)
    clock.now_ms += 60_000
    await again.settle()
    assert sorted(int(message.body) for message in again.delivered()) == list(range(70))
    again.stop()


async def test_delivered_counts_when_the_copies_are_on_the_device(
    tmp_path: Path, clock: Clock, autojump_clock: MockClock
) -> None:
    """If it were saved before, a power cut in between would lose the messages."""
    bench = Bench(tmp_path, clock, flush_mode=FlushMode.SYNC)
    bench.send(TIMER_DELAY_SEC=1)
    bench.store.flush()
    await bench.settle()

    def saved_ms() -> int:
        return TimerCheckpoint.read(OsDisk(), f"{tmp_path}/config/timercheck").read_time_ms

    async def save() -> None:
        for _ in range(3):
            await trio.sleep(1)  # longer than timerFlushIntervalMs
            await bench.timers.step()

    await save()
    clock.now_ms = START_MS + 9000
    await bench.settle()
    await save()
    assert saved_ms() < START_MS + 2000
    bench.store.flush()
    await save()
    assert saved_ms() > START_MS + 2000
    bench.stop()


async def test_messages_that_cannot_be_read_are_passed_over(bench: Bench) -> None:
    for properties in ({}, {"TIMER_OUT_MS": "x", "REAL_TOPIC": "T", "REAL_QID": "2"}):
        message = NewMessage(TIMER_TOPIC, 0, 0, 0, 1, HOST, HOST, 0, b"bad", dict(properties))
        bench.put.put(message)
    bench.send(b"good", TIMER_DELAY_SEC=1)
    await bench.settle()
    assert await bench.at(START_MS + 9000) == [b"good"]


def test_a_full_slot_takes_no_more(tmp_path: Path, clock: Clock) -> None:
    bench = Bench(tmp_path, clock, "timerCongestNumEachSlot=1")
    bench.parts.timer_store.load_of = lambda out_ms: 2  # type: ignore[method-assign]
    with pytest.raises(Refused) as caught:
        bench.send(TIMER_DELAY_SEC=1)
    assert (caught.value.code, caught.value.remark) == (
        1, "timer message is under flow control, max num limit is 2 or the current value is greater than 1 and less "
        "than 2, trigger random flow control",
    )  # fmt: skip
    bench.stop()


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": 259_201}, {"TIMER_DELAY_MS": "soon"}, {"TIMER_DELIVER_MS": ""}, {"TIMER_DELAY_SEC": "1.5"},
        {"TIMER_DELAY_SEC": -5, "TIMER_DEL_UNIQKEY": "K"},
    ],
)  # fmt: skip
def test_times_that_cannot_be_are_refused(bench: Bench, properties: dict[str, object]) -> None:
    with pytest.raises(Refused) as caught:
        bench.send(**properties)
    assert caught.value.code == 13
    assert caught.value.remark.startswith("timer message illegal, the delay time should not be bigger than the max")


def test_a_time_that_has_passed_delays_nothing(bench: Bench) -> None:
    assert bench.send(TIMER_DELIVER_MS=START_MS).topic == "T"
    assert bench.delivered()[0].properties == {"UNIQ_KEY": "K", "TIMER_DELIVER_MS": str(START_MS)}


def test_a_delay_level_goes_before_a_time(bench: Bench) -> None:
    message = bench.send(DELAY=1, TIMER_DELAY_SEC=5)
    assert message.topic == "SCHEDULE_TOPIC_XXXX"
    assert "TIMER_DELAY_SEC" not in message.properties


Sent = tuple[bool, str, dict[str, int]]
"""Whether it is announced, its topic, and when it is due."""

SENT: st.SearchStrategy[Sent] = st.tuples(
    st.booleans(),
    st.sampled_from(["T", "U"]),
    st.sampled_from([{"TIMER_DELAY_SEC": seconds} for seconds in (1, 2, 3, 60, 70, 3 * 86_400)])
    | st.just({"TIMER_DELAY_SEC": 60, "TIMER_DEL_UNIQKEY": 0}),
)


@settings(max_examples=settings.default.max_examples // 2)
@given(st.lists(SENT, max_size=12), st.lists(SENT, max_size=12), st.integers(0, 5000))
def test_what_is_announced_is_taken_in_as_what_is_read(first: list[Sent], then: list[Sent], late_ms: int) -> None:
    """Wheel, log, counts and deliveries are the same, even for messages that are due before they are taken in."""

    async def left(root: Path, *, announces: bool) -> object:
        clock = Clock()
        clock.now_ms = START_MS + 300
        bench = Bench(root, clock, "mappedFileSizeTimerLog=1040")
        for portion in (first, then):
            for number, (is_announced, topic, more) in enumerate(portion):
                bench.send(b"%d" % number, str(number), topic, announces and is_announced, **more)
            clock.now_ms += late_ms
            await bench.settle()
        delivered = await bench.at(START_MS + 65_000)
        slots = bench.parts.timer_store.wheel.slots_since(bench.parts.timer_store.read_time)
        assert not bench.parts.timer_store._announced
        bench.stop()
        files = [*root.glob("timerlog/*"), *root.glob("config/timermetrics")]
        return delivered, slots, [path.read_bytes().rstrip(b"\0") for path in files]

    with TemporaryDirectory() as root:
        read, announced = (trio.run(partial(left, Path(root, str(each)), announces=each)) for each in (False, True))
        assert read == announced
