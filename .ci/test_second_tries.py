"""CI may retry a failed test once, and must say so: a test that often needs its second try is a bug."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
FAILS_ONCE = """
import pathlib, pytest

@pytest.mark.parametrize("name", {names})
def test_fails_once(name):
    file = pathlib.Path(__file__).with_name(name)
    was_there = file.exists()
    file.touch()
    assert was_there
"""


@pytest.mark.parametrize(
    ("names", "workers", "status"),
    [
        pytest.param(["one"], 1, 0, id="one"),
        pytest.param(["one", "two"], 1, 1, id="two"),
        pytest.param(["one", "two"], 0, 1, id="without xdist"),
    ],
)
def test_too_many_second_tries_are_a_failure(tmp_path: Path, names: list[str], workers: int, status: int) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_it.py").write_text(FAILS_ONCE.format(names=names))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-raR", "--reruns", "1", "-n", str(workers), "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    last_line = done.stdout.splitlines()[-1]
    assert f"{len(names)} passed" in last_line
    assert f"{len(names)} rerun" in last_line
    assert ("1 failed" in last_line) == bool(status)
    assert all(f"test_it.py::test_fails_once[{name}]" in done.stdout for name in names)
