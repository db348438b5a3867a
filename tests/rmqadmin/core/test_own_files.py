"""Files of our own."""

import errno
import os
from pathlib import Path

import pytest

from rmqadmin.core.own_files import write_private
from rmqadmin.version import write_problem


def test_a_full_disk_is_told_with_the_file_and_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "kept"
    write_private(path, "before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_private(path, "after")
    assert write_problem(caught.value) == f"{path}: No space left on device"
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
