"""Copies of a store that is closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqproto.errors import UsageError
from rmqserver.snapshots.store_files import SNAPSHOTS_MAX, StoreFiles


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


def test_there_is_room_for_so_many(root: Path) -> None:
    files = StoreFiles(str(root))
    assert files.names() == []
    for number in range(SNAPSHOTS_MAX):
        files.check_room(str(number))
        (root / "snapshots" / str(number)).mkdir(parents=True)
    files.check_room("5")
    with pytest.raises(UsageError, match="no more"):
        files.check_room("new")
