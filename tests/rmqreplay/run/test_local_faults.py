"""A redrive in one process is killed, and loses answers. With protection no message is doubled. Without it some are;
otherwise the fault would prove nothing. No message is ever lost."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from rmqproto.errors import ConnectError, RequestTimeoutError
from rmqreplay.ledger.ledger import read_ledger
from rmqreplay.plans.plan import Plan
from rmqreplay.run.entry import Runner, redrive
from rmqreplay.run.job import Hooks, ReplayProgress, ReplayResult, RunOptions
from tests.rmqreplay.replay_lab import Lab, OnSend, Send, kill_once
from tests.support.processes import free_ports

COUNT = 600
SHORT_WAITS = {"send_timeout_ms": 500, "batch_messages": 10, "in_flight": 2}
"""Short batches make more requests to break; a short time-out makes less to wait for."""
SENDS = COUNT // SHORT_WAITS["batch_messages"]

DRIVER = """
import json, sys
from rmqreplay.run.entry import Runner, redrive
from rmqreplay.run.job import RunOptions
root, job, options = sys.argv[1:]
redrive(None, Runner(ledger_root=root, run=RunOptions(**json.loads(options))), execute=True, resume=True, job=job)
"""


@pytest.fixture(autouse=True)
def _calm(lab: Lab) -> Iterator[None]:
    lab.proxy.calm()
    yield
    lab.proxy.calm()


def options_of(*, protected: bool) -> dict[str, int | bool]:
    return {**SHORT_WAITS, "protected": protected, "audit": protected}


def start(lab: Lab, plan: Plan, *, protected: bool) -> subprocess.Popen[str]:
    arguments = [os.path.dirname(lab.ledger(plan)), plan.job, json.dumps(options_of(protected=protected))]
    return subprocess.Popen([sys.executable, "-c", DRIVER, *arguments], stderr=subprocess.PIPE, text=True)


def resume(lab: Lab, plan: Plan, *, protected: bool) -> ReplayResult:
    """The result of a run to the end, which the last progress already told."""
    reached: list[ReplayProgress] = []
    runner = Runner(
        ledger_root=os.path.dirname(lab.ledger(plan)),
        run=RunOptions(**options_of(protected=protected)),
        hooks=Hooks(on_progress=reached.append),
    )
    result = redrive(None, runner, resume=True, job=plan.job).result
    assert result is not None
    assert [(last.wave, last.found) for last in reached[-1:]] in ([], [(plan.wave_count, result.found)])
    return result


def killing(victims: Sequence[tuple[Plan, subprocess.Popen[str]]], *, at_send: int) -> OnSend:
    """Kills each process at the ``at_send``-th send to its plan's topic."""
    kills = {
        plan.target.name: kill_once(lambda _, pid=process.pid: [pid], at_send=at_send) for plan, process in victims
    }
    return lambda send: kills[send.topic](send)


@pytest.mark.slow
def test_killed_and_resumed(lab: Lab) -> None:
    """The process dies in the second of two waves. A protected and an unprotected redrive die and resume side by
    side."""
    plans = [(lab.job(COUNT, wave_count=2), protected) for protected in (False, True)]
    lab.proxy.calm()
    lab.proxy.delay_s = 0.005  # so that there is time for the kill
    victims = [(plan, start(lab, plan, protected=protected)) for plan, protected in plans]
    lab.proxy.on_send = killing(victims, at_send=SENDS * 3 // 4)
    for _, process in victims:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL, errors[-4000:]
    lab.proxy.calm()
    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(lambda each: resume(lab, each[0], protected=each[1]), plans))
    for (plan, protected), result in zip(plans, results, strict=True):
        assert result.waves == 1, "the first was done"
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled
    protected_result = results[1]
    assert protected_result.audit is not None
    assert (protected_result.audit.is_good, protected_result.audit.found) == (True, COUNT)
    assert protected_result.found > 0, "the second driver looked before it sent"


@pytest.mark.slow
@pytest.mark.parametrize("at_send", [1, 2, SENDS // 3, SENDS - 1, SENDS])
def test_killed_at_any_send_and_again(lab: Lab, at_send: int) -> None:
    """Three drivers die one after the other, each after some sends of its own. The fourth finishes."""
    plan = lab.job(COUNT)
    for number in range(3):
        lab.proxy.calm()
        lab.proxy.delay_s = 0.005
        process = start(lab, plan, protected=True)
        lab.proxy.on_send = killing([(plan, process)], at_send=at_send)
        _, errors = process.communicate(timeout=120)
        if process.returncode == 0:
            assert number > 0, "it had nothing left to send"
            break
        assert process.returncode == -signal.SIGKILL, errors[-4000:]
    lab.proxy.calm()
    if read_ledger(lab.ledger(plan)).end is None:
        resume(lab, plan, protected=True)
    assert lab.counts(plan) == (0, 0)


@pytest.mark.slow
def test_a_broker_that_goes_away_leaves_the_job_open(lab: Lab) -> None:
    """A failed wave used to be reported as done."""
    plan = lab.job(COUNT, wave_count=2)
    lab.proxy.calm()
    upstream, reached = lab.proxy.upstream, []

    def go_away(send: Send) -> None:
        if send.topic == plan.target.name and send.count > SENDS * 3 // 4:
            lab.proxy.upstream = ("127.0.0.1", free_ports()[0])
            raise ConnectionError

    lab.proxy.on_send = go_away
    hooks = Hooks(on_progress=lambda progress: reached.append(progress.wave))
    runner = Runner(
        ledger_root=os.path.dirname(lab.ledger(plan)), run=RunOptions(**options_of(protected=True)), hooks=hooks
    )
    with pytest.raises((ConnectError, RequestTimeoutError)):
        redrive(None, runner, resume=True, job=plan.job)
    assert max(reached) == 1, "the second wave is not done"
    assert read_ledger(lab.ledger(plan)).open_wave == 1
    lab.proxy.calm()
    lab.proxy.upstream = upstream
    assert resume(lab, plan, protected=True).waves == 1
    assert lab.counts(plan) == (0, 0)


def test_an_audit_that_fails_says_that_nothing_is_left_to_send(lab: Lab) -> None:
    plan = lab.job(COUNT)
    upstream = lab.proxy.upstream

    def go_away(stage: str) -> None:
        if stage.startswith("counting"):
            lab.proxy.upstream = ("127.0.0.1", free_ports()[0])

    runner = Runner(
        ledger_root=os.path.dirname(lab.ledger(plan)), run=RunOptions(audit=True), hooks=Hooks(on_stage=go_away)
    )
    with pytest.raises((ConnectError, RequestTimeoutError)) as caught:
        redrive(None, runner, resume=True, job=plan.job)
    assert f"--resume --job {plan.job} counts it" in caught.value.__notes__[0]
    lab.proxy.upstream = upstream
    audit = resume(lab, plan, protected=True).audit
    assert audit is not None
    assert (audit.is_good, audit.found) == (True, COUNT)


def test_lost_acknowledgements(lab: Lab) -> None:
    """The broker stores every message, but sometimes its answer is lost. The promise holds without a restart."""
    plans = [(lab.job(COUNT), protected) for protected in (False, True)]
    lab.proxy.calm()
    lab.proxy.drop_every = SENDS // 2
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda each: resume(lab, each[0], protected=each[1]), plans))
    assert lab.proxy.dropped_count >= 2
    lab.proxy.calm()
    for plan, protected in plans:
        missing, doubled = lab.counts(plan)
        assert missing == 0
        assert (doubled == 0) == protected, doubled
