"""A replay from its plan to its audit: ``run_replay`` executes the plan, and continues after an interruption. This file
sets the order of the durable steps: fence, wave, done."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec

from rmqproto.errors import RocketMQError, UsageError
from rmqproto.wording import counted
from rmqreplay.ledger.audit import AuditResult, audit
from rmqreplay.ledger.ledger import Begin, DoneLine, EndLine, Fence, FenceLine, Ledger, NoteLine
from rmqreplay.ledger.letter_source import letters_of
from rmqreplay.ledger.lost_lines import has_lost_lines
from rmqreplay.ledger.sent_before import changed_queue, root_lock, sent_before
from rmqreplay.plans.plan import Plan
from rmqreplay.run.canary import WAIT_S_DEFAULT, watch_canary
from rmqreplay.run.engine import Engine
from rmqreplay.run.group_guard import came_back, dead_letter_fences, refuse_orderly_group
from rmqreplay.run.hooks import SILENT, Hooks, ReplayProgress
from rmqreplay.run.wave_spec import TaskReport, WaveSpec
from rmqreplay.sending.permit_service import PermitService
from rmqreplay.sending.permits import PermitBook
from rmqreplay.sending.target import read_fences, settle_s
from rmqreplay.source.live import ClusterAccess
from rmqreplay.source.offset_ranges import OffsetSet

SEND_TIMEOUT_MS_DEFAULT = 3000
AUDIT_MESSAGES_DEFAULT_MAX = 1_000_000
"""Jobs of up to this many messages are audited by default."""


class PlanConflict(UsageError):
    """The job on disk has another plan, or another job covers some of this job's messages."""


class FailuresExceeded(RocketMQError):
    """More messages were rejected than allowed. The job is open and can be resumed."""


CANARY_NOTE = "canary"


@dataclass(frozen=True, slots=True)
class RunOptions(ClusterAccess):
    """How to run a plan. Nothing here changes the messages sent. ``rate`` is messages per second for the whole
    cluster. ``client`` is for everything except sending."""

    rate: float | None = None
    byte_rate: float | None = None
    failures_max: int | None = None
    failures_share_max: float | None = None
    """A share of the messages that the plan selects; used instead of ``failures_max``."""
    canary_wait_s: float = WAIT_S_DEFAULT
    audit: bool | None = None
    """None audits jobs of up to AUDIT_MESSAGES_DEFAULT_MAX messages."""
    send_timeout_ms: int = SEND_TIMEOUT_MS_DEFAULT
    batch_messages: int = 32
    in_flight: int | None = None
    """Requests under way in each task; None for the engine's default."""
    protected: bool = True
    permit_host: str = "127.0.0.1"


@dataclass(slots=True)
class ReplayResult:
    """The result of a run. Fields named ``total`` count all runs of the job together."""

    job: str
    delivered_total: int = 0
    stored: int = 0
    found: int = 0
    """Messages that this run found at the target already."""
    excluded: int = 0
    skipped: int = 0
    rejected: int = 0
    doubtful: int = 0
    weak: int = 0
    waves: int = 0
    audit: AuditResult | None = None
    failures_path: str | None = None
    seconds: float = 0.0


def run_replay(
    plan: Plan,
    directory: str,
    engine: Engine,
    options: RunOptions = RunOptions(),
    hooks: Hooks = SILENT,
) -> ReplayResult:
    """Executes ``plan`` from the first wave that is not done. It may be interrupted at any time, and called again.

    StorageError if another driver runs the job; PlanConflict for a begun job with another plan; FailuresExceeded and
    errors of the engine leave the job open.
    """
    if plan.transform.delay_level and options.audit:
        raise UsageError("delayed messages are not in their queues yet: an audit would miss them all")
    started = time.monotonic()
    with Ledger(directory) as ledger:
        result = ReplayResult(plan.job)
        is_resumed = ledger.state.begin is not None
        _begin(plan, ledger, engine, options)
        if plan.target.kind == "file":
            _run_file_waves(plan, ledger, engine, options, result, hooks)
        else:
            if ledger.state.open_wave is not None:
                hooks.on_stage("looking for what an earlier run has sent, once it cannot send any more")
            old_fences = _fences_of_lost_lines(plan, ledger, options) if is_resumed else []
            _run_waves(plan, ledger, engine, options, result, hooks, old_fences)
        if ledger.state.end is None:
            ledger.append(EndLine(_now_ms()))
        delivered = ledger.state.delivered()
        result.delivered_total = delivered.count
        if plan.target.kind != "file" and _is_audit_wanted(plan, options, delivered.count):
            hooks.on_stage(f"counting {counted(delivered.count, 'message')} at the target")
            result.audit = _audit(plan, ledger, delivered, options)
        if os.path.exists(ledger.failures_path):
            result.failures_path = ledger.failures_path
    result.seconds = time.monotonic() - started
    return result


def refuse_changed(plan: Plan, options: RunOptions) -> None:
    """PlanConflict if the source has other messages than those that were planned: it is another cluster under the same
    address, or was made anew."""
    with letters_of(plan, options.cluster) as source:
        changed = changed_queue(plan, source)
    if changed is not None:
        raise PlanConflict(
            f"{changed} has other messages than those that job {plan.job} was planned with",
            hint="is it another cluster, or made anew? Plan again under another --job name",
        )


def _refuse_changed_meanwhile(plan: Plan, options: RunOptions) -> None:
    """As ``refuse_changed``, of a cluster: files stay as they are."""
    if plan.source.path is None:
        refuse_changed(plan, options)


def _begin(plan: Plan, ledger: Ledger, engine: Engine, options: RunOptions) -> None:
    begin = ledger.state.begin
    if begin is not None:
        if begin.plan != plan.identity:
            raise PlanConflict(
                f"job {plan.job} was begun with another plan", hint="--resume goes on with it; or choose another --job"
            )
        return
    excluded = engine.duplicates(plan) if plan.dedup else OffsetSet()
    fences = _fences(plan, options) if plan.target.kind != "file" else []
    root = os.path.dirname(os.path.abspath(ledger.directory))
    with letters_of(plan, options.cluster) as source, root_lock(root):
        if plan.skip_redriven:
            excluded.update(sent_before(root, plan, source, strict=True).places)
        brokers = {each.queue.broker_name: source.broker(each.queue) for each in plan.ranges}
        # From here on other jobs see this one, and it has seen them.
        ledger.append(Begin(plan.identity, _now_ms(), excluded.to_json(), fences, brokers))


def _fences_of_lost_lines(plan: Plan, ledger: Ledger, options: RunOptions) -> list[Fence]:
    """The newest fences of a ledger that has lost its last lines; none if it is whole. Every wave from now on must look
    at the target from there, because a lost line may have been its fence."""
    if ledger.state.next_wave(plan.wave_count) is None:
        return []
    with options.cluster(plan.target_name_server) as cluster:
        return ledger.state.last_fences() if has_lost_lines(ledger.state, plan, cluster) else []


def _run_waves(
    plan: Plan,
    ledger: Ledger,
    engine: Engine,
    options: RunOptions,
    result: ReplayResult,
    hooks: Hooks,
    old_fences: list[Fence],
) -> None:
    settle = settle_s(options.send_timeout_ms / 1000)
    book = PermitBook(time.monotonic, settle_s=settle, rate=options.rate, byte_rate=options.byte_rate)
    guard = _dead_letters(plan, options)
    service = PermitService(book, options.permit_host)
    hooks.on_service(service)
    try:
        while (wave := ledger.state.next_wave(plan.wave_count)) is not None:
            if wave == 1 and plan.canary_ends and CANARY_NOTE not in ledger.state.notes:
                _judge_canary(plan, ledger, options, hooks)
            _refuse_changed_meanwhile(plan, options)
            recovering = ledger.state.open_wave == wave
            if not recovering:
                ledger.append(FenceLine(wave, old_fences or _fences(plan, options)))
            service.open_wave(wave, recovering=recovering or bool(old_fences))
            reached = ReplayProgress(wave, plan.wave_count, 0, ledger.state.delivered().count, result.found)
            with _watching(reached, service, hooks):
                report = engine.run(plan, plan.wave(wave), _spec(plan, wave, ledger, service, options, engine))
            granted, found = service.book.granted_count, result.found + report.found
            hooks.on_progress(replace(reached, wave=wave + 1, granted=granted, found=found))
            service.close_wave()
            _finish(wave, report, ledger, result, _failures_allowed(plan, options))
            _refuse_circle(plan, guard, options)
    finally:
        service.close()


def _dead_letters(plan: Plan, options: RunOptions) -> list[Fence]:
    """The current ends of the group's dead letters, for a redrive to a group. UsageError if the redrive would only add
    to them."""
    if plan.target.kind != "group":
        return []
    with options.cluster(plan.target_name_server) as cluster:
        refuse_orderly_group(cluster, plan.target.name)
        return dead_letter_fences(cluster, plan.target.name)


def _refuse_circle(plan: Plan, fences: list[Fence], options: RunOptions) -> None:
    if not fences:
        return
    with options.cluster(plan.target_name_server) as cluster:
        count = came_back(cluster, fences, plan.replay_job)
    if count:
        raise FailuresExceeded(
            f"{counted(count, 'message')} came back as dead letters of {plan.target.name}: the redrive stops here",
            hint="find out why the group cannot take them before --resume",
        )


def _judge_canary(plan: Plan, ledger: Ledger, options: RunOptions, hooks: Hooks) -> None:
    """FailuresExceeded if the first wave's consumers do not do well. The decision is noted in the ledger. Resuming the
    job overrules it."""
    begin = ledger.state.begin
    assert begin is not None
    hooks.on_stage("watching how the canary's consumers fare")
    with options.cluster(plan.target_name_server) as cluster:
        fences = ledger.state.fences[0]
        report = watch_canary(plan, cluster, fences, begin.at_ms, options.canary_wait_s)
    may_go_on = hooks.on_canary(report)
    ledger.append(NoteLine(CANARY_NOTE, {**msgspec.to_builtins(report), "went_on": may_go_on}))
    if not may_go_on:
        raise FailuresExceeded(
            f"the canary's messages were not taken ({report}): the replay stops here",
            hint="find out why; --resume sends the rest anyway",
        )


def _spec(
    plan: Plan, wave: int, ledger: Ledger, service: PermitService, options: RunOptions, engine: Engine
) -> WaveSpec:
    ranges = plan.wave(wave)
    return WaveSpec(
        job=plan.replay_job, wave=wave, wanted=ranges,
        excluded=ledger.state.excluded().overlap(ranges).to_json(), target=plan.target, transform=plan.transform,
        keep_order=plan.keep_order, name_server=plan.target_name_server, fences=ledger.state.fences[wave],
        permits=service.address, send_timeout_ms=options.send_timeout_ms, batch_messages=options.batch_messages,
        in_flight=options.in_flight or engine.in_flight, protected=options.protected,
    )  # fmt: skip


def _failures_allowed(plan: Plan, options: RunOptions) -> int | None:
    if options.failures_share_max is None:
        return options.failures_max
    return int(plan.shown.get("selected", 0) * options.failures_share_max)


def _finish(wave: int, report: TaskReport, ledger: Ledger, result: ReplayResult, failures_max: int | None) -> None:
    """Writes failures first, then the done line: after a crash in between some are listed twice, but none is lost."""
    if any(not each.queue for each in report.failures):  # every wave that scans the place finds it
        listed = ledger.remarks_without_queue()
        report.failures = [each for each in report.failures if each.queue or each.remark not in listed]
    ledger.reject([{"wave": wave, **msgspec.to_builtins(each)} for each in report.failures])
    counts = {
        "stored": report.stored, "found": report.found, "excluded": report.excluded, "skipped": report.skipped,
        "rejected": len(report.failures), "doubtful": report.doubtful, "weak": report.weak,
    }  # fmt: skip
    ledger.append(DoneLine(wave, report.delivered, counts, report.marks))
    result.waves += 1
    for name, count in counts.items():
        setattr(result, name, getattr(result, name) + count)
    if failures_max is not None and result.rejected > failures_max:
        raise FailuresExceeded(
            f"{counted(result.rejected, 'message')} rejected, more than the {failures_max} allowed",
            hint=f"see {ledger.failures_path}; --resume goes on",
        )


def _run_file_waves(
    plan: Plan, ledger: Ledger, engine: Engine, options: RunOptions, result: ReplayResult, hooks: Hooks
) -> None:
    """Writes waves to files. A wave's directory is replaced as a whole, so that a broken attempt leaves nothing
    behind."""
    while (wave := ledger.state.next_wave(plan.wave_count)) is not None:
        _refuse_changed_meanwhile(plan, options)
        ranges = plan.wave(wave)
        excluded = ledger.state.excluded().overlap(ranges)
        if ledger.state.open_wave != wave:
            ledger.append(FenceLine(wave, []))
        directory = os.path.join(plan.target.name, f"wave={wave:05d}")
        report = engine.write_files(plan, ranges, excluded, directory) if ranges else TaskReport()
        report.excluded = excluded.count
        _finish(wave, report, ledger, result, _failures_allowed(plan, options))
        hooks.on_progress(ReplayProgress(wave + 1, plan.wave_count, delivered=result.stored))


def _fences(plan: Plan, options: RunOptions) -> list[Fence]:
    with options.cluster(plan.target_name_server) as cluster:
        return read_fences(cluster, plan.target.topics)


def _audit(plan: Plan, ledger: Ledger, delivered: OffsetSet, options: RunOptions) -> AuditResult:
    """Audits a job that has ended. An error only means that nothing was counted, and says so."""
    try:
        with options.cluster(plan.target_name_server) as cluster:
            found = audit(ledger.state.first_fences(), cluster, plan.replay_job, delivered)
    except BaseException as error:
        error.add_note(f"everything was sent, and was not counted at the target; --resume --job {plan.job} counts it")
        raise
    ledger.append(NoteLine("audit", msgspec.to_builtins(found)))
    return found


def _is_audit_wanted(plan: Plan, options: RunOptions, count: int) -> bool:
    if plan.transform.delay_level:
        return False
    return options.audit if options.audit is not None else count <= AUDIT_MESSAGES_DEFAULT_MAX


PROGRESS_POLL_S = 0.25


@contextmanager
def _watching(reached: ReplayProgress, service: PermitService, hooks: Hooks) -> Iterator[None]:
    """Reports progress from ``reached`` on while the wave runs, from the permit service's exact counts. Spark's numbers
    only come at the end."""
    finished = threading.Event()

    def report() -> None:
        while not finished.wait(PROGRESS_POLL_S):
            hooks.on_progress(replace(reached, granted=service.book.granted_count))

    thread = threading.Thread(target=report, daemon=True, name="progress")
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
