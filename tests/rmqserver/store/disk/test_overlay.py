"""An overlay behaves as the disk below would, and leaves it as it is."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqserver.store.disk.disk import Disk, OsDisk
from rmqserver.store.disk.overlay import PAGE_BYTES, OverlayDisk

NAMES = ("a", "b", "d/a", "d/b", "e/a")
DIRECTORIES = ("d", "e")

names = st.sampled_from(NAMES)
places = st.sampled_from([0, 1, 7, PAGE_BYTES - 1, PAGE_BYTES, 2 * PAGE_BYTES + 3])
datas = st.sampled_from([b"", b"x", b"\0" * 5, b"words" * 1000])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("open"), names, st.sampled_from([0, 10, 3 * PAGE_BYTES])),
        st.tuples(st.just("pwrite"), names, datas, places),
        st.tuples(st.just("truncate"), names, places),
        st.tuples(st.just("unlink"), names),
        st.tuples(st.just("rename"), names, names),
        st.tuples(st.just("mkdir"), st.sampled_from(DIRECTORIES)),
        st.tuples(st.just("rmdir"), st.sampled_from(DIRECTORIES)),
    ),
    max_size=12,
)


def act(disk: Disk, root: Path, step: tuple[Any, ...]) -> str:
    """Does a step; returns the kind of error that it ends in, or ""."""
    what, name, *rest = step
    path = f"{root}/{name}"
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: disk.open(path, create_size_bytes=rest[0]),
        "pwrite": lambda: disk.open(path).pwrite(*rest),
        "truncate": lambda: disk.open(path).truncate(*rest),
        "unlink": lambda: disk.unlink(path),
        "rename": lambda: disk.rename(path, f"{root}/{rest[0]}"),
        "mkdir": lambda: disk.mkdir(path),
        "rmdir": lambda: disk.rmdir(path),
    }
    try:
        calls[what]()
    except OSError as error:
        return type(error).__name__
    return ""


def seen(disk: Disk, root: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"": disk.listdir(str(root))}
    for name in DIRECTORIES:
        is_there = disk.is_directory(f"{root}/{name}")
        found[name] = disk.listdir(f"{root}/{name}") if is_there else None
    for name in NAMES:
        path = f"{root}/{name}"
        if disk.is_file(path):
            content = disk.read_bytes(path)
            file = disk.open(path, read_only=True)
            for at in range(0, len(content), 1000):
                assert file.pread(1500, at) == content[at : at + 1500]
                assert not any(content[at : file.next_data(at)])
            found[name] = content, file.size(), disk.file_size(path)
    return found


@settings(deadline=None)
@given(steps)
def test_it_behaves_as_a_disk(plan: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        below, real = Path(temporary, "below"), Path(temporary, "real")
        (below / "d").mkdir(parents=True)
        (below / "a").write_bytes(b"content of a")
        (below / "d/a").write_bytes(bytes(range(256)) * 50)
        shutil.copytree(below, real)
        before = seen(OsDisk(), below)
        overlay, disk = OverlayDisk(OsDisk()), OsDisk()
        for step in plan:
            assert act(overlay, below, step) == act(disk, real, step), step
            assert seen(overlay, below) == seen(disk, real)
        assert seen(OsDisk(), below) == before
        is_kept = {f"{below}/{name}" for name in NAMES if isinstance(before.get(name), tuple)}
        assert set(overlay.removed_paths()) <= is_kept
        for path in is_kept - set(overlay.removed_paths()) - set(overlay.changed_paths()):
            assert overlay.read_bytes(path) == Path(path).read_bytes()
        overlay.close()


def test_written_ranges_are_merged(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    disk = OverlayDisk(OsDisk())
    file = disk.open(f"{tmp_path}/a")
    for start, end in ((10, 20), (20, 25), (60, 70), (5, 12), (68, 80)):
        file.pwrite(b"x" * (end - start), start)
    assert disk.written(f"{tmp_path}/a") == [(5, 25), (60, 80)]
    assert disk.changed_paths() == [f"{tmp_path}/a"]
    assert disk.written(f"{tmp_path}/b") == []


def test_a_lock_is_not_taken(tmp_path: Path) -> None:
    disk = OverlayDisk(OsDisk())
    disk.lock(f"{tmp_path}/lock").pwrite(b"lock", 0)
    assert not (tmp_path / "lock").exists()
    with contextlib.closing(OsDisk().lock(f"{tmp_path}/lock")):
        disk.lock(f"{tmp_path}/lock")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{tmp_path}/none")
