"""A dry run of a start leaves every byte and every time of the store as they are, and its result equals what the same
start leaves of a copy."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from rmqserver.store.checks.dry_run import DryRun
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.disk.segments import file_size_in
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions, TimerOptions
from tests.rmqserver.store.golden import SIZES, unpack
from tests.support.clock import Clock
from tests.support.quick import first_is_quick

NAMES = ["killed", "torn-body", "clean", "torn", "lmq", "store-5.3.3"]
TIMERS = TimerOptions(log_file_size_bytes=1000 * 52)
NOT_COMPARED = {"abort", "lock"}
"""They name the process that runs."""


@pytest.fixture(scope="module", params=first_is_quick(NAMES, count=2))
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Path:
    return unpack(request.param, tmp_path_factory.mktemp(request.param))


def stamps(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Modification time, size and content of everything in a directory."""
    found = {}
    for path in sorted([directory, *directory.rglob("*")]):
        status = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(directory))] = (status.st_mtime_ns, status.st_size, content)
    return found


@pytest.mark.slow
def test_nothing_is_touched_and_the_end_is_that_of_a_real_start(unpacked: Path, tmp_path: Path) -> None:
    real = shutil.copytree(unpacked, tmp_path / "store")
    store = MessageStore(real, SIZES, clock_ms=Clock(), background=False)
    recovered = store.open()
    while store.dispatch_some():
        pass
    store.flush()
    store.abandon()
    before = stamps(unpacked)
    with DryRun(str(unpacked), SIZES, TIMERS, OsDisk(), Clock()) as tried:
        assert tried.refusal is None
        assert tried.recovered.end_offset == recovered.end_offset
        names = {str(path.relative_to(real)) for path in real.rglob("*") if path.is_file()}
        for name in names - NOT_COMPARED:
            if not name.startswith(("timer", "config/timercheck")):  # timers are loaded by a broker
                expected = (real / name).read_bytes()
                assert tried.disk.file_size(f"{unpacked}/{name}") == len(expected), name
                assert tried.disk.read_bytes(f"{unpacked}/{name}") == expected, name
        here = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
        removed = {path.removeprefix(f"{unpacked}/") for path in tried.disk.removed_paths()}
        assert here - removed - names == set()
        changed = {path.removeprefix(f"{unpacked}/") for path in tried.disk.changed_paths()}
        assert "abort" in changed
        assert tried.timers is not None
    assert stamps(unpacked) == before


def test_a_refusal_is_told(unpacked: Path, tmp_path: Path) -> None:
    real = shutil.copytree(unpacked, tmp_path / "store")
    log = real / "commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes()[:-1])
    before = stamps(real)
    with DryRun(str(real), SIZES, TIMERS, OsDisk()) as tried:
        assert tried.recovered is None
        assert "is 1048575 bytes long" in str(tried.refusal)
    assert stamps(real) == before


def test_what_the_log_would_say_is_kept_and_not_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    real = unpack("killed", tmp_path)
    (log,) = real.glob("commitlog/*1048576")
    data = bytearray(log.read_bytes())
    data[1459741 - 1048576 + 4] ^= 1  # the last flushed record, by the checkpoint
    log.write_bytes(data)
    with DryRun(str(real), SIZES, TIMERS, OsDisk()) as tried:
        assert tried.recovered.end_offset == 1459741
        assert any("before the record at 1459741 that was flushed" in line for line in tried.said)
    assert not caplog.records
    assert capfd.readouterr().err == ""


def test_sizes_are_found_though_a_file_is_damaged(tmp_path: Path) -> None:
    disk = OsDisk()
    for base in (0, 4096, 8192):
        (tmp_path / f"{base:020d}").write_bytes(bytes(4096 if base else 100))
    assert file_size_in(disk, str(tmp_path)) == 4096
    (tmp_path / f"{8192:020d}").unlink()
    assert file_size_in(disk, str(tmp_path)) == 4096
    assert file_size_in(disk, str(tmp_path / "none")) == 0


def test_counts_of_the_index_are_found(unpacked: Path) -> None:
    from rmqserver.store.recovery.directory import StoreDirectory

    found = StoreDirectory(str(unpacked), OsDisk()).adopt_sizes(StoreOptions())
    assert (found.index_slot_count, found.index_unit_count, found.index_enabled) == (1000, 2000, True)
    assert found.commit_log_file_size_bytes == SIZES.commit_log_file_size_bytes
    assert found.consume_queue_file_size_bytes == SIZES.consume_queue_file_size_bytes
