"""What a long stage says, and the dial by which a dashboard changes a redrive's rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.cli import run_progress
from rmqadmin.cli.run_progress import StageLines
from rmqadmin.core.rate_dial import RATE_MIN, RateDial
from tests.support.servers import until


def test_the_dial() -> None:
    dial = RateDial(100.0)
    assert dial.press("+", 90.0)
    assert (dial.setting, str(dial)) == (125.0, "at most 125/s")
    assert dial.press("p", 90.0)
    assert (dial.setting, str(dial)) == (0.0, "paused")
    assert not dial.press("-", 0.0), "a pause is a pause; the rate after it is another matter"
    assert dial.press("p", 0.0)
    assert dial.setting == 100.0
    assert not dial.press("x", 90.0)


def test_without_a_limit_slower_means_slower_than_now() -> None:
    dial = RateDial(None)
    assert not dial.press("+", 500.0)
    assert not dial.press("-", 0.0), "nothing has been sent yet"
    assert dial.press("-", 500.0)
    assert dial.setting == 400.0


@given(st.none() | st.floats(0.1, 1e6), st.text("+-px", max_size=60), st.floats(0, 1e6))
def test_no_key_can_stop_a_job_but_a_pause(rate: float | None, keys: str, per_s: float) -> None:
    """If a key could lower the rate to nothing, the job would seem to hang."""
    dial = RateDial(rate)
    for key in keys:
        dial.press(key, per_s)
    assert (dial.setting == 0.0) == (keys.count("p") % 2 == 1)
    assert dial.rate is None or dial.rate >= RATE_MIN


def test_a_stage_is_told_again_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading 200,000 dead letters, or starting Spark on a busy machine, used to take long without a message."""
    said: list[str] = []
    monkeypatch.setattr(run_progress, "STAGE_INTERVAL_S", 0.01)
    monkeypatch.setattr("rmqadmin.cli.run_progress.diagnostics.notice", said.append)
    stage = StageLines()
    stage("reading")
    until(lambda: len(said) > 1)
    assert said[:2] == ["reading", "reading: 0 s"]
    stage.read(1200)
    stage.read(300)
    until(lambda: said[-1].endswith(" s, 1,500 read"))
    stage("counting")
    until(lambda: said[-1] == "counting: 0 s")
    stage.stop()
    stage.stop()
    assert said.index("counting") > max(at for at, line in enumerate(said) if line.startswith("reading"))
