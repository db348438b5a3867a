"""The whole command as one call: plan, show, confirm, run, audit. ``redrive`` does it in this process;
``spark_tools.replay.entry`` with Spark.

from rmqreplay.plans.request import ReplayRequest
from rmqreplay.run.entry import redrive

outcome = redrive(ReplayRequest(name_server="127.0.0.1:9876", dlq_group="billing"), execute=True)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from rmqproto.errors import ConnectError, NotFoundError, RequestTimeoutError, UsageError
from rmqproto.wording import counted
from rmqreplay.ledger.ledger import read_ledger
from rmqreplay.ledger.letter_source import letters_of
from rmqreplay.ledger.sent_before import sent_before
from rmqreplay.plans.plan import JOB_NAME, Plan, check_job_name, load_plan
from rmqreplay.plans.planning import check_target, plan_replay
from rmqreplay.plans.request import ReplayRequest, check_ledger_root, default_ledger_root, difference, freeze
from rmqreplay.run.engine import Engine
from rmqreplay.run.job import Hooks, PlanConflict, ReplayResult, RunOptions, refuse_changed, run_replay
from rmqreplay.run.local_engine import LocalEngine, spark_only

PLANNED_HERE_MAX = 200_000
"""Up to this many offsets, this process counts a plan, even one for Spark: it is done before a Spark session would have
started."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """``result`` is None after a dry run."""

    plan: Plan
    directory: str
    result: ReplayResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """How to run a plan. Nothing here changes the messages sent."""

    ledger_root: str | None = None
    run: RunOptions = field(default_factory=RunOptions)
    sample: int = 0
    hooks: Hooks = field(default_factory=Hooks)


def redrive(
    request: ReplayRequest | None = None,
    runner: Runner = Runner(),
    *,
    execute: bool = False,
    resume: bool = False,
    job: str | None = None,
) -> ReplayOutcome:
    """Plans ``request``, or takes the plan that ``job`` names (a dry run's, or with ``resume`` an interrupted one).
    With ``execute`` it also runs the plan. With ``resume`` a request must agree with the plan.

    UsageError before anything happens, also for a plan that needs Spark; PlanConflict if job and plan do not fit. Any
    other RocketMQError may leave the job open; ``resume`` continues it."""

    return carry_out(
        request,
        runner,
        lambda plan: nullcontext(_local_engine(plan, runner)),
        lambda plan: None,
        execute=execute,
        resume=resume,
        job=job,
    )


def carry_out(
    request: ReplayRequest | None,
    runner: Runner,
    open_engine: Callable[[Plan], AbstractContextManager[Engine]],
    check: Callable[[Plan], None],
    *,
    execute: bool,
    resume: bool,
    job: str | None,
) -> ReplayOutcome:
    """As ``redrive``, with the engine that ``open_engine`` gives. ``check`` raises if that engine, which is not open
    yet, cannot read the plan's messages."""
    hooks = runner.hooks
    root = os.path.abspath(runner.ledger_root or check_ledger_root(default_ledger_root()))
    planned = planned_job(root, request, job, resume=resume)
    if planned is None:
        with _all_must_answer():
            if request is None:
                raise UsageError("nothing is selected", hint="--topic TOPIC or --dlq GROUP, or --job NAME of a dry run")
            plan = freeze(request if job is None else replace(request, job=job))
    else:
        plan = planned
    directory = os.path.join(root, plan.job)
    if planned is None and read_ledger(directory).begin is not None:
        raise PlanConflict(f"job {plan.job} has begun already", hint=f"--resume --job {plan.job}, or another name")
    with _all_must_answer():
        check(plan)
        check_target(plan, runner.run.cluster)
        if execute or resume:  # ``run_replay`` asks again
            refuse_changed(plan, runner.run)
            if plan.skip_redriven and read_ledger(directory).begin is None:
                with letters_of(plan, runner.run.cluster) as source:
                    sent_before(root, plan, source, strict=True)
        if planned is None and spark_only(plan) is None and plan.offset_count <= PLANNED_HERE_MAX:
            plan = planned = _counted(plan, _local_engine(plan, runner), directory, request, runner)
    if planned is not None:
        hooks.on_plan(planned)
        if not execute and not resume:
            return ReplayOutcome(planned, directory)
        hooks.confirm(planned)
    with open_engine(plan) as engine:
        if planned is None:
            plan = _counted(plan, engine, directory, request, runner)
            hooks.on_plan(plan)
            if not execute:
                return ReplayOutcome(plan, directory)
            hooks.confirm(plan)
        options = replace(runner.run, permit_host=engine.permit_host)
        result = run_replay(plan, directory, engine, options, hooks)
    return ReplayOutcome(plan, directory, result)


@contextmanager
def _all_must_answer() -> Iterator[None]:
    """For the steps before the first message is sent: adds a note to connection errors. All brokers must answer. If one
    of the source were left out, the plan would lack its messages. If one of the target could not be read, messages sent
    to it could not be looked for."""
    try:
        yield
    except (ConnectError, RequestTimeoutError) as error:
        error.add_note(
            "nothing was sent now: all brokers of source and target must answer; one that is gone for two minutes is"
            " forgotten by the name servers, and then the others will do"
        )
        raise


def _local_engine(plan: Plan, runner: Runner) -> LocalEngine:
    return LocalEngine(plan, runner.run, runner.hooks.on_read)


def _counted(plan: Plan, engine: Engine, directory: str, request: ReplayRequest | None, runner: Runner) -> Plan:
    assert request is not None
    what = f"{counted(plan.offset_count, 'message')} of {counted(len(plan.ranges), 'queue')}"
    runner.hooks.on_stage(f"reading {what}")
    return plan_replay(plan, engine, directory, wave_messages=request.wave_messages, sample=runner.sample)


# --- the jobs of a ledger root ---------------------------------------------------------------------------------------


def open_jobs(root: str) -> list[str]:
    """The jobs that have begun and not ended."""
    found = []
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        if JOB_NAME.fullmatch(name) and os.path.isdir(os.path.join(root, name)):
            state = read_ledger(os.path.join(root, name))
            if state.begin is not None and state.end is None:
                found.append(name)
    return found


def planned_job(root: str, request: ReplayRequest | None, job: str | None, *, resume: bool) -> Plan | None:
    """The plan on disk that the command refers to; None if there is a request for a new plan. To resume, a request must
    agree with the plan; UsageError names the difference."""
    if not resume:
        return None if request is not None else _named_or_only(root, job)
    if job is not None or request is None:
        plan = _named_or_only(root, job)
        different = difference(plan, request) if request is not None else None
        if different is not None:
            raise UsageError(
                f"job {plan.job} was planned with another {different}",
                hint="leave out the selection: --resume goes on with the job as it was planned",
            )
        return plan
    plans = [_load(root, name) for name in open_jobs(root)]
    fitting = [plan for plan in plans if difference(plan, request) is None]
    if len(fitting) != 1:
        found = ", ".join(plan.job for plan in fitting or plans) or "none"
        raise UsageError(
            f"{len(fitting)} open jobs in {root} select this; open are: {found}", hint="--resume --job NAME"
        )
    return fitting[0]


def _named_or_only(root: str, job: str | None) -> Plan:
    if job is not None:
        return _load(root, job)
    jobs = open_jobs(root)
    if not jobs:
        raise UsageError(f"nothing is selected, and no job is open in {root}", hint="--help shows what can be sent.")
    if len(jobs) != 1:
        raise UsageError(f"which job should be resumed? Open in {root}: {', '.join(jobs)}", hint="--job NAME")
    return _load(root, jobs[0])


def _load(root: str, job: str) -> Plan:
    plan = load_plan(os.path.join(root, check_job_name(job)))
    if plan is None:
        raise NotFoundError(f"there is no job {job} in {root}")
    if plan.job != job:  # its ledger would be looked for in the directory of the old name
        raise UsageError(
            f"{os.path.join(root, job)} holds the job {plan.job}", hint=f"rename the directory to {plan.job} again"
        )
    return plan
