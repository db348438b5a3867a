"""A slave's store: the bytes of its master's log, in any portions, make the same store."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqserver.store.append import copied_blocks, log_copy
from rmqserver.store.disk.disk import OsDisk, OsFile
from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues.round import Arrival
from rmqserver.store.recovery.cut_back import cut_back
from tests.rmqserver.store.conftest import TINY, TINY_SYNC, MakeStore, put
from tests.support.clock import Clock

FILE_SIZE_BYTES = TINY.commit_log_file_size_bytes


def fill(store: MessageStore, count: int = 60) -> None:
    """Stores messages across several files, with keys, tags and rolled-back half messages."""
    for number in range(count):
        sys_flag = 0xC if number % 10 == 9 else 0
        put(store, "T" if number % 3 else "U", number % 2, b"%d" % number * (1 + number % 90), tags=f"t{number % 4}",
            keys=f"k{number}", unique=f"U{number}", sys_flag=sys_flag)  # fmt: skip
        store.commit()


def transfers(master: MessageStore, start: int, rng: random.Random) -> list[tuple[int, bytes]]:
    """The log from ``start`` on in pieces; none crosses the end of a file."""
    found, end = [], master.log.written_offset
    while start < end:
        size = min(rng.randrange(1, 700), end - start, FILE_SIZE_BYTES - start % FILE_SIZE_BYTES)
        found.append((start, master.log.segments.read(start, size).ljust(size, b"\0")))
        start += size
    return found


def seen(store: MessageStore) -> dict[object, list[bytes]]:
    """Everything that readers find."""
    store.followers.work_everything()
    found: dict[object, list[bytes]] = {
        (topic, queue_id): [record for at in range(store.min_offset(topic, queue_id), store.max_offset(topic, queue_id))
                            for record in store.get(topic, queue_id, at, 1).records()]
        for topic in "TU" for queue_id in range(2)
    }  # fmt: skip
    keys = ("k5", "k7", "k59")
    return found | {key: store.query(topic, key, 9, 0, 1 << 60).records for topic in "TU" for key in keys}


@pytest.mark.parametrize("seed", range(5))
def test_readers_find_the_same_also_after_a_crash_in_the_middle(
    make_store: MakeStore, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    master = make_store(tmp_path / "master")
    fill(master)
    arrived: list[Arrival] = []
    slave = make_store(tmp_path / "slave", on_visible=arrived.extend)
    pieces = transfers(master, 0, rng)
    copy = slave.log_copy()
    for log_offset, data in pieces[: len(pieces) // 2]:
        copy.append(log_offset, data)
        copy.dispatch_all()
    assert sum(arrival.message_count for arrival in arrived) == sum(
        slave.max_offset(t, q) for t in "TU" for q in (0, 1)
    )
    slave.abandon()
    slave = make_store(tmp_path / "slave", on_visible=arrived.extend)
    copy = slave.log_copy()
    for log_offset, data in transfers(master, copy.end_offset, rng):
        copy.append(log_offset, data)
        copy.dispatch_all()
    assert seen(slave) == seen(master)
    slave.close()
    again = make_store(tmp_path / "slave")
    assert seen(again) == seen(master)
    fill(again, 3)  # the slave has become a master
    assert again.end_offset > master.end_offset


def test_a_log_may_begin_at_a_later_file_and_queues_then_at_their_offsets(
    make_store: MakeStore, tmp_path: Path
) -> None:
    master = make_store(tmp_path / "master")
    fill(master)
    base = master.log.segments.base_of(master.log.written_offset)
    slave = make_store(tmp_path / "slave")
    copy = slave.log_copy()
    for log_offset, data in transfers(master, base, random.Random(1)):
        copy.append(log_offset, data)
    copy.dispatch_all()
    first = slave.min_offset("T", 0)
    assert 0 < first < slave.max_offset("T", 0) == master.max_offset("T", 0)
    assert slave.get("T", 0, first, 1).records() == master.get("T", 0, first, 1).records()
    assert slave.close(), "nothing is to be flushed that is not there"
    again = make_store(tmp_path / "slave")
    assert (again.min_offset("T", 0), again.max_offset("T", 0)) == (first, master.max_offset("T", 0))


def test_bytes_that_do_not_fit_change_nothing(make_store: MakeStore, tmp_path: Path) -> None:
    master = make_store(tmp_path / "master")
    fill(master, 5)
    data = master.log.read(0, master.log.written_offset)
    slave = make_store(tmp_path / "slave")
    copy = slave.log_copy()
    with pytest.raises(ProtocolError, match="in the middle of a file"):
        copy.append(100, data)
    with pytest.raises(ProtocolError, match="pass the end of a file"):
        copy.append(0, bytes(FILE_SIZE_BYTES + 1))
    copy.append(0, data)
    for log_offset in (0, len(data) + 1):
        with pytest.raises(ProtocolError, match="do not go on where the log ends"):
            copy.append(log_offset, data)
    assert copy.end_offset == len(data)


def test_a_record_whose_properties_come_in_two_parts_is_shown_when_it_is_whole(
    make_store: MakeStore, tmp_path: Path
) -> None:
    """It used to count as a record without tags, so consumers that filter by its tag never got it."""
    master, slave = make_store(tmp_path / "master"), make_store(tmp_path / "slave")
    put(master, tags="wanted")
    master.commit()
    data = master.log.read(0, master.log.written_offset)
    copy = slave.log_copy()
    for at in range(len(data)):
        copy.append(at, data[at : at + 1])
        copy.dispatch_all()
        assert slave.max_offset("T", 0) == (at == len(data) - 1)
    queues = slave.queues.find("T", 0), master.queues.find("T", 0)
    units = [queue.unit(0) for queue in queues if queue is not None]
    assert units[0] == units[1]


@given(st.integers(0, FILE_SIZE_BYTES - 1), st.binary(min_size=1, max_size=40))
def test_damaged_bytes_end_nothing(tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes) -> None:
    root = tmp_path_factory.mktemp("copied")
    master = MessageStore(root / "master", TINY, clock_ms=Clock(), background=False)
    master.open()
    fill(master, 20)
    data = bytearray(master.log.segments.read(0, min(FILE_SIZE_BYTES, master.log.written_offset)))
    data[at : at + len(noise)] = noise[: len(data) - at]
    slave = MessageStore(root / "slave", TINY, clock_ms=Clock(), background=False)
    slave.open()
    copy = slave.log_copy()
    copy.append(0, bytes(data[:FILE_SIZE_BYTES]))
    copy.dispatch_all()
    slave.close()
    master.close()


def counts(store: MessageStore) -> list[int]:
    return [store.max_offset(topic, queue_id) for topic in "TU" for queue_id in range(2)]


def test_readers_see_nothing_before_it_is_dispatched_while_all_of_it_is_written(
    make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_copy, "PORTION_BYTES", 300)
    master = make_store(tmp_path / "master")
    fill(master)
    slave = make_store(tmp_path / "slave")
    copy = slave.log_copy()
    for log_offset, data in transfers(master, 0, random.Random(1)):
        copy.append(log_offset, data)
    assert copy.end_offset == slave.log.written_offset == master.log.written_offset
    assert (counts(slave), slave.confirmed_offset) == ([0] * 4, 0)
    assert slave.query("T", "k5", 9, 0, 1 << 60).records == []
    behind = [slave.dispatch_behind_bytes]
    while copy.dispatch_some():
        shown = sum(counts(slave))
        records = [record for records in seen(slave).values() for record in records]
        assert 0 < shown <= len(records), "what is counted can be read"
        behind.append(slave.dispatch_behind_bytes)
    assert len(behind) > 10
    assert behind == sorted(behind, reverse=True)
    assert copy.behind_bytes == 0
    assert seen(slave) == seen(master)


def test_what_is_dispatched_is_not_seen_before_it_is_confirmed(make_store: MakeStore, tmp_path: Path) -> None:
    """On a slave that flushes before it shows messages, as on a master."""
    master, slave = make_store(tmp_path / "master"), make_store(tmp_path / "slave", TINY_SYNC)
    fill(master)
    copy = slave.log_copy()
    pieces = transfers(master, 0, random.Random(1))
    for start in (0, len(pieces) // 2):
        before = counts(slave)
        for log_offset, data in pieces[start : len(pieces) // 2 if not start else None]:
            copy.append(log_offset, data)
            copy.dispatch_all()
        assert counts(slave) == before
        slave.flush_log()
        assert sum(counts(slave)) > sum(before)
    assert seen(slave) == seen(master)


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("portions", [0, 1, 9])
def test_what_a_stop_leaves_undispatched_is_found_by_the_next_start(
    make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portions: int, is_killed: bool
) -> None:
    monkeypatch.setattr(log_copy, "PORTION_BYTES", 300)
    master, slave = make_store(tmp_path / "master"), make_store(tmp_path / "slave")
    fill(master)
    copy = slave.log_copy()
    for log_offset, data in transfers(master, 0, random.Random(1)):
        copy.append(log_offset, data)
    for _ in range(portions):
        assert copy.dispatch_some()
    assert copy.behind_bytes > 1000
    if is_killed:
        slave.abandon()
    else:
        assert slave.close()
    again = make_store(tmp_path / "slave")
    assert again.end_offset == master.end_offset
    assert seen(again) == seen(master)


def test_a_log_is_cut_off_while_dispatch_is_behind_the_cut_or_before_it(
    make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_copy, "PORTION_BYTES", 300)
    master = make_store(tmp_path / "master")
    fill(master, 30)
    point = master.end_offset
    until_then = seen(master)
    fill(master, 30)
    for is_past in (False, True):
        root = tmp_path / f"slave{is_past}"
        slave = make_store(root)
        copy = slave.log_copy()
        for log_offset, data in transfers(master, 0, random.Random(1)):
            copy.append(log_offset, data)
        assert copy.dispatch_some()
        assert slave.confirmed_offset < point
        while is_past and slave.confirmed_offset <= point:
            assert copy.dispatch_some()
        copy.show_until(0)
        assert not copy.dispatch_some(), "nothing goes on before the cut"
        assert slave.close()
        cut_back(str(root), FILE_SIZE_BYTES, point, OsDisk())
        again = make_store(root)
        assert again.end_offset == point
        assert seen(again) == until_then


def test_dispatch_goes_on_where_retention_has_left_something(make_store: MakeStore, tmp_path: Path) -> None:
    master, slave = make_store(tmp_path / "master"), make_store(tmp_path / "slave")
    fill(master)
    copy = slave.log_copy()
    for log_offset, data in transfers(master, 0, random.Random(1)):
        copy.append(log_offset, data)
    slave.log.segments.delete_first()
    copy.dispatch_all()
    assert copy.behind_bytes == 0
    assert counts(slave) == counts(master)
    assert slave.min_offset("T", 0) > 0


@pytest.mark.parametrize("master_end", [0, log_copy.KEPT_BYTES])
def test_what_a_slave_that_follows_has_stays_in_memory(
    make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master_end: int
) -> None:
    """So does everything if the master does not say where its log ends."""
    for module in (log_copy, copied_blocks):
        monkeypatch.setattr(module, "BLOCK_BYTES", 512)
    monkeypatch.setattr(OsFile, "pwrite_direct", lambda *_: pytest.fail("it is read soon"))
    master, slave = make_store(tmp_path / "master"), make_store(tmp_path / "slave", TINY_SYNC)
    fill(master)
    copy = slave.log_copy()
    copy.master_ends_at(master_end)
    for log_offset, data in transfers(master, 0, random.Random(0)):
        copy.append(log_offset, data)
    copy.dispatch_all()
    slave.flush_log()
    assert seen(slave) == seen(master)
