"""Timers in the files of a real broker, in files after a kill, a torn write or days of standstill, and against a
model."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import StorageError
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.options import TimerOptions, TimerPaths
from rmqserver.store.timers.log import UNIT_SIZE_BYTES, Unit
from rmqserver.store.timers.timer_check import (
    FROM_QUEUE,
    NOTE_SIZE_MAX_BYTES,
    TIMER_CHECK_SIZE_BYTES,
    DeliveryNote,
    LogState,
    NotedCopy,
    TimerCheckpoint,
)
from rmqserver.store.timers.timer_store import TimerStore
from rmqserver.store.timers.wheel import SLOT, DueSlot, Slot, TimerWheel
from tests.rmqserver.store.golden import unpack

EVER = 1 << 62
START_MS = 1_800_000_000_000
SMALL = TimerOptions(log_file_size_bytes=10 * UNIT_SIZE_BYTES)
GOLDEN_OPTIONS = TimerOptions(log_file_size_bytes=1000 * UNIT_SIZE_BYTES)


def opened(
    root: Path,
    options: TimerOptions = SMALL,
    *,
    clean: bool = True,
    log_end: int = 1 << 62,
    newest_ms: int = EVER,
) -> TimerStore:
    disk = OsDisk()
    store = TimerStore(TimerPaths.below(str(root)), options, disk, FileCache(disk, 100))
    log = LogState(
        log_end, lambda queue_offset: None if clean else queue_offset, EVER, newest_ms, lambda queue_offset: None
    )
    store.load(log, clean=clean)
    return store


def save(store: TimerStore) -> None:
    store.prepare_checkpoint(0)()


def add(store: TimerStore, log_offset: int, due_ms: int, now_ms: int, *, is_delete: bool = False) -> bool:
    """Adds a message; in these tests log offsets are also queue offsets."""
    taken = store.enqueue(log_offset, 100, 7, due_ms, now_ms, is_delete=is_delete)
    store.queue_offset = log_offset + 1
    return taken


def delivered(store: TimerStore, now_ms: int) -> list[int]:
    """The log offsets of all due messages, in order of delivery."""
    found: list[int] = []
    while slots := store.due(now_ms):
        for slot in slots:
            found += [unit.log_offset for unit in taken_from(slot, 3)]
    return found


def walked(slot: DueSlot) -> DueSlot:
    while not slot.is_walked:
        slot.walk()
    slot.recalled = set()
    return slot


def taken_from(slot: DueSlot, count: int) -> list[Unit]:
    units = walked(slot).portion(count)
    if units:
        slot.passed(units[-1].position)
    return units


def slots_of(root: Path) -> list[Slot]:
    """All slots of the file, including past ones."""
    wheel = TimerWheel(f"{root}/timerwheel", OsDisk(), 1000)
    wheel.load(0)
    return wheel.slots_since(0)


def test_reads_what_apache_wrote(tmp_path: Path) -> None:
    root = unpack("clean", tmp_path)
    check = TimerCheckpoint.read(OsDisk(), f"{root}/config/timercheck")
    store = opened(root, GOLDEN_OPTIONS)
    assert (store.queue_offset, store.log.end_position) == (22, 22 * UNIT_SIZE_BYTES)
    waiting = {slot.time: slot.message_count for slot in store.wheel.slots_since(check.read_time_ms // 1000)}
    assert waiting == {1795266167: -1, 1795267967: 1, 1795267968: 1, 1795350768: 1}
    units = [unit for slot in store.due(1795350769_000) for unit in taken_from(slot, 9)]
    assert [(unit.magic, unit.log_offset) for unit in units][-1] == (3, 48378)  # to be rolled


def test_writes_what_apache_wrote(tmp_path: Path) -> None:
    """The golden units, put in again one by one, give the golden files: every byte of log and check, and every slot."""
    root = unpack("clean", tmp_path)
    check = (root / "config/timercheck").read_bytes()
    golden = opened(root, GOLDEN_OPTIONS)
    own = opened(tmp_path / "own", GOLDEN_OPTIONS)
    for unit in golden.log.scan(0):
        # Apache's write time of a unit is the start of a second; its slot is that of the delay.
        due_ms = unit.slot_time_ms if not unit.is_roll else unit.write_time_ms + 2 * 86_400_000
        assert own.enqueue(
            unit.log_offset, unit.message_size_bytes, unit.topic_hash, due_ms, unit.write_time_ms,
            is_delete=unit.is_delete,
        )  # fmt: skip
    own.prepare_checkpoint(0)()
    log = "timerlog/00000000000000000000"
    assert (tmp_path / "own" / log).read_bytes() == (root / log).read_bytes()
    assert (tmp_path / "own/timerwheel").stat().st_size == (root / "timerwheel").stat().st_size
    assert slots_of(tmp_path / "own") == slots_of(root)
    packed = golden.saved.packed()
    assert check == packed.ljust(TIMER_CHECK_SIZE_BYTES, b"\0")


def test_the_slot_of_a_time(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert add(store, 0, 1_700_000_010_000, 1_700_000_000_000)
    store.prepare_checkpoint(0)()
    at = 512010 * SLOT.size
    assert SLOT.unpack((tmp_path / "timerwheel").read_bytes()[at : at + SLOT.size]) == (1_700_000_010, 0, 0, 1, 0)


def test_slots_at_every_edge_are_read_again_and_past_ones_are_not(tmp_path: Path) -> None:
    """The file is read in portions, and empty or past slots are skipped in blocks."""
    wheel, block, portion = TimerWheel(f"{tmp_path}/timerwheel", OsDisk(), 1000), 4096 // 32, (1 << 20) // 32
    turn = 1_000 * wheel.slot_count
    places = [0, 1, block - 1, block, 5 * block + 7, portion - 1, portion, 3 * portion + 1, wheel.slot_count - 1]
    kept = [Slot(turn + at, at, at + 1, 1) for at in places]
    for slot in (*kept, *(Slot(turn - wheel.slot_count + at + 2, 1, 1, 1) for at in places[:-1])):
        wheel.put(slot)
    wheel.write()
    again = TimerWheel(wheel.path, OsDisk(), 1000)
    again.load(turn)
    assert again.slots_since(0) == kept


def test_delivers_in_the_order_of_time_and_arrival(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for offset, seconds in enumerate([5, 2, 5, 3, 2, 5]):
        assert add(store, offset, START_MS + seconds * 1000, START_MS)
    assert delivered(store, START_MS + 2999) == []  # a slot takes what is due until its end
    assert delivered(store, START_MS + 4000) == [1, 4, 3]
    assert not add(store, 6, START_MS + 3000, START_MS)  # that slot has passed, even if the clock is earlier
    assert delivered(store, START_MS + 9000) == [0, 2, 5]


def test_what_a_clock_that_was_ahead_has_passed_stays_passed(tmp_path: Path) -> None:
    """As in Apache's broker: slots that have passed may have been delivered, and are not opened again. Later ones
    wait."""
    store = opened(tmp_path)
    assert delivered(store, START_MS + 60_000) == []
    assert not add(store, 0, START_MS + 30_000, START_MS)  # the caller delivers it at once
    assert add(store, 1, START_MS + 61_000, START_MS)
    save(store)
    again = opened(tmp_path)
    assert not add(again, 2, START_MS + 30_000, START_MS)
    assert delivered(again, START_MS + 30_000) == []
    assert delivered(again, START_MS + 62_000) == [1]


def test_what_was_delivered_before_the_clock_went_back_stays_delivered_after_a_clean_stop(tmp_path: Path) -> None:
    """The log's last record then counts for less than the delivery, whose slots have left the memory."""
    store = opened(tmp_path)
    for offset, seconds in enumerate([1, 2, 3, 120]):
        add(store, offset, START_MS + 1000 * seconds, START_MS)
    assert delivered(store, START_MS + 60_000) == [0, 1, 2]
    save(store)
    assert delivered(store, START_MS + 61_000) == []
    store.stop(START_MS + 1500)
    save(store)
    again = opened(tmp_path, newest_ms=START_MS + 1500)
    assert delivered(again, START_MS + 200_000) == [3]


def test_one_full_slot_does_not_hold_the_others_up(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for offset in range(1000):
        add(store, offset, START_MS + 1000, START_MS)
    add(store, 1000, START_MS + 2000, START_MS)
    first, second = store.due(START_MS + 3000)
    assert len(taken_from(first, 10)) == 10
    assert [unit.log_offset for unit in taken_from(second, 10)] == [1000]


def test_a_far_delay_is_rolled(tmp_path: Path) -> None:
    day_ms = 86_400_000
    store = opened(tmp_path)
    add(store, 0, START_MS + 3 * day_ms, START_MS)  # a day past the window of two: more than a third of it
    add(store, 1, START_MS + 2 * day_ms + 1000, START_MS)
    assert delivered(store, START_MS + day_ms + 1000) == [1]
    (slot,) = store.due(START_MS + 2 * day_ms + 1000)
    (unit,) = taken_from(slot, 1)
    assert (unit.is_roll, unit.slot_time_ms) == (True, START_MS + 2 * day_ms)


def test_goes_on_after_a_clean_stop_in_the_middle_of_a_slot(tmp_path: Path) -> None:
    """Apache's broker would read the same: the chain begins at the first unit that is left."""
    store = opened(tmp_path)
    for offset in range(25):
        add(store, offset, START_MS + 1000, START_MS)
    (slot,) = store.due(START_MS + 2000)
    assert [unit.log_offset for unit in taken_from(slot, 11)] == list(range(11))
    store.stop(EVER)
    store.prepare_checkpoint(0)()
    again = opened(tmp_path)
    assert again.wheel.slot(START_MS // 1000 + 1).message_count == 14
    assert delivered(again, START_MS + 5000) == list(range(11, 25))


def test_a_recall_that_came_before_its_target_survives_a_stop_between_them(tmp_path: Path) -> None:
    store = opened(tmp_path)
    add(store, 0, START_MS + 1000, START_MS, is_delete=True)
    for offset in range(1, 4):
        add(store, offset, START_MS + 1000, START_MS)
    (slot,) = store.due(START_MS + 2000)
    assert [unit.log_offset for unit in taken_from(slot, 1)] == [1]
    store.stop(EVER)
    save(store)
    (again,) = opened(tmp_path).due(START_MS + 5000)
    assert [unit.log_offset for unit in taken_from(again, 9)] == [2, 3]
    assert [unit.log_offset for unit in again.delete_units] == [0]


def test_what_was_delivered_behind_a_slot_that_is_not_done_is_taken_out_by_a_stop(tmp_path: Path) -> None:
    """The read time is that of the first unfinished slot, so Apache's broker would otherwise deliver the second one
    again."""
    store = opened(tmp_path)
    for offset in range(25):
        add(store, offset, START_MS + (1000 if offset < 20 else 2000), START_MS)
    first, second = store.due(START_MS + 3000)
    assert (len(taken_from(first, 5)), len(taken_from(second, 5))) == (5, 5)
    store.stop(EVER)
    save(store)
    again = opened(tmp_path)
    assert again.wheel.slot(START_MS // 1000 + 2).message_count == 0
    assert delivered(again, START_MS + 5000) == list(range(5, 20))


@pytest.mark.parametrize("written_count", range(4))
def test_goes_on_after_kill_9(tmp_path: Path, written_count: int) -> None:
    """The files are as the page cache has them. The note was written before the copies, so what is still delivered
    depends on how many of the three copies are there. The second slot is done, although the first is not."""
    store = opened(tmp_path)
    for offset in range(25):
        add(store, offset, START_MS + 1000 * (1 + offset // 20), START_MS)
    first, second = store.due(START_MS + 3000)
    taken_from(second, 9)
    units = walked(first).portion(3)
    store.note([NotedCopy(1000 + number, first.time, unit.position + 1) for number, unit in enumerate(units)])
    again = opened(tmp_path, clean=False, log_end=1000 + written_count)
    assert again.queue_offset == 25
    assert delivered(again, START_MS + 5000) == list(range(written_count, 20))


@pytest.mark.parametrize("written_count", range(3))
def test_what_was_due_at_once_is_not_delivered_again_after_kill_9(tmp_path: Path, written_count: int) -> None:
    """Messages 0 and 2 were due when they were read; 1 waits."""
    store = opened(tmp_path)
    deliveries = []
    for offset, out_ms in enumerate([START_MS - 1000, START_MS + 1000, START_MS - 1000]):
        if not store.enqueue(offset, 100, 7, out_ms, START_MS):
            deliveries.append(NotedCopy(1000 + offset // 2, FROM_QUEUE, offset + 1))
            store.note(deliveries)
        store.queue_offset = offset + 1
    again = opened(tmp_path, clean=False, log_end=1000 + written_count)
    to_read = [offset for offset in range(again.queue_offset, 3) if not again.is_known(offset)]
    assert to_read == [[0, 2], [2], []][written_count]
    assert delivered(again, START_MS + 5000) == [1]


def test_units_of_messages_that_a_power_cut_took_are_dropped(tmp_path: Path) -> None:
    """Other messages will get their log offsets."""
    store = opened(tmp_path)
    save(store)
    for offset in (0, 100, 200):
        assert store.enqueue(offset, 100, 7, START_MS + 1000, START_MS)
    store.log.write()
    store.wheel.write()
    again = opened(tmp_path, clean=False, log_end=200)
    assert delivered(again, START_MS + 5000) == [0, 100]


def test_a_note_of_another_run_of_the_system_counts_for_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for offset in range(5):
        add(store, offset, START_MS + 1000, START_MS)
    save(store)
    path = f"{tmp_path}/config/timercheck"
    DeliveryNote("another boot:1:2", START_MS // 1000 + 3, 5).write(OsDisk(), path)
    again = opened(tmp_path, clean=False)
    assert delivered(again, START_MS + 5000) == list(range(5))


def test_no_file_is_made_for_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.due(START_MS + 5000) == []
    assert not store.is_changed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size_bytes", [0, 100, SLOT.size * 1000])
def test_a_wheel_of_another_size_is_refused(tmp_path: Path, size_bytes: int) -> None:
    (tmp_path / "timerwheel").write_bytes(bytes(size_bytes))
    with pytest.raises(StorageError, match="a timer wheel has 38707200"):
        TimerWheel(f"{tmp_path}/timerwheel", OsDisk(), 1000).load(0)


def test_a_wheel_that_a_crash_left_empty_is_made_again(tmp_path: Path) -> None:
    store = opened(tmp_path)
    add(store, 0, START_MS + 1000, START_MS)
    store.note()
    (tmp_path / "timerwheel").write_bytes(b"")
    assert delivered(opened(tmp_path, clean=False), START_MS + 5000) == [0]


def test_a_wheel_that_is_gone_is_made_again_from_the_timer_log(tmp_path: Path) -> None:
    """Its messages were never delivered, though the timer log knew them. What was delivered does not come again."""
    store = opened(tmp_path)
    for offset in range(25):
        add(store, offset, START_MS + 1000 * (1 + offset % 3), START_MS)
    assert delivered(store, START_MS + 2000) == list(range(0, 25, 3))
    add(store, 25, START_MS + 9000, START_MS, is_delete=True)
    store.stop(EVER)
    save(store)
    (tmp_path / "timerwheel").unlink()
    again = opened(tmp_path)
    assert again.waiting_count == 15
    assert sorted(delivered(again, START_MS + 12000)) == [offset for offset in range(25) if offset % 3]


def test_a_wheel_in_snapshots_is_refused(tmp_path: Path) -> None:
    (tmp_path / "timerwheel.4096").write_bytes(b"")
    with pytest.raises(StorageError, match=r"timerwheel\.4096: a snapshot of the timer wheel"):
        opened(tmp_path)


def test_old_files_go_with_their_messages(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for offset in range(40):
        add(store, offset, START_MS + 1000 * (offset + 1), START_MS)
    store.prepare_checkpoint(0)()
    count = len(store.log.segments.bases)
    assert store.delete_expired(0) == 0
    assert store.delete_expired(20) > 0
    assert 0 < len(store.log.segments.bases) < count
    assert delivered(store, START_MS + 99_000)[-20:] == list(range(20, 40))


NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    st.builds(
        DeliveryNote, st.just("boot:8:15"), NUMBERS, NUMBERS, st.dictionaries(NUMBERS, NUMBERS, max_size=128),
        st.lists(st.builds(NotedCopy, NUMBERS, NUMBERS, NUMBERS), max_size=32).map(tuple),
    ),
    st.integers(0, 4095), st.integers(0, 7),
)  # fmt: skip
def test_a_note_is_whole_or_none(note: DeliveryNote, at: int, bit: int) -> None:
    packed = note.packed()
    assert len(packed) <= NOTE_SIZE_MAX_BYTES
    assert DeliveryNote.unpack_untrusted(packed.ljust(NOTE_SIZE_MAX_BYTES, b"\0")) == note
    damaged = bytearray(packed)
    damaged[at % len(packed)] ^= 1 << bit
    assert DeliveryNote.unpack_untrusted(bytes(damaged)) is None
    assert DeliveryNote.unpack_untrusted(packed[:-1]) is None


@given(st.binary(max_size=200))
def test_a_note_of_any_bytes_is_none(data: bytes) -> None:
    assert DeliveryNote.unpack_untrusted(data) is None


@dataclass
class Model:
    """Waiting messages, with the times at which they are due. ``since_save``: messages delivered since the last
    checkpoint. ``maybe_again``: messages that may come again after a power cut."""

    now_ms: int = START_MS
    waiting: dict[int, int] = field(default_factory=dict)
    next_offset: int = 0
    since_save: dict[int, int] = field(default_factory=dict)
    maybe_again: dict[int, int] = field(default_factory=dict)

    def deliver(self, offset: int) -> None:
        due_ms = self.waiting.pop(offset, None) or self.maybe_again.pop(offset)
        assert due_ms + 1000 <= self.now_ms
        self.since_save[offset] = due_ms

    def cut_power(self) -> None:
        self.maybe_again.update(self.since_save)
        self.since_save.clear()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 12)), st.tuples(st.just("pass"), st.integers(1, 4)),
            st.tuples(st.just("save"), st.just(0)), st.tuples(st.just("kill"), st.just(0)),
            st.tuples(st.just("stop"), st.just(0)), st.tuples(st.just("cut"), st.integers(0, 100)),
        ),
        max_size=40,
    )
)  # fmt: skip
def test_nothing_is_lost_early_or_twice(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    """Whatever is added, delivered, stopped or killed, each message is delivered once, when its second is over. A power
    cut may bring back what was delivered since the last checkpoint; messages that the timer log has lost are taken in
    again."""
    root = tmp_path_factory.mktemp("timers")
    model, store = Model(), opened(root)
    for step, value in steps:
        if step == "add":
            due_ms = model.now_ms + value * 1000
            assert add(store, model.next_offset, due_ms, model.now_ms)
            model.waiting[model.next_offset] = due_ms
            model.next_offset += 1
        elif step == "pass":
            model.now_ms += value * 1000
            for offset in delivered(store, model.now_ms):
                model.deliver(offset)
            assert not [offset for offset, due_ms in model.waiting.items() if due_ms + 1000 <= model.now_ms]
            store.note()
        elif step == "save":
            save(store)
            model.since_save.clear()
        elif step == "stop":
            store.stop(EVER)
            save(store)
            model.since_save.clear()
            store = opened(root)
        else:
            if step == "cut":
                cut_power(root, store, value)
                model.cut_power()
            store = opened(root, clean=False)
            take_in_again(store, model)
    model.now_ms = START_MS + 10_000_000
    for offset in delivered(store, model.now_ms):
        model.deliver(offset)
    assert not model.waiting


def cut_power(root: Path, store: TimerStore, lost_words: int) -> None:
    """Loses the end of the timer log, but not the slots. No note outlives a power cut."""
    store.log.write()
    store.wheel.write()
    end = store.log.end_position
    torn = max(end - lost_words * 4, store.saved.log_position)  # everything before it was synced
    if torn < end:
        base = store.log.segments.base_of(torn)
        with open(store.log.segments.path(base), "r+b") as file:
            file.seek(torn - base)
            file.write(bytes(UNIT_SIZE_BYTES))
    if (root / "config").exists():
        DeliveryNote("power cut", 0, 0).write(OsDisk(), f"{root}/config/timercheck")


def take_in_again(store: TimerStore, model: Model) -> None:
    """Does what the reader of the queue does, and delivers at once what has become due meanwhile."""
    for offset in range(store.queue_offset, model.next_offset):
        due_ms = model.waiting.get(offset) or model.maybe_again.get(offset)
        if not store.is_known(offset) and due_ms is not None and not add(store, offset, due_ms, model.now_ms):
            model.deliver(offset)
        store.queue_offset = offset + 1
