"""Crashes of a broker's files about its set - its identity, and the epochs of its log - by the fault model of
``recording_disk.py``. The next start finds them as they were before or after the change, never in another state, and
goes on from there. Files that another program has left empty or half written are refused with an explanation."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from rmqproto.errors import StorageError
from rmqserver.broker.controlled.identity import IdentityFiles
from rmqserver.store.epochs import Epoch, EpochFile, EpochList

from .recording_disk import Loss, RecordingDisk, RecordingFile

EPOCHS = "/broker/epochFileCheckpoint"
IDENTITY = "/broker/config/brokerIdentity"
STEPS = 40
SEEDS_QUICK, SEEDS_SLOW = 1, 20

Disks = Callable[[RecordingDisk], Any]


def as_it_is(disk: RecordingDisk) -> RecordingDisk:
    return disk


class _NoSync(RecordingFile):
    __slots__ = ()

    def fdatasync(self) -> None:
        pass


class _Changed:
    """The disk without the operation that a broken variant leaves out."""

    def __init__(self, disk: RecordingDisk):
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


class WithoutDataSync(_Changed):
    def open(self, path: str, **how: Any) -> RecordingFile:
        file = self._disk.open(path, **how)
        file.__class__ = _NoSync
        return file


class WithoutNameSync(_Changed):
    def sync_directory(self, path: str) -> None:
        pass


class WithoutTemporary(_Changed):
    """Writes to the file itself."""

    def open(self, path: str, **how: Any) -> RecordingFile:
        return self._disk.open(path.removesuffix(".tmp"), **how)

    def rename(self, source: str, target: str) -> None:
        pass


BROKEN = [WithoutDataSync, WithoutNameSync, WithoutTemporary]


class Life:
    """Knows which states may be found at any moment: the one after the last change that returned, and while a change
    runs, those that it leads to."""

    def __init__(self, seed: int, disks: Disks = as_it_is):
        self.rng = Random(seed)
        self.disk = RecordingDisk()
        self.disks = disks
        self.allowed: list[object] = []
        self.image_count = 0

    def watch(self, found: Callable[[RecordingDisk], object]) -> None:
        def crash() -> None:
            for loss in Loss:
                self.image_count += 1
                image = self.disk.image(loss, Random(self.rng.getrandbits(32)))
                assert found(image) in self.allowed, loss

        self.disk.on_change = crash

    def step(self, change: Callable[[], None], *leads_to: object) -> None:
        """``leads_to`` has the states that may be found while ``change`` runs; afterwards only the last may be."""
        self.allowed += leads_to
        change()
        self.allowed = [leads_to[-1]]
        assert self.disk.on_change is not None
        self.disk.on_change()


def epochs_at(disk: Any) -> list[Epoch]:
    file = EpochFile(EPOCHS, disk)
    file.load()
    return file.epochs.entries


def live_of_epochs(seed: int, disks: Disks = as_it_is) -> int:
    """Epochs begin, are cut at both ends, down to nothing, and begin again. Returns how many images were checked."""
    life = Life(seed, disks)
    rng, file = life.rng, EpochFile(EPOCHS, disks(life.disk))
    life.allowed = [[]]
    life.watch(epochs_at)
    end = 0
    for _ in range(STEPS):
        epochs = file.epochs
        match rng.choice(["begins", "begins", "begins", "is cut", "expires", "is cut to nothing"]):
            case "begins":
                for _ in range(rng.choice([1, 1, 80])):  # 80 exceed a sector
                    end += rng.randrange(1, 1 << 30)
                    epochs.begin(epochs.last_epoch + rng.randrange(1, 5) + (epochs.last_epoch < 0), end)
            case "is cut":
                end = max(0, end - rng.randrange(0, 1 << 30))
                epochs.cut_behind(end)
            case "expires":
                epochs.cut_before(rng.randrange(0, max(end, 1)))
            case _:
                end = 0
                epochs.cut_behind(end)
        life.step(file.save, list(epochs.entries))
        if rng.random() < 0.2:  # a kill, and the next start
            file = EpochFile(EPOCHS, disks(life.disk))
            file.load()
    return life.image_count


def identity_at(disk: Any) -> tuple[int | None, tuple[int, str] | None]:
    files = IdentityFiles(IDENTITY, "c", "a" * 700, disk)
    return files.load(), files.load_applied()


def live_of_identity(seed: int, disks: Disks = as_it_is) -> int:
    """Ids are applied for and refused, until one is granted and saved. Returns how many images were checked."""
    life = Life(seed, disks)
    files = IdentityFiles(IDENTITY, "c", "a" * 700, disks(life.disk))
    life.allowed = [(None, None)]
    life.watch(identity_at)
    refused = life.rng.randrange(0, 4)
    for broker_id in range(1, refused + 1):
        life.step(lambda: files.apply(broker_id, f"h:1;{broker_id}"), (None, (broker_id, f"h:1;{broker_id}")))  # noqa: B023
        life.step(files.refuse, (None, None))
    applied = refused + 1, "h:1;9"
    life.step(lambda: files.apply(*applied), (None, applied))
    life.step(lambda: files.save(applied[0]), (applied[0], applied), (applied[0], None))
    return life.image_count


LIVES = pytest.mark.parametrize("live", [live_of_epochs, live_of_identity])


@LIVES
def test_a_crash_leaves_what_was_or_what_is(live: Callable[[int], int]) -> None:
    assert sum(live(seed) for seed in range(SEEDS_QUICK)) > 100


@pytest.mark.sweep
@LIVES
def test_no_crash_of_many_does_otherwise(live: Callable[[int], int]) -> None:
    for seed in range(SEEDS_SLOW):
        live(seed)


@LIVES
@pytest.mark.parametrize("broken", BROKEN)
def test_broken_variants_are_caught(live: Callable[[int, Disks], int], broken: Disks) -> None:
    def check() -> None:
        for seed in range(5):
            live(seed, broken)

    with pytest.raises((AssertionError, StorageError)):
        check()


def test_a_damaged_file_gives_way_and_its_copy_stays_whole() -> None:
    """A program that writes in place has left half of the file, so its copy is all that there is. At every moment of
    the next change there is the copy's content or the new one; the copy used to be overwritten first, with the half
    file. Afterwards both are whole."""
    life = Life(3)
    file = EpochFile(EPOCHS, life.disk)
    file.epochs.begin(1, 0)
    file.save()
    before = list(file.epochs.entries)
    damage(life.disk, EPOCHS)
    again = EpochFile(EPOCHS, life.disk)
    again.load()
    assert again.epochs.entries == before
    life.allowed = [before]
    life.watch(epochs_at)
    again.epochs.begin(2, 4711)
    life.step(again.save, list(again.epochs.entries))
    life.disk.on_change = None
    damage(life.disk, EPOCHS)
    assert epochs_at(life.disk) == again.epochs.entries


def damage(disk: RecordingDisk, path: str) -> None:
    """Leaves half of the file, on the device."""
    file = disk.open(path)
    file.truncate(file.size() // 2)
    file.fdatasync()


def written(path: str, data: bytes) -> RecordingDisk:
    disk = RecordingDisk()
    disk.mkdir(path.rpartition("/")[0])
    disk.open(path, create_size_bytes=0).pwrite(data, 0)
    return disk


def test_a_file_of_epochs_that_is_half_is_refused_in_words() -> None:
    """Tries each first part of the file, as a program that writes in place may leave it, and one of zeros."""
    text = EpochList([Epoch(1, 0), Epoch(5, 108808)]).to_text().encode()
    assert epochs_at(written(EPOCHS, text)) == [Epoch(1, 0), Epoch(5, 108808)]
    for left in [*(text[:size] for size in range(len(text) - 1)), bytes(len(text))]:
        with pytest.raises(StorageError, match=r"epochFileCheckpoint is (damaged|empty)") as caught:
            epochs_at(written(EPOCHS, left))
        assert caught.value.hint is not None
        assert "put back a copy" in caught.value.hint


def test_an_identity_that_is_half_is_refused_in_words() -> None:
    """Tries each first part of the file that lacks the id, and one of zeros. A part of the id looks like another id."""
    text = ("c#" + "a" * 700 + "#7").encode()
    assert identity_at(written(IDENTITY, text)) == (7, None)
    for left in [*(text[:size] for size in range(len(text) - 1)), bytes(len(text))]:
        with pytest.raises(StorageError, match=r"brokerIdentity is (damaged|empty|of broker)") as caught:
            identity_at(written(IDENTITY, left))
        assert caught.value.hint is not None


def test_an_identity_that_was_applied_for_and_is_empty_is_applied_for_again() -> None:
    """An Apache broker, which writes in place, may leave it so. The controller knows the code, and gives the same
    id."""
    disk = written(IDENTITY, b"")
    disk.open(f"{IDENTITY}-temp", create_size_bytes=0).pwrite(("c#" + "a" * 700 + "#3#h:1;9").encode(), 0)
    assert identity_at(disk) == (None, (3, "h:1;9"))
