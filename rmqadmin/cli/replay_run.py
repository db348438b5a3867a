"""What the redrive and replay commands share: the steps from options to a run, and the messages on the way."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import pairs
from rmqadmin.cli.options.replay_options import GuardOptions, JobOptions, PaceOptions, SparkOptions
from rmqadmin.core.messages.redriving import Replayed
from rmqadmin.core.progress import limits_text
from rmqproto.codes import PERM_READ, PERM_READ_WRITE
from rmqproto.errors import RequestTimeoutError, UsageError
from rmqproto.java.java_numbers import LONG_MAX, whole_number
from rmqproto.names import dlq_topic, group_in_topic
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqadmin.cli.run_progress import ProgressBar, ProgressLines, StageLines
    from rmqproto.wire.credentials import Credentials
    from rmqreplay.plans.plan import Plan
    from rmqreplay.plans.request import ReplayRequest
    from rmqreplay.run.consumers import CanaryReport
    from rmqreplay.run.entry import ReplayOutcome
    from rmqreplay.run.job import Hooks, ReplayProgress
    from spark_tools.session import SessionOptions


def run_job(
    call: Call,
    engine: Callable[..., ReplayOutcome],
    request: ReplayRequest | None,
    *,
    work: JobOptions,
    pace: PaceOptions,
    guards: GuardOptions,
    on_plan: Callable[[Plan], None] = lambda plan: None,
) -> Replayed:
    """Plans or executes with ``engine`` (``redrive`` of ``rmqreplay``, or ``replay`` of ``spark_tools``), and says how
    to resume after an interruption."""
    from rmqadmin.cli.run_progress import StageLines, progress_for_here
    from rmqreplay.ledger.ledger import read_ledger
    from rmqreplay.plans.request import default_ledger_root
    from rmqreplay.run.entry import Runner, open_jobs
    from rmqreplay.run.job import RunOptions

    progress, stage = progress_for_here(pace.rate), StageLines()
    own_jobs = {work.job}

    def note_plan(plan: Plan) -> None:
        own_jobs.add(plan.job)
        _check_servers(call, plan)
        on_plan(plan)

    def has_begun(plan: Plan) -> bool:
        return read_ledger(os.path.join(work.ledger or default_ledger_root(), plan.job)).begin is not None

    count_max, share_max = _failures_max(guards.failures_max)
    runner = Runner(
        ledger_root=work.ledger,
        run=RunOptions(
            rate=pace.rate,
            byte_rate=pace.byte_rate,
            failures_max=count_max,
            failures_share_max=share_max,
            canary_wait_s=guards.canary_wait_s,
            audit=guards.audit,
            **call.settings.access(),
            client=call.connections,
        ),
        sample=guards.sample,
        hooks=_hooks(call, guards.sample, progress, stage, note_plan, has_begun),
    )
    ledger = f" --ledger {shlex.quote(work.ledger)}" if work.ledger else ""
    limits = limits_text(pace.rate, pace.byte_rate)
    try:
        outcome = engine(request, runner, execute=work.execute and not call.dry_run, resume=work.resume, job=work.job)
    except BaseException as error:  # Ctrl-C, too: an unfinished job can be resumed
        stage.stop()
        for note in getattr(error, "__notes__", ()):
            call.notice(note)
        sends = (work.execute or work.resume) and not call.dry_run
        for name in open_jobs(work.ledger or default_ledger_root()) if sends else ():
            of_job = ledger + (limits if name in own_jobs else "")
            call.notice(f"a job is not finished; to continue: rmqadmin {call.command} --resume --job {name}{of_job}")
        raise
    finally:
        stage.stop()
        progress.stop()
    if outcome.result is None:
        job = outcome.plan.job
        call.notice(f"nothing was sent; to send: rmqadmin {call.command} --execute --job {job}{ledger}{limits}")
    return Replayed(outcome.plan, outcome, pace.rate)


def _hooks(
    call: Call,
    sample: int,
    progress: ProgressBar | ProgressLines,
    stage: StageLines,
    on_plan: Callable[[Plan], None],
    has_begun: Callable[[Plan], bool],
) -> Hooks:
    """``has_begun``: whether a plan has begun to send, so that its warnings were heard."""
    from rmqreplay.run.job import Hooks

    name = ""

    def begin(text: str) -> None:
        progress.stop()
        stage(text)

    def show(plan: Plan) -> None:
        nonlocal name
        stage.stop()
        name = _asked_name(plan)
        progress.counts.planned = plan.shown.get("selected", 0)
        for text in _sample_lines(plan, sample):
            call.notice(text)
        for text in [*_warnings(plan), *_lonely(plan), *plan.shown.get("not_searched", [])]:
            call.notice(text)
        on_plan(plan)

    def confirm(plan: Plan) -> None:
        what = plan.target.name if plan.target.kind == "file" else ", ".join(plan.target.topics)
        count = plan.shown.get("selected", 0)
        warnings = _warnings(plan)
        question = " ".join([f"This sends {counted(count, 'message')} to {what} (job {plan.job}).", *warnings])
        if plan.target.kind == "file":
            call.confirm_local(question, plan.job, is_said=True)  # by --execute or --resume
        elif warnings and not has_begun(plan):
            call.confirm_bulk(question, _asked_name(plan), namesrv_addr=plan.target_name_server)
        else:
            call.confirm(question, _asked_name(plan), namesrv_addr=plan.target_name_server, is_said=True)

    def go_on(reached: ReplayProgress) -> None:
        stage.stop()
        progress(reached)

    def judge(report: CanaryReport) -> bool:
        stage.stop()
        call.notice(f"the canary was sent: {report}")
        if call.can_ask:
            call.confirm_local("This sends the rest.", name)  # whether it may change anything is settled
            return True
        return report.is_good

    return Hooks(
        on_stage=begin, on_read=stage.read, on_plan=show, confirm=confirm, on_progress=go_on,
        on_service=progress.attach, on_canary=judge,
    )  # fmt: skip


def _check_servers(call: Call, plan: Plan) -> None:
    """Says which name servers a job is for, if the call has others: a job goes on where it was planned. UsageError if
    the command line names them."""
    planned = plan.target_name_server if plan.source.name_server is None else plan.source.name_server
    if plan.target.kind == "file" or not call.is_namesrv_given or set(call.namesrv_addrs) == set(planned.split(";")):
        return
    if call.namesrv_option is not None:
        raise UsageError(
            f"job {plan.job} was planned for {planned}, and -n names {call.namesrv_option}",
            hint="Leave out -n to go on there, or plan a job of another name here.",
        )
    call.notice(f"job {plan.job} was planned for {planned}, and goes on there")


def _asked_name(plan: Plan) -> str:
    """What is typed to go on: the group whose dead letters are sent, else the target topic."""
    topics = sorted({each.queue.topic for each in plan.ranges})
    groups = [group for topic in topics if (group := group_in_topic(topic)) is not None]
    return groups[0] if groups else ", ".join(plan.target.topics) or plan.job


def _lonely(plan: Plan) -> list[str]:
    """That nobody of the failed group takes the messages now."""
    rule = plan.target
    if rule.kind != "group" or not rule.topics or rule.name in plan.shown.get("groups", [rule.name]):
        return []
    return [
        f"nobody of {rule.name} reads {', '.join(rule.topics)} now: messages wait there until a consumer subscribes to"
        " it, which one that only pops never does; --to same sends to the origin topic"
    ]


def _warnings(plan: Plan) -> list[str]:
    """Who gets messages again that it has had, as far as that can be known. Each needs a yes of its own."""
    found = []
    group = _asked_name(plan)
    planned = plan.shown.get("groups", []) if plan.target.kind == "same" else []  # all that earlier versions noted
    if again := plan.shown.get("groups_again", [name for name in planned if name != group]):
        gets = "gets" if len(again) == 1 else "get"
        found.append(f"{', '.join(again)} {gets} these messages again, not only {group}; --to group reaches it alone.")
    if perhaps := plan.shown.get("perhaps_sent", {}):
        jobs = ", ".join(f"{name} ({counted(count, 'message')})" for name, count in sorted(perhaps.items()))
        found.append(
            f"Perhaps some were sent before, by {jobs}: ledgers of earlier versions do not say of which cluster."
        )
    return found


def _sample_lines(plan: Plan, count: int) -> list[str]:
    lines = []
    for each in plan.shown.get("samples", [])[:count]:
        before, after = each["properties_before"], each["properties_after"]
        lines.append(f"{each['from']} -> {each['to']} ({each['body_size_bytes']} bytes): {each['body']!r}")
        lines += [f"  - {name}={value!r}" for name, value in sorted(before.items()) if after.get(name) != value]
        lines += [f"  + {name}={value!r}" for name, value in sorted(after.items()) if before.get(name) != value]
    return lines


def _failures_max(text: str | None) -> tuple[int | None, float | None]:
    """A count, or a share of the messages that the plan selects."""
    if text is None:
        return None, None
    count = whole_number(text, LONG_MAX)
    if count is not None:
        return count, None
    percent = text.removesuffix("%")
    if percent == text or not re.fullmatch(r"[0-9]+(\.[0-9]+)?", percent) or float(percent) > 100:
        raise UsageError(f"--max-failures {text} is neither a number of messages nor a percentage")
    return None, float(percent) / 100


def command_line(credentials: Credentials | None) -> str:
    """The command line for the plan, without the keys, however they were spelled."""
    line = " ".join(["rmqadmin", *sys.argv[1:]])
    for key in (credentials.access_key, credentials.secret_key) if credentials else ():
        line = line.replace(key, "***")
    return line


OPEN_WAIT_S = 30.0
"""A broker tells its name servers of a changed topic at once, and again every 30 s."""


def open_letters(call: Call, group: str) -> None:
    """Asks the user, and sets perm 6 on every broker where the group's dead letters cannot be read."""
    from rmqadmin.core.messages.dead_letters import check_group
    from rmqadmin.core.topic_and_group_configs import plan_perm

    check_group(group)
    topic = dlq_topic(group)
    route = call.admin.topic_route(topic)
    closed = {each.broker_name for each in route.queue_datas if not each.perm & PERM_READ}
    addrs = [each.master_addr for each in route.broker_datas if each.broker_name in closed and each.master_addr]
    if not addrs:
        return
    if call.dry_run:
        call.notice(f"--dry-run: {topic} is not made readable on {', '.join(addrs)}")
        return
    call.confirm(f"This makes {topic} readable (perm 6) on {', '.join(addrs)}.", group, is_said=True)
    for addr in addrs:
        plan_perm(call.admin, addr, topic, PERM_READ_WRITE)[0].act()
    call.notice(f"{topic} is readable now (perm 6) on {', '.join(addrs)}")
    deadline = time.monotonic() + OPEN_WAIT_S
    while any(not each.perm & PERM_READ for each in call.admin.topic_route(topic).queue_datas):
        if time.monotonic() > deadline:
            raise RequestTimeoutError(f"the name server still says that {topic} cannot be read")
        time.sleep(0.1)


def session_options(spark: SparkOptions) -> SessionOptions:
    from spark_tools.session import SessionOptions

    return SessionOptions(
        master=spark.master,
        cores=spark.cores,
        driver_memory=spark.driver_memory,
        java_home=spark.java_home,
        log_path=spark.spark_log,
        settings=pairs("--spark-conf", spark.spark_conf),
    )
