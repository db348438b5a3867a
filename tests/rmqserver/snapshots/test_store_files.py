"""Copies of a closed store."""

import errno
from pathlib import Path

import pytest

from rmqproto.errors import UsageError
from rmqserver.snapshots import SNAPSHOTS_MAX, StoreFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "config").mkdir()
    with (tmp_path / "commitlog/0").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 20)
        file.write(b"a record")
    (tmp_path / "checkpoint").write_bytes(b"point")
    (tmp_path / "mine").write_bytes(b"not of the store")
    return tmp_path


def test_a_copy_has_the_holes_of_the_store(root: Path) -> None:
    StoreFiles(str(root)).save("s")
    copy = root / "snapshots/s/commitlog/0"
    assert copy.stat().st_size == 1 << 30
    assert copy.stat().st_blocks * 512 < 1 << 24
    with copy.open("rb") as file:
        file.seek(1 << 20)
        assert file.read(9) == b"a record\0"


def test_only_what_is_of_the_store_goes_and_comes_back(root: Path) -> None:
    files = StoreFiles(str(root))
    files.save("s")
    files.clear()
    assert sorted(path.name for path in root.iterdir()) == ["mine", "snapshots"]
    (root / "index").mkdir()
    files.restore("s")
    assert sorted(path.name for path in root.iterdir()) == ["checkpoint", "commitlog", "config", "mine", "snapshots"]
    assert files.names() == ["s"]


@pytest.mark.parametrize("whole_count", range(6))
def test_a_restore_that_fails_leaves_the_store_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch, whole_count: int
) -> None:
    """Three parts go and three come; the file system breaks after each number of them."""
    files = StoreFiles(str(root))
    files.save("s")
    (root / "checkpoint").write_bytes(b"later")
    rename, left = Path.rename, [whole_count]

    def breaking(path: Path, target: Path) -> Path:
        if left[0] == 0:
            left[0] = -1
            raise OSError(errno.EIO, "broken")
        left[0] -= 1
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", breaking)
    with pytest.raises(OSError, match="broken"):
        files.restore("s")
    assert sorted(path.name for path in root.iterdir()) == ["checkpoint", "commitlog", "config", "mine", "snapshots"]
    assert (root / "checkpoint").read_bytes() == b"later"
    files.restore("s")
    assert (root / "checkpoint").read_bytes() == b"point"


def test_there_is_room_for_so_many(root: Path) -> None:
    files = StoreFiles(str(root))
    assert files.names() == []
    for number in range(SNAPSHOTS_MAX):
        files.check_room(str(number))
        (root / "snapshots" / str(number)).mkdir(parents=True)
    files.check_room("5")
    with pytest.raises(UsageError, match="no more"):
        files.check_room("new")
