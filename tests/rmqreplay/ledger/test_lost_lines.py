"""A ledger that has lost its last lines, as after a damaged disk or from an old backup. The job must not send again
what the lost lines knew. It used to, and its audit then began behind the first copies."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqproto.errors import StorageError, UsageError
from rmqreplay.ledger.ledger import Ledger
from rmqreplay.run.entry import Runner, redrive
from rmqreplay.run.job import ReplayResult, RunOptions
from tests.rmqreplay.replay_lab import Lab
from tests.support.quick import first_is_quick

COUNT, WAVES = 30, 2
LINES = ["begin", "fence", "done", "fence", "done", "end", "note"]


pytestmark = pytest.mark.usefixtures("no_driver_lives")


def run(root: Path, job: str) -> ReplayResult:
    runner = Runner(ledger_root=str(root), run=RunOptions(send_timeout_ms=500, audit=True))
    result = redrive(None, runner, execute=True, resume=True, job=job).result
    assert result is not None
    return result


@pytest.mark.parametrize("kept", first_is_quick([1, *range(2, len(LINES))]))
def test_nothing_is_sent_twice(lab: Lab, kept: int) -> None:
    plan = lab.job(COUNT, wave_count=WAVES)
    root, ledger = Path(lab.ledger(plan)).parent, Path(lab.ledger(plan), "ledger.jsonl")
    assert run(root, plan.job).stored == COUNT
    lines = ledger.read_bytes().splitlines(keepends=True)
    assert len(lines) == len(LINES)
    ledger.write_bytes(b"".join(lines[:kept]))
    again = run(root, plan.job)
    assert (again.stored, again.delivered_total) == (0, COUNT)
    assert again.audit.is_good
    assert lab.counts(plan) == (0, 0)


@pytest.mark.parametrize("lose", first_is_quick([lambda ledger: ledger.write_bytes(b""), os.remove]))
def test_a_ledger_that_is_gone_or_empty_is_not_begun_anew(lab: Lab, lose: Callable[[Path], object]) -> None:
    plan = lab.job(COUNT)
    root = Path(lab.ledger(plan)).parent
    run(root, plan.job)
    lose(root / plan.job / "ledger.jsonl")
    with pytest.raises(StorageError, match="is gone or empty"):
        run(root, plan.job)
    assert lab.counts(plan) == (0, 0)


def test_a_driver_that_died_before_its_first_line_is_followed_by_another(lab: Lab) -> None:
    plan = lab.job(COUNT)
    Ledger(lab.ledger(plan)).close()
    os.remove(Path(lab.ledger(plan), "ledger.jsonl"))
    assert run(Path(lab.ledger(plan)).parent, plan.job).stored == COUNT


def test_a_job_directory_of_another_name_is_refused(lab: Lab, tmp_path: Path) -> None:
    """Its plan was found, and its ledger was looked for under the old name, where there was none."""
    plan = lab.job(COUNT)
    root = Path(lab.ledger(plan)).parent
    run(root, plan.job)
    shutil.copytree(root / plan.job, tmp_path / "kept")
    with pytest.raises(UsageError, match=f"holds the job {plan.job}"):
        run(tmp_path, "kept")
    assert lab.counts(plan) == (0, 0)
