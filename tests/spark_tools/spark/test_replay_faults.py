"""Parts of a running replay lose answers or die. With protection no message is doubled. Without it some are; otherwise
the fault would prove nothing. No message is ever lost."""

import os
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqreplay.run.job import RunOptions, run_replay
from spark_tools.replay.spark_engine import SparkEngine
from tests.rmqreplay.replay_lab import Lab, kill_once
from tests.spark_tools.spark.replay_driver import FAULT_RUN
from tests.spark_tools.spark.spark_processes import Driver, kill_amid_all, python_workers

pytestmark = pytest.mark.spark

COUNT = 1200
SENDS = COUNT // FAULT_RUN["batch_messages"]


@pytest.fixture(autouse=True)
def _calm(lab: Lab) -> Iterator[None]:
    lab.proxy.calm()
    yield
    lab.proxy.calm()


@pytest.fixture(scope="module")
def engine(spark) -> SparkEngine:
    return SparkEngine(spark, 2)


@pytest.mark.spark_faults
def test_lost_acknowledgements(lab: Lab, engine: SparkEngine) -> None:
    """The broker stores every message, but sometimes its answer is lost."""
    for protected in (False, True):
        plan = lab.job(COUNT)
        lab.proxy.calm()
        lab.proxy.drop_every = 37
        run_replay(plan, lab.ledger(plan), engine, RunOptions(protected=protected, audit=False, **FAULT_RUN))
        assert lab.proxy.dropped_count > 2
        lab.proxy.calm()
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled


def test_killed_writers(lab: Lab, engine: SparkEngine) -> None:
    """Both Python writers die midway, and Spark restarts their tasks from the first row."""
    for protected in (False, True):
        plan = lab.job(COUNT)
        lab.proxy.calm()
        lab.proxy.delay_s = 0.01
        lab.proxy.on_send = kill_once(lambda _: python_workers(os.getpid()), at_send=SENDS // 2)
        run_replay(plan, lab.ledger(plan), engine, RunOptions(protected=protected, audit=False, **FAULT_RUN))
        lab.proxy.calm()
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled


def test_killed_driver_and_resume(lab: Lab, engine: SparkEngine) -> None:
    """The driver's Python is killed in the second of two waves, and another driver goes on with that wave. A protected
    and an unprotected replay die together, because a driver costs more than a replay."""
    plans = [(lab.job(COUNT, wave_count=2), protected) for protected in (False, True)]
    lab.proxy.calm()
    runs = [{"directory": lab.ledger(plan), "protected": protected} for plan, protected in plans]
    driver = Driver("replay_driver.py", runs)
    targets = {plan.target.name for plan, _ in plans}
    lab.proxy.on_send = kill_amid_all(driver.kill, targets, at_send=SENDS * 3 // 4)
    driver.wait_for_its_end()
    lab.proxy.calm()
    for plan, protected in plans:
        options = RunOptions(protected=protected, audit=False, **FAULT_RUN)
        assert run_replay(plan, lab.ledger(plan), engine, options).waves == 1, "the first was done"
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled
