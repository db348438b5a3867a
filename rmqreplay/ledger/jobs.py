"""The jobs of a ledger root: the open ones, and the one that a command refers to."""

from __future__ import annotations

import os
import re

from rmqproto.errors import NotFoundError, UsageError
from rmqreplay.ledger.ledger import read_ledger
from rmqreplay.plans.plan import Plan, check_job_name, load_plan
from rmqreplay.plans.request import ReplayRequest, difference

JOB_DIRECTORY = re.compile(r"[A-Za-z0-9_.-]+")


def open_jobs(root: str) -> list[str]:
    """The jobs that have begun and not ended."""
    found = []
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        if JOB_DIRECTORY.fullmatch(name) and os.path.isdir(os.path.join(root, name)):
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
