"""Crashes of a controller's log, by the fault model of ``recording_disk.py``: the next start finds the state after the
last answered event, or after the one that was being stored, and goes on from there."""

from random import Random

import pytest

from rmqproto.errors import StorageError
from rmqserver.controller.controller_state import BrokerIdApplied, BrokerSets, MasterElected, SyncStateSetAltered, apply
from rmqserver.controller.controller_store import Kept
from rmqserver.controller.event_log import EventLog
from rmqserver.store.disk.disk import File

from .recording_disk import Loss, RecordingDisk, RecordingFile

DIRECTORY = "/controller"
EVENTS = 40
SNAPSHOT_AFTER = 7


def events(rng: Random) -> list[BrokerIdApplied | MasterElected | SyncStateSetAltered]:
    """Random events for a set of three brokers. Some are longer than a sector."""
    name = "a" * rng.choice([1, 700])
    found: list[BrokerIdApplied | MasterElected | SyncStateSetAltered] = []
    found += [BrokerIdApplied("c", name, f"h:{broker_id}", broker_id, "x;1") for broker_id in (1, 2, 3)]
    for _ in range(EVENTS):
        master = rng.randrange(1, 4)
        found.append(rng.choice([MasterElected(name, master), SyncStateSetAltered(name, (1, 2, 3))]))
    return found


def raise_if_not(error: Exception | None) -> None:
    """A ``Kept`` callback."""
    if error is not None:
        raise error


class Life:
    """Writes to a log, and knows what it may contain at any moment."""

    def __init__(self, seed: int, kind: type[EventLog] = EventLog):
        self.rng = Random(seed)
        self.kind = kind
        self.disk = RecordingDisk()
        self.answered: BrokerSets = {}
        self.pending: BrokerSets | None = None
        self.image_count = 0

    def check(self) -> None:
        log = self.kind(DIRECTORY, self.disk, SNAPSHOT_AFTER)
        self.disk.on_change = self.crash
        assert log.open() == {}
        for event in events(self.rng):
            self.pending = apply(self.answered, event)
            log.append([event], self.pending, raise_if_not)
            self.answered, self.pending = self.pending, None
        log.close()

    def crash(self) -> None:
        for loss in Loss:
            image = self.disk.image(loss, Random(self.rng.getrandbits(32)))
            self.image_count += 1
            log = self.kind(DIRECTORY, image, SNAPSHOT_AFTER)
            found = log.open()
            assert found == self.answered or found == self.pending, loss
            after = apply(found, BrokerIdApplied("c", "later", "h:1", 1, "x;1"))
            log.append([BrokerIdApplied("c", "later", "h:1", 1, "x;1")], after, raise_if_not)
            log.close()
            again = self.kind(DIRECTORY, image.image(Loss.EVERYTHING, self.rng), SNAPSHOT_AFTER)
            assert again.open() == after, "what it cut off did not come back"
            again.close()


def test_a_crash_loses_nothing_that_was_answered() -> None:
    life = Life(1)
    life.check()
    assert life.image_count > 500


@pytest.mark.sweep
def test_no_crash_of_many_does() -> None:
    for seed in range(60):
        Life(seed).check()


class _NoSync(RecordingFile):
    __slots__ = ()

    def fdatasync(self) -> None:
        pass


class WithoutSync(EventLog):
    """Answers before the event is on the device."""

    def append(self, events: object, after: BrokerSets, kept: Kept) -> None:
        file = self._file
        assert isinstance(file, RecordingFile)
        file.__class__ = _NoSync
        super().append(events, after, kept)  # type: ignore[arg-type]


class WithoutName(EventLog):
    """Does not sync the name of a new file."""

    def _begin_anew(self, new: File) -> None:
        sync = self._disk.sync_directory
        self._disk.sync_directory = lambda path: None  # type: ignore[method-assign]
        try:
            super()._begin_anew(new)
        finally:
            self._disk.sync_directory = sync  # type: ignore[method-assign]


@pytest.mark.parametrize("broken", [WithoutSync, WithoutName])
def test_broken_variants_are_caught(broken: type[EventLog]) -> None:
    """Each leads to a wrong state, or to a log that does not open."""

    def check() -> None:
        for seed in range(5):
            Life(seed, broken).check()

    with pytest.raises((AssertionError, StorageError)):
        check()
