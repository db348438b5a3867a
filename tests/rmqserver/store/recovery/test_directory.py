"""The directory of a store: what is tried out there."""

import os
from pathlib import Path
from typing import Any

import pytest

from rmqserver.store.disk.disk import OsDisk, OsFile
from rmqserver.store.recovery.directory import StoreDirectory


def test_a_kill_while_room_is_looked_for_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It left files of 64 KiB that nobody removed."""
    seen: list[list[str]] = []
    write = OsFile.pwrite

    def pwrite(file: OsFile, data: Any, at: int) -> None:
        write(file, data, at)
        seen.append(os.listdir(tmp_path))

    monkeypatch.setattr(OsFile, "pwrite", pwrite)
    assert StoreDirectory(str(tmp_path), OsDisk()).has_room_for_files()
    assert seen
    assert not any(seen)
