"""What is no test by itself but must hold as well, so that one summary covers all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 1800


@pytest.mark.parametrize(
    "target",
    # What the fuzzer found once it may not find again. It takes four minutes on two processors (FUZZ_SECONDS).
    ["lint", "quickstart", pytest.param("fuzz", marks=pytest.mark.flaky(reruns=0))],
)
def test_make(target: str) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
