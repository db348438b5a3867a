"""A byte of any file is changed, or a sector of it is lost. The check finds that; or nobody reads the byte, so a start
of the store serves the same; or it is one of the bytes that no checksum covers and nothing repeats, which
docs/stores.md lists."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rmqproto.errors import ProtocolError, StorageError
from rmqproto.message.record import RECORD_V4, decode_record_untrusted
from rmqproto.wire.fastjson import parse_untrusted
from rmqserver.store.checks.dry_run import BREAKS
from rmqserver.store.checks.finding import StoreFinding
from rmqserver.store.disk.overlay import OverlayDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import TimerPaths
from rmqserver.store.timers.timer_check import log_state
from rmqserver.store.timers.timer_store import TimerStore
from tests.rmqserver.store.checks.stores import NOW_MS, OPTIONS, TIMERS, Damaged, fill
from tests.support.clock import Clock

QUICK_COUNT = 40
SECTOR_BYTES = 512

UNCOVERED = (range(16, 20), range(36, 84))
"""The uncovered bytes of a record with IPv4 hosts: flag; sysFlag, born time and host, store time and host, reconsume
times, prepared transaction offset. Its properties are uncovered, too, except what the index and the consume queue
repeat of them."""

Place = tuple[str, int]
"""A file below the root, and a byte in it."""


class Victim:
    """A store whose bytes are changed one at a time."""

    def __init__(self, root: Path):
        self.root = root
        self.usual = set(Damaged.of(root).check().findings)
        self.served = served(Damaged.of(root))
        paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
        self.sizes = {str(path.relative_to(root)): path.stat().st_size for path in paths}

    def used_places(self) -> Iterator[Place]:
        """The bytes that hold something, and a few of the others."""
        for name in self.sizes:
            data = (self.root / name).read_bytes()
            if name == "timerwheel":
                continue
            yield from ((name, at) for at, byte in enumerate(data) if byte or at % 97 == 0)
        disk = Damaged.of(self.root).disk
        wheel, at = disk.open(f"{self.root}/timerwheel"), 0
        while (at := wheel.next_data(at)) < wheel.size():
            data = wheel.pread(4096, at)
            yield from (("timerwheel", at + i) for i, byte in enumerate(data) if byte)
            at += len(data)

    def check(self, damaged: Damaged, name: str, at: int) -> str:
        """Returns ``found``, ``unread`` or ``uncovered``; fails for anything else."""
        new: set[StoreFinding] = set(damaged.check().findings) - self.usual
        assert not any(BREAKS in finding.ours for finding in new), (name, at, new)
        if new:
            return "found"
        if served(damaged) == self.served:
            return "unread"
        assert self.is_uncovered(damaged, name, at), f"byte {at} of {name} matters, and is not found"
        return "uncovered"

    def is_uncovered(self, damaged: Damaged, name: str, at: int) -> bool:
        if name.startswith("config/") and not name.endswith("timercheck"):
            return isinstance(parsed(damaged.disk.read_bytes(f"{self.root}/{name}")), dict)
        if not name.startswith("commitlog/"):
            return False
        data = (self.root / name).read_bytes()
        start = 0
        while at >= start + int.from_bytes(data[start : start + 4], "big"):
            start += int.from_bytes(data[start : start + 4], "big")
        record = decode_record_untrusted(data, start)
        inside = at - start
        is_property = inside >= record.size_bytes - len(record.properties_raw)
        return is_property or any(inside in fields for fields in UNCOVERED)


def parsed(data: bytes) -> Any:
    try:
        return parse_untrusted(data)
    except ProtocolError:
        return None


def served(damaged: Damaged) -> Any:
    """Everything that a broker of ours would serve: messages by queue, look-ups by key, timers."""
    disk, clock = OverlayDisk(damaged.disk), Clock(NOW_MS)
    store = MessageStore(damaged.root, OPTIONS, disk, clock, background=False)
    try:
        store.open()
    except StorageError as error:
        return str(error)
    found: dict[Any, Any] = {"ends": (store.log.min_offset, store.end_offset)}
    for queue in store.queues.all():
        units = [queue.unit(offset) for offset in range(queue.min_offset, queue.max_offset)]
        records = [store.get_record(unit[0]) for unit in units if unit is not None]
        found[queue.topic, queue.queue_id] = queue.min_offset, units, records
    for key in ("k3", "U17", "D", "L", "k39"):
        for topic in ("TopicA", "TopicB", "TopicC"):
            found[topic, key] = store.query(topic, key, 10, 0, 1 << 60).records
    timers = TimerStore(TimerPaths.below(str(damaged.root)), TIMERS, disk, FileCache(disk, 4))
    try:
        timers.load(log_state(store), clean=True)
        found["timers"] = [(unit.log_offset, unit.slot_time_ms // 1000) for unit in timers.waiting_units()]
    except StorageError as error:
        found["timers"] = str(error)
    store.abandon()
    return found


@pytest.fixture(scope="module", params=[True, False], ids=["closed", "killed"])
def victim(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Victim:
    return Victim(fill(tmp_path_factory.mktemp("victim") / "store", is_closed=request.param))


def flip_some(victim: Victim, places: list[Place], rng: Random) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, at in places:
        damaged = Damaged.of(victim.root)
        damaged.flip(name, at, 1 << rng.randrange(8))
        outcome = victim.check(damaged, name, at)
        counts[outcome] = counts.get(outcome, 0) + 1
    return counts


def test_a_flipped_bit_is_found_or_does_not_matter(victim: Victim) -> None:
    rng = Random(1)
    counts = flip_some(victim, rng.sample(list(victim.used_places()), QUICK_COUNT), rng)
    assert counts["found"] > QUICK_COUNT / 2


@pytest.mark.sweep
def test_every_flipped_byte_is_found_or_does_not_matter(victim: Victim) -> None:
    places = list(victim.used_places())
    counts = flip_some(victim, places, Random(2))
    assert counts["found"] > len(places) / 2


def test_a_lost_or_strange_sector_is_found_or_does_not_matter(victim: Victim) -> None:
    """A sector holds more than the uncovered bytes of one record, so nothing is excused."""
    rng = Random(3)
    names = [name for name in victim.sizes if name not in ("timerwheel", "lock")]
    for name, fill_byte in itertools.product(rng.sample(names, min(len(names), 8)), (0, 0xA5)):
        at = rng.randrange(0, victim.sizes[name], SECTOR_BYTES)
        damaged = Damaged.of(victim.root)
        damaged.write(name, bytes([fill_byte]) * min(SECTOR_BYTES, victim.sizes[name] - at), at)
        if name.endswith(".json"):
            assert set(damaged.check().findings) - victim.usual, name
        else:
            assert victim.check(damaged, name, -RECORD_V4.size) in ("found", "unread"), (name, at)
