"""``store verify`` on crash images, by the fault model of ``recording_disk.py``. For every image, the checks finish,
count at least the log that recovery keeps, report anything that recovery cuts off, and find no damage in the recovered
store."""

from collections.abc import Callable
from random import Random

import pytest

from rmqproto.message.record import MAGIC_BLANK
from rmqserver.store.checks.finding import FindingKind, StoreFinding
from rmqserver.store.checks.store_check import CheckReport, check_store
from rmqserver.store.disk.overlay import OverlayDisk
from rmqserver.store.found.survey import survey
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode
from tests.support.clock import Clock

from .images import LOSSES, WEIGHTS
from .recording_disk import RecordingDisk
from .workload import ROOT, Workload, options_for

IMAGES_QUICK = 15
IMAGES = 2_000
IMAGE_EVERY = 53
"""How many changes of the disk lie between two images."""
STEPS_PER_RUN = 8

BLANK_MAGIC = MAGIC_BLANK.to_bytes(4, "big", signed=True)

LOG_KINDS = {
    FindingKind.LOG_DAMAGE, FindingKind.LOG_TAIL, FindingKind.LOG_LOST, FindingKind.RECORD_TORN,
    FindingKind.FILE_SIZE, FindingKind.FILE_MISSING,
}  # fmt: skip
OTHERS = {FindingKind.TABLE_OFFSET, FindingKind.TABLE_TOPIC, FindingKind.TABLE_DAMAGED, FindingKind.TOPIC_DELETED}
"""Findings to ignore: the workload's topics are not those that its tables name, and no broker sets committed offsets
back."""


def checked(disk: RecordingDisk | OverlayDisk) -> CheckReport:
    return check_store(survey(ROOT, disk, options_for(FlushMode.SYNC)), clock_ms=Clock())


def damage(report: CheckReport) -> list[StoreFinding]:
    return [finding for finding in report.findings if finding.is_damage and finding.kind not in OTHERS]


def check_image(image: RecordingDisk, mode: FlushMode) -> None:
    if not image.is_directory(f"{ROOT}/commitlog"):
        return
    found = checked(image)
    above = OverlayDisk(image)
    store = MessageStore(ROOT, options_for(mode), above, clock_ms=Clock(), background=False)
    recovered = store.open()
    cut = [path for path in above.changed_paths() if "/commitlog/" in path and _lost_bytes(image, above, path)]
    if cut or found.log_bytes > recovered.end_offset:
        assert LOG_KINDS & {finding.kind for finding in found.findings}, (cut, recovered)
    assert found.log_bytes >= recovered.end_offset
    while store.dispatch_some():
        pass
    assert store.close()
    assert damage(checked(above)) == []


def _lost_bytes(image: RecordingDisk, above: OverlayDisk, path: str) -> bytes:
    """The data that recovery has overwritten, apart from zeros and the blank at the end of a file."""
    data = image.read_bytes(path) if image.is_file(path) else b""
    lost = b"".join(data[slice(*span)] for span in above.written(path))
    return b"" if lost[4:].startswith(BLANK_MAGIC) else lost.strip(b"\0")


def check_images(mode: FlushMode, count: int) -> None:
    seed = 0
    while count > 0:
        seed += 1
        disk, rng, changes = RecordingDisk(), Random(seed), 0
        workload = Workload(mode, seed, disk)

        def crash(disk: RecordingDisk = disk, rng: Random = rng, note: Callable[[], None] = lambda: None) -> None:
            nonlocal changes, count
            changes += 1
            if changes % IMAGE_EVERY == 0 and count > 0:
                count -= 1
                (loss,) = rng.choices(LOSSES, WEIGHTS)
                check_image(disk.image(loss, Random(rng.getrandbits(32))), mode)

        disk.on_change = crash
        workload.start()
        for _ in range(STEPS_PER_RUN):
            workload.step()
        workload.stop()
        disk.on_change = None


@pytest.mark.parametrize("count", [IMAGES_QUICK, pytest.param(IMAGES, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("mode", FlushMode, ids=lambda mode: mode.name)
def test_what_a_crash_leaves_is_told_and_what_recovery_leaves_is_clean(mode: FlushMode, count: int) -> None:
    check_images(mode, count)
