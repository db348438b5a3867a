"""A replay that goes on with what comes, as for a migration: a series of jobs NAME.0, NAME.1, …, each an ordinary one
with its plan, ledger and audit, which begins where those before it end. What the series has sent is what its plans and
ledgers say, so that it goes on after any crash."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ConnectError, NotFoundError, RequestTimeoutError, UsageError
from rmqreplay.ledger.ledger import read_ledger
from rmqreplay.plans.plan import NothingSelectedError, Plan, load_plan
from rmqreplay.plans.request import ReplayRequest, default_ledger_root, difference
from rmqreplay.run.entry import ReplayOutcome, Runner
from rmqreplay.run.job import refuse_changed

LOOK_EVERY_S = 30.0


def follow(
    engine: Callable[..., ReplayOutcome],
    request: ReplayRequest | None,
    runner: Runner,
    *,
    execute: bool,
    resume: bool,
    job: str | None,
    on_round: Callable[[ReplayOutcome | None], None] = lambda outcome: None,
    sleep: Callable[[float], None] = time.sleep,
) -> ReplayOutcome:
    """As ``engine``, which is ``redrive`` or ``replay``, again and again. Returns only a dry run's outcome, and one
    whose audit found something wrong. Only the first job is confirmed. A broker that is away is waited for, unless it
    is so from the beginning. ``on_round`` gets each job's outcome, and None if there was nothing new."""
    if request is None or job is None or resume:
        raise UsageError(
            "--follow needs --job NAME and what to send, each time", hint="it goes on where it was, without --resume"
        )
    _check(request)
    has_sent = False
    root = os.path.abspath(runner.ledger_root or default_ledger_root())
    while True:
        plans = _begun(root, job)
        try:
            if plans and (different := difference(plans[-1], request)) not in (None, "topic or group"):
                raise UsageError(f"the jobs of {job} were planned with another {different}", hint="take another --job")
            if plans:
                _refuse_changed(plans, runner)
            if execute and plans and read_ledger(os.path.join(root, plans[-1].job)).end is None:
                outcome = engine(None, runner, execute=True, resume=True, job=plans[-1].job)
            else:
                later = replace(request, after=_ends(plans))
                if plans:  # "2h" was another time for the first job
                    later = replace(later, start_ms=plans[0].selection.start_time_ms)
                outcome = engine(later, runner, execute=execute, resume=False, job=f"{job}.{len(plans)}")
        except NothingSelectedError:
            if not execute:
                raise
            on_round(None)
            sleep(LOOK_EVERY_S)
            continue
        except (ConnectError, RequestTimeoutError, NotFoundError) as error:
            if not has_sent:  # the address may be wrong
                raise
            # No name server names the topics of a broker that is away. A source's that is gone was told above.
            runner.hooks.on_stage(f"waiting: {error}")
            sleep(LOOK_EVERY_S)
            continue
        if outcome.result is None or (outcome.result.audit is not None and not outcome.result.audit.is_good):
            return outcome
        on_round(outcome)
        has_sent = True
        runner = replace(runner, hooks=replace(runner.hooks, confirm=lambda plan: None))


def _check(request: ReplayRequest) -> None:
    """UsageError for a selection that has an end, or a start that means something else for each job."""
    if request.dlq_group is not None:
        raise UsageError("--follow is not for dead letters: those that fail again would go round", hint="--topic")
    given = {
        "--until": request.end_ms, "--offsets": request.offsets, "--from-group": request.from_group,
        "--limit": request.limit, "--canary": request.canary or None,
    }  # fmt: skip
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} and --follow exclude each other", hint="--since says where to begin")


def _begun(root: str, series: str) -> list[Plan]:
    """The plans of the jobs of the series that have begun."""
    plans: list[Plan] = []
    while read_ledger(directory := os.path.join(root, f"{series}.{len(plans)}")).begin is not None:
        plan = load_plan(directory)
        if plan is None:
            raise UsageError(f"{directory} has no plan any more", hint="restore it, or take another --job")
        plans.append(plan)
    return plans


def _refuse_changed(plans: list[Plan], runner: Runner) -> None:
    """PlanConflict if the source has other messages where the jobs have sent some: then "after the last" means nothing.
    ConnectError if a broker is away."""
    witnesses = {queue: witness for plan in plans for queue, witness in plan.witnesses.items()}
    refuse_changed(msgspec.structs.replace(plans[-1], witnesses=witnesses), runner.run)


def _ends(plans: list[Plan]) -> dict[MessageQueue, int]:
    ends: dict[MessageQueue, int] = {}
    for plan in plans:
        for each in plan.ranges:
            ends[each.queue] = max(each.end, ends.get(each.queue, 0))
    return ends
