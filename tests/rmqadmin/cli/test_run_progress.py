"""The keys and bar of a running replay: the dial alone, and a real program in a real terminal."""

import sys
from typing import cast

import pexpect
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.cli import run_progress
from rmqadmin.cli.run_progress import ProgressLines, StageLines
from rmqadmin.core.progress import RATE_MIN, RateDial
from rmqreplay.run.job import ReplayProgress
from rmqreplay.sending.permit_service import PermitService
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


def test_each_job_of_a_series_is_counted_from_its_own_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second was said to send at -225/s, and to have sent what the first one had found."""
    said: list[str] = []
    monkeypatch.setattr(run_progress, "INTERVAL_S", 0.0)
    monkeypatch.setattr("rmqadmin.cli.run_progress.diagnostics.notice", said.append)
    lines = ProgressLines()
    for sent, delivered in ((700, 100), (90, 0)):
        lines.counts.planned = 900
        lines.attach(cast(PermitService, None))
        lines(ReplayProgress(0, 1, granted=sent, delivered=delivered))
    assert [line.split(", ")[1] for line in said] == ["700 of 800 messages sent", "90 of 900 messages sent"]
    assert "-" not in said[1]


PROGRAM = """
import sys, termios, threading
from rmqadmin.cli.run_progress import progress_for_here
from rmqreplay.run.job import ReplayProgress

asked, was = threading.Semaphore(0), termios.tcgetattr(0)

class Service:
    def set_rate(self, rate):
        rates.append(rate)
        asked.release()

rates = []
bar = progress_for_here(100.0)
bar.counts.planned = 1_000_020
bar.attach(Service())
bar(ReplayProgress(0, 2, granted=10, delivered=20))
for _ in range(4):
    asked.acquire()
bar(ReplayProgress(1, 2, granted=50, delivered=40))
bar.attach(Service())
bar.stop()
assert termios.tcgetattr(0) == was, "the terminal was not given back"
print("rates", rates, input("who? "))
"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 140])
def test_keys_turn_the_rate_and_the_terminal_is_given_back(width: int) -> None:
    child = pexpect.spawn(
        sys.executable, ["-c", PROGRAM], encoding="utf-8", timeout=60, dimensions=(24, width), use_poll=True
    )
    child.expect_exact("keys: + faster, - slower, p pause")
    child.expect("wave 1 of 2")
    child.expect("10/1000000.* messages.*at most 100/s")
    child.send("+")
    child.send("zp")
    child.send("p")
    child.expect("50/1000000.* messages.*at most 125/s")
    child.expect_exact("who? ")
    child.sendline("me")
    child.expect_exact("rates [100.0, 125.0, 0.0, 125.0, 125.0] me")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_a_program_behind_a_terminal_that_is_not_its_own_prints_lines() -> None:
    """A background process that sets its terminal is stopped, together with its job."""
    program = "from rmqadmin.cli.run_progress import *; print(type(progress_for_here(1)).__name__)"
    child = pexpect.spawn(
        "bash", ["-mc", f"{sys.executable} -c '{program}' & wait"], encoding="utf-8", timeout=60, use_poll=True
    )
    child.expect("ProgressLines")
    child.expect(pexpect.EOF)
