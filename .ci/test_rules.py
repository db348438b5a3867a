"""CI may retry a failed test once, and must say so: a test that often needs its second try is a bug. What takes turns
runs once in as many commits."""

from __future__ import annotations

import os
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


TAKES_TURNS = """
import pytest

@pytest.mark.in_turn("numbers")
@pytest.mark.parametrize("number", range(3))
def test_number(number):
    pass

def test_another():
    pass
"""


@pytest.mark.parametrize(("environment", "passed_count"), [({}, 2), ({"WHOLE": "1"}, 4)])
def test_one_of_those_that_take_turns_runs(tmp_path: Path, environment: dict[str, str], passed_count: int) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_it.py").write_text(TAKES_TURNS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = in_turn\n")
    commit = ["commit", "--quiet", "--allow-empty", "--message", "empty"]
    for git in (["init", "--quiet"], ["-c", "user.name=a", "-c", "user.email=a@example.org", *commit]):
        subprocess.run(["git", *git], cwd=tmp_path, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "WHOLE"} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{passed_count} passed" in done.stdout.splitlines()[-1], done.stdout + done.stderr
    assert ("SKIPPED [2]" in done.stdout) == (passed_count == 2)
    assert ("not its turn among numbers" in done.stdout) == (passed_count == 2)
