"""Parts of a running replay lose answers or die: with protection nothing is doubled, and without it something is, or
the fault would prove nothing. Nothing is ever lost."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from spark_tools.replay.job import RunOptions, run_replay
from spark_tools.replay.waves import Waves
from spark_tools.session import SessionOptions, spark_session
from tests.spark_tools.spark.fault_lab import Driver, Lab, kill_once, python_workers
from tests.spark_tools.spark.replay_driver import FAULT_RUN, QUICK_JVM

pytestmark = [pytest.mark.spark, pytest.mark.spark_faults]

COUNT = 1200
SENDS = COUNT // FAULT_RUN["batch_messages"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(autouse=True)
def _calm(lab: Lab) -> Iterator[None]:
    lab.proxy.calm()
    yield
    lab.proxy.calm()


@pytest.fixture(scope="module")
def waves() -> Iterator[Waves]:
    """One session with task retries for all that does not kill the driver."""
    with spark_session(SessionOptions(master="local[2,4]", settings=QUICK_JVM)) as spark:
        yield Waves(spark, 2)


def test_lost_acknowledgements(lab: Lab, waves: Waves) -> None:
    """The broker stores every message, and now and then its answer is lost."""
    for protected in (False, True):
        plan = lab.job(COUNT)
        lab.proxy.calm()
        lab.proxy.drop_every = 37
        run_replay(plan, lab.ledger(plan), waves, RunOptions(protected=protected, audit=False, **FAULT_RUN))
        assert lab.proxy.dropped_count > 2
        lab.proxy.calm()
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled


@pytest.mark.quick
def test_killed_writers(lab: Lab, waves: Waves) -> None:
    """Both Python writers die in the middle; Spark starts their tasks anew, from the first row."""
    for protected in (False, True):
        lab.proxy.calm()
        lab.proxy.delay_s = 0.01
        plan = lab.job(COUNT)
        lab.proxy.send_count = 0
        lab.proxy.on_send = kill_once(lambda: python_workers(os.getpid()), at_send=SENDS // 2)
        run_replay(plan, lab.ledger(plan), waves, RunOptions(protected=protected, audit=False, **FAULT_RUN))
        lab.proxy.calm()
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled


@pytest.mark.quick
def test_killed_driver_and_resume(lab: Lab) -> None:
    """The driver's Python is killed; the same command again goes on with the wave it was in."""
    for protected in (False, True):
        lab.proxy.calm()
        lab.proxy.delay_s = 0.01
        plan = lab.job(COUNT, wave_count=2)
        lab.proxy.send_count = 0
        driver = Driver(lab, plan, protected=protected)
        lab.proxy.on_send = kill_once(driver.kill, at_send=SENDS * 3 // 4)
        assert driver.run_to_end() != 0
        lab.proxy.calm()
        assert Driver(lab, plan, protected=protected).run_to_end() == 0
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled
