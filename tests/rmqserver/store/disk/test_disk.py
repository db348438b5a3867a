"""File system access: whole writes or an error, locks, and files that outlive their name."""

import errno
import mmap
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from rmqserver.store.disk.disk import DiskUsage, OsDisk
from rmqserver.store.log.flusher import Doorbell


def test_a_new_file_has_its_full_size_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    file = OsDisk().open(path, create_size_bytes=1 << 30)
    file.pwrite(b"end", (1 << 30) - 3)
    assert file.size() == 1 << 30
    assert os.stat(path).st_blocks < 1000
    again = OsDisk().open(path, create_size_bytes=1)
    assert again.pread(10, (1 << 30) - 3) == b"end"
    again.allocate(0, 1 << 20)
    assert again.size() == 1 << 30


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    file = OsDisk().open(str(tmp_path / "file"), create_size_bytes=0)
    file.pwrite(b"0123456789", 0)
    assert file.pread(20, 0) == b"0123456789"


@pytest.mark.parametrize("size_bytes", [8192, 8192 + 4096 + 100, 100])
@pytest.mark.parametrize("is_supported", [True, False])
def test_a_direct_write_comes_after_what_was_written_before_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int, is_supported: bool
) -> None:
    """Also if the file system cannot do it, or the size does not fit the device."""
    if not is_supported:
        monkeypatch.setattr(os, "O_DIRECT", os.O_DIRECTORY)
    memory = memoryview(mmap.mmap(-1, 16384))[:size_bytes]
    memory[:] = b"direct.." * (size_bytes // 8) + b"end."[: size_bytes % 8]
    file = OsDisk().open(str(tmp_path / "file"), create_size_bytes=1 << 20)
    file.pwrite(b"before" * 4000, 0)
    file.pwrite_direct(memory, 4096)
    assert file.pread(size_bytes, 4096) == memory
    assert file.pread(6, 0) == b"before"
    file.pwrite(b"after", 4096)
    assert file.pread(8, 4096) == b"aftert.."


def test_a_direct_write_that_finds_no_room_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: memoryview, at: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = OsDisk().open(str(tmp_path / "file"), create_size_bytes=1 << 20)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        file.pwrite_direct(memoryview(mmap.mmap(-1, 4096)), 0)


def test_a_cached_read_gives_the_bytes_or_none(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "file"), create_size_bytes=0)
    file.pwrite(b"0123456789", 0)
    assert file.pread_cached(4, 2) in (b"2345", None)


def test_large_cached_reads_have_their_own_bytes(tmp_path: Path) -> None:
    """All of them are read into one shared buffer."""
    data = os.urandom(1 << 20)
    file = OsDisk().open(str(tmp_path / "file"), create_size_bytes=0)
    file.pwrite(data, 0)
    found = [file.pread_cached(size, at) for size, at in ((1 << 20, 0), (100_000, 5), (300_000, 70_000))]
    expected = [data, data[5:100_005], data[70_000:370_000]]
    assert all(each in (one, None) for each, one in zip(found, expected, strict=True))
    assert file.pread_cached(100_000, (1 << 20) - 99_999) is None, "not all of it is there"
    memory = memoryview(bytearray(100_000))
    assert not file.pread_cached_into(memory, 5) or memory == data[5:100_005]
    assert not file.pread_cached_into(memory, (1 << 20) - 99_999)


def test_a_lock_holds_against_this_process_and_others(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    held = OsDisk().lock(path)
    with pytest.raises(BlockingIOError):
        OsDisk().lock(path)
    program = "import fcntl,sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)"
    other = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in other.stderr
    held.close()
    OsDisk().lock(path).close()


def test_a_file_is_closed_by_its_last_reader(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"data")

    def is_open() -> bool:
        links = (os.path.realpath(link) for link in Path("/proc/self/fd").iterdir())
        return any(link.startswith(str(path)) for link in links)

    file = OsDisk().open(str(path))
    path.unlink()
    assert file.pread(4, 0) == b"data"
    assert is_open()
    del file
    assert not is_open()


def test_disk_usage_is_rounded_up_as_apache_does() -> None:
    assert DiskUsage(750, 250).used_percent == 75
    assert DiskUsage(7501, 2499).used_percent == 76


def test_a_rung_bell_is_readable_until_it_is_cleared() -> None:
    bell = Doorbell()
    for _ in range(3):
        bell.ring()
    ready = select.poll()  # select.select refuses high descriptors
    ready.register(bell.fd, select.POLLIN)
    assert ready.poll(0)
    bell.clear()
    assert not ready.poll(0)
    bell.close()
