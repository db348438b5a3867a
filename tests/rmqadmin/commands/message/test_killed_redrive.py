"""``dlq redrive`` is killed at each of its durable steps and called again.
``tests/rmqreplay/run/test_local_faults.py`` has the kills between two steps, in the middle of sending."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqreplay.ledger.ledger import read_ledger
from rmqreplay.plans.plan import Plan, load_plan
from rmqreplay.source.offset_ranges import OffsetSet
from tests.rmqreplay.replay_lab import Lab
from tests.support.quick import first_is_quick

COUNT, WAVE = 120, 60
SYNCS = 12
"""Two for the plan and two for the new ledger (file and directory), then one for each line: the beginning, fence and
done of two waves, the end, and the audit's note."""
FIRST_DONE = 7

COMMAND = """
import functools, os, signal, sys
from rmqadmin.cli import program
from rmqreplay.run import job

job.RunOptions = functools.partial(job.RunOptions, send_timeout_ms=1000)
dies_at, syncs = int(sys.argv[1]), 0

def counted(sync):
    def instead(fd):
        global syncs
        syncs += 1
        if syncs == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(fd)
    return instead

os.fsync, os.fdatasync = counted(os.fsync), counted(os.fdatasync)
status = program.run(sys.argv[2:])
print("syncs:", syncs, file=sys.stderr)
sys.exit(status)
"""
"""The program, which dies instead of its n-th fsync or fdatasync. What it wrote before is in the file; nothing
follows. It waits for one second, not three, until what an earlier run has sent is settled."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


class Redrive:
    """One redrive of ``COUNT`` new dead letters, run as often as it takes."""

    def __init__(self, lab: Lab, root: Path):
        made = lab.job(COUNT)
        self.lab, self.root, self.job = lab, root, made.job
        self.words = [
            "dlq", "redrive", f"group-{lab.number}", "--to", f"topic:{made.target.name}", "--wave", str(WAVE),
            "-n", lab.name_server, "--ledger", str(root), "--execute", "--yes", "--timeout", "60",
        ]  # fmt: skip

    def run(self, *more: str, dies_at: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", COMMAND, str(dies_at), *self.words, *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "NO_COLOR": "1"})

    def plan(self) -> Plan:
        plan = load_plan(str(self.root / self.job))
        assert plan is not None
        return plan


def test_there_are_as_many_steps_as_are_tried(lab: Lab, tmp_path: Path) -> None:
    done = Redrive(lab, tmp_path).run("--job", "whole")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, f"syncs: {SYNCS}"), done.stderr


@pytest.mark.parametrize("dies_at", first_is_quick(sorted(range(1, SYNCS + 1), key=lambda at: at != FIRST_DONE)))
def test_each_letter_is_there_once(lab: Lab, tmp_path: Path, dies_at: int) -> None:
    redrive = Redrive(lab, tmp_path)
    job = ("--job", redrive.job)
    assert redrive.run(*job, dies_at=dies_at).returncode == -signal.SIGKILL
    again = redrive.run(*job)
    if again.returncode != 0:
        assert (again.returncode, "has begun already" in again.stderr) == (2, True), again.stderr
        again = redrive.run(*job, "--resume")
    assert again.returncode == 0, again.stderr
    plan, ledger = redrive.plan(), read_ledger(str(tmp_path / redrive.job))
    assert ledger.end is not None
    assert ledger.delivered() == OffsetSet(plan.ranges)
    assert lab.counts(plan) == (0, 0)
