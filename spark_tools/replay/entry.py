"""``replay``: the whole command as one call - plan, show, confirm, run, audit - with a Spark session of its own.

from spark_tools.replay.entry import replay
from spark_tools.replay.request import ReplayRequest

outcome = replay(ReplayRequest(name_server="127.0.0.1:9876", dlq_group="billing"), execute=True)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rmqproto.errors import NotFoundError, RocketMQError, UsageError
from rmqproto.signing import Credentials
from spark_tools.replay.canary import CanaryReport
from spark_tools.replay.job import PlanConflict, Progress, ReplayResult, RunOptions, plan_replay, run_replay
from spark_tools.replay.ledger import read_ledger
from spark_tools.replay.permit_service import PermitService
from spark_tools.replay.plan import Plan, check_job_name, load_plan
from spark_tools.replay.request import ReplayRequest, default_ledger_root, freeze
from spark_tools.session import SessionOptions, check_installed, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS_PER_CORE = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """``result`` is None after a dry run."""

    plan: Plan
    directory: str
    result: ReplayResult | None = None


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the caller wants to hear, and to decide. ``confirm`` may raise to stop before anything is sent."""

    on_plan: Callable[[Plan], None] = lambda plan: None
    confirm: Callable[[Plan], None] = lambda plan: None
    on_progress: Callable[[Progress], None] = lambda progress: None
    on_service: Callable[[PermitService], None] = lambda service: None
    on_canary: Callable[[CanaryReport], bool] = lambda report: report.is_good
    """Whether to go on. May ask, and raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """How to run: nothing here changes what is sent."""

    ledger_root: str | None = None
    session: SessionOptions = field(default_factory=SessionOptions)
    run: RunOptions = field(default_factory=RunOptions)
    sample: int = 0
    hooks: Hooks = field(default_factory=Hooks)


def replay(
    request: ReplayRequest | None = None,
    runner: Runner = Runner(),
    *,
    execute: bool = False,
    resume: bool = False,
    job: str | None = None,
    spark: SparkSession | None = None,
) -> Outcome:
    """Plans ``request``, or takes the plan that ``job`` names (a dry run's, or with ``resume`` an interrupted one),
    and executes it if told to. ``spark``: a running session, as in a notebook; None starts one and stops it.

    UsageError, and SparkMissingError among them, before anything happens; PlanConflict where job and plan do not fit;
    any other RocketMQError may leave the job open, and ``resume`` goes on with it."""
    check_installed()
    root = os.path.abspath(runner.ledger_root or default_ledger_root())
    planned = _planned(root, request, job, resume=resume)
    plan = planned or freeze(_named(request, job))
    directory = os.path.join(root, plan.job)
    if planned is None and read_ledger(directory).begin is not None:
        raise PlanConflict(f"job {plan.job} was begun already", hint=f"--resume --job {plan.job}, or another name")
    with spark_session(runner.session) if spark is None else nullcontext(spark) as session:
        from spark_tools.replay.waves import Waves

        credentials: Credentials | None = runner.run.credentials
        waves = Waves(session, session.sparkContext.defaultParallelism * PARTITIONS_PER_CORE, credentials)
        try:
            if planned is None:
                assert request is not None
                plan = plan_replay(plan, waves, directory, wave_messages=request.wave_messages, sample=runner.sample)
            runner.hooks.on_plan(plan)
            if not execute and not resume:
                return Outcome(plan, directory)
            runner.hooks.confirm(plan)
            hooks = runner.hooks
            # Executors on other machines reach the permits where they reach the driver.
            options = replace(
                runner.run, permit_host=session.sparkContext.getConf().get("spark.driver.host", "127.0.0.1")
            )
            result = run_replay(plan, directory, waves, options, hooks.on_progress, hooks.on_service, hooks.on_canary)
        except RocketMQError as error:
            log = session.conf.get("spark.rmqadmin.log", None)
            if log is not None and not isinstance(error, UsageError):
                error.add_note(f"what Spark said is in {log}")
            raise
    return Outcome(plan, directory, result)


def _planned(root: str, request: ReplayRequest | None, job: str | None, *, resume: bool) -> Plan | None:
    """The plan on disk that is meant; None if there is a request to plan."""
    if request is not None and not resume:
        return None
    if request is not None:
        raise UsageError("--resume goes on with a job as it was planned", hint="leave the selection away")
    name = job or _only_open_job(root)
    plan = load_plan(os.path.join(root, check_job_name(name)))
    if plan is None:
        raise NotFoundError(f"there is no job {name} in {root}")
    return plan


def open_jobs(root: str) -> list[str]:
    """Jobs that have begun and not ended."""
    found = []
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        if re.fullmatch(r"[A-Za-z0-9_.-]+", name) and os.path.isdir(os.path.join(root, name)):
            state = read_ledger(os.path.join(root, name))
            if state.begin is not None and state.end is None:
                found.append(name)
    return found


def _only_open_job(root: str) -> str:
    jobs = open_jobs(root)
    if len(jobs) != 1:
        found = ", ".join(jobs) or "none"
        raise UsageError(f"which job is to be resumed? Open in {root}: {found}", hint="--job NAME")
    return jobs[0]


def _named(request: ReplayRequest | None, job: str | None) -> ReplayRequest:
    if request is None:
        raise UsageError("nothing is selected", hint="--topic TOPIC or --dlq GROUP, or --job NAME of a dry run")
    return replace(request, job=job) if job is not None else request
