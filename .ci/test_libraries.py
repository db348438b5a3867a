"""Runs what stands on Textual, trio, anyio and Typer with the lowest and the newest release of each that
``pyproject.toml`` permits, and what stands on Spark with its lowest. Everything else is as in ``.venv``, whose releases
are those of ``constraints.txt``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distributions, version
from pathlib import Path
from sysconfig import get_path

import pytest

ROOT = Path(__file__).parent.parent
LIBRARIES = ("textual", "trio", "anyio", "typer")
TIMEOUT_S = 2400
SECOND_TRIES_MAX = 1
TESTS = (
    "tests/rmqadmin/tui",
    "tests/rmqadmin/cli/options",
    "tests/rmqadmin/cli/test_help.py",
    "tests/rmqadmin/cli/test_registry.py",
    "tests/rmqclient/test_asyncio.py",
    "tests/rmqclient/test_lifetime.py",
    "tests/rmqclient/consumers/test_push_consumer.py",
    "tests/rmqclient/test_threads.py",
    "tests/rmqserver/remoting/test_loop.py",
)
"""The dashboard; options and helps; tasks, cancellation and threads of clients and servers."""

SPARK_TESTS = (
    "tests/spark_tools/spark/test_source.py::test_a_table_is_read_up_to_its_end_at_each_query",
    "tests/spark_tools/spark/test_streams.py::test_a_stream_is_read_in_limited_batches_and_goes_on_from_its_checkpoint",
    "tests/spark_tools/spark/test_write_faults.py::test_killed_writers",
)


def ranges() -> dict[str, str]:
    """What ``pyproject.toml`` permits, such as ``>=8,<9``, by library."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return {name: each.removeprefix(name) for name in LIBRARIES for each in wanted if each.startswith(name + ">")}


def lowest(permitted: str) -> str:
    return permitted.partition(",")[0].replace(">=", "==")


def python_with(folder: Path, wanted: list[str]) -> Path:
    """A Python that has ``wanted`` and, behind them, all that is installed for the run around this one. Programs that
    its tests start have them too."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "behind.pth").write_text(f"import site; site.addsitedir({get_path('purelib')!r})\n")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), *wanted]
    subprocess.run(pip, stdin=subprocess.DEVNULL, check=True, timeout=TIMEOUT_S)
    return folder / "bin/python"


def plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}


@pytest.mark.flaky(reruns=0)  # it counts its own second tries
@pytest.mark.parametrize("end", [pytest.param("lowest", marks=pytest.mark.in_turn("libraries")), "newest"])
def test_an_end_of_the_permitted_range(end: str, tmp_path: Path) -> None:
    permitted = ranges()
    assert list(permitted) == list(LIBRARIES)
    python = python_with(
        tmp_path / end, [f"{name}{lowest(each) if end == 'lowest' else each}" for name, each in permitted.items()]
    )
    paths = [str(path) for path in python.parents[1].glob("lib/*/*")]
    installed = {each.name: each.version for each in distributions(path=paths)}
    if installed == {name: version(name) for name in LIBRARIES}:
        pytest.skip("the run around this one has the same releases")
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses", "1", "--reruns", "1", *TESTS],
        cwd=ROOT, env=plain_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{installed}\n{done.stdout}"
    tried_again = re.findall(r"^RERUN (.*)$", done.stdout, re.MULTILINE)
    assert len(tried_again) <= SECOND_TRIES_MAX, f"{installed}\n{done.stdout}"


@pytest.mark.in_turn("libraries")
@pytest.mark.spark
def test_the_lowest_spark(tmp_path: Path) -> None:
    """Its tables, streams and writes. The run around this one has the newest."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    (permitted,) = [each for each in extra if each.startswith("pyspark>")]
    try:
        python = python_with(tmp_path, [lowest(permitted)])
    except subprocess.SubprocessError as error:
        pytest.skip(f"the registry does not answer: {error}")
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "spark", *SPARK_TESTS],
        cwd=ROOT, env=plain_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
