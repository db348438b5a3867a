from pathlib import Path

import pytest

from rmqproto.errors import UsageError
from rmqserver.process.ready_line import check_ready_file


def test_a_ready_file_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "ready.json"):
        with pytest.raises(UsageError, match=f"--ready-file {path}: "):
            check_ready_file(str(path))


def test_the_look_at_a_ready_file_leaves_nothing_behind(tmp_path: Path) -> None:
    check_ready_file(str(tmp_path / "ready.json"))
    assert list(tmp_path.iterdir()) == []
