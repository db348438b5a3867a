"""Runs other checks as tests, so that one summary covers everything."""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
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


def test_a_release_has_the_manual_pages_that_the_checkout_lacks() -> None:
    """In the source package too: who installs from that has no commands to make them from yet."""
    done = subprocess.run(
        ["make", "--no-print-directory", "release"], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (source,) = (ROOT / "dist").glob("*.whl"), (ROOT / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as packed, tarfile.open(source) as unpacked:
        pages = {Path(name).name for name in packed.namelist() if "/share/man/man1/" in name}
        assert {Path(name).name for name in unpacked.getnames() if "/man/" in name} >= pages
    assert {"rmqadmin.1", "rmqadmin-topic-create.1"} <= pages
    tracked = subprocess.run(["git", "ls-files", "man"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert tracked.stdout == ""
