"""Runs other checks as tests, so that one summary covers everything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 1800
FUZZ_SECONDS = "4"
"""Seconds per target, four targets at a time: enough for CI. Plain `make fuzz` takes 60."""


@pytest.mark.parametrize(
    "target",
    # fuzz gets no second try: the fuzzer may not find the same bug again.
    [
        "lint",
        "quickstart",
        "release",
        pytest.param("fuzz", marks=[pytest.mark.flaky(reruns=0), pytest.mark.xdist_group("fuzz")]),
    ],
)
def test_make(target: str) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=ROOT,
        env={**os.environ, "FUZZ_SECONDS": FUZZ_SECONDS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
