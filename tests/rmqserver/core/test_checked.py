"""What the core reads and writes: the tests of what uses it run with a core whose every address is checked. gcc builds
it, for the Python that runs the tests."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
LIBRARIES = ("libasan.so", "libubsan.so")
TESTS = (
    "tests/hostile/test_fuzz_seeds.py",
    "tests/rmqserver/broker/consuming/test_pull_plans.py",
    "tests/rmqserver/broker/sending",
    "tests/rmqserver/core",
    "tests/rmqserver/doors/grpc/test_plain_calls.py",
    "tests/rmqserver/doors/grpc/test_plain_receives.py",
    "tests/rmqserver/remoting",
    "tests/rmqserver/store/append",
    "tests/rmqserver/store/index",
    "tests/rmqserver/store/queues",
)
TIMEOUT_S = 900


@pytest.fixture(scope="module")
def checked_core(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a Python that runs with it."""
    pytest.importorskip("hatchling")
    if not shutil.which("gcc") or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("there is no gcc, or Python was installed without its headers")
    from hatch_build import build_command

    core = tmp_path_factory.mktemp("checked") / "_core.so"
    subprocess.run(build_command(ROOT, core, *FLAGS, compiler="gcc"), cwd=ROOT, check=True, timeout=300)
    found = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()
        for name in LIBRARIES
    ]
    return {
        **os.environ,
        "CHECKED_CORE": str(core),
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself leaves much to the end of the process
        "PYTHONMALLOC": "malloc",
    }


def python(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_no_address_is_wrong(checked_core: dict[str, str]) -> None:
    done = python(
        checked_core, "-m", "pytest", "-p", "tests.support.checked_core", "-q", "-n", "0",
        "-m", "not slow and not sweep and not interop and not spark", *TESTS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]


@pytest.mark.slow
def test_a_wrong_address_would_be_found(checked_core: dict[str, str]) -> None:
    """The checks are there: a byte behind the memory of an object is read on purpose."""
    done = python(
        checked_core, "-c",
        "import ctypes; data = bytes(100); ctypes.CDLL(None).memchr(ctypes.c_char_p(data), 1, 10_000)",
    )  # fmt: skip
    assert "heap-buffer-overflow" in done.stderr
