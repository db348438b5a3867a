"""A replay from plan to audit: ``plan_replay`` freezes what would be done and counts it, ``run_replay`` does it, and
does it again from where it was interrupted. The order of the durable steps is here: fence, wave, done."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.errors import NotFoundError, RocketMQError, UsageError
from rmqproto.signing import Credentials
from spark_tools.live import LiveCluster
from spark_tools.replay.audit import AuditResult, audit
from spark_tools.replay.canary import WAIT_S_DEFAULT, CanaryReport, watch_canary
from spark_tools.replay.group_guard import came_back, dead_letter_fences, refuse_orderly_group
from spark_tools.replay.ledger import Begin, DoneLine, EndLine, Fence, FenceLine, Ledger, NoteLine
from spark_tools.replay.offsets import OffsetSet, queue_text, split_ranges
from spark_tools.replay.permit_service import PermitService
from spark_tools.replay.permits import PermitBook
from spark_tools.replay.plan import Plan, save_plan, wave_count_for
from spark_tools.replay.redriven import other_jobs_delivered, root_lock
from spark_tools.replay.target import read_fences, settle_s
from spark_tools.replay.wave_spec import TaskReport, WaveSpec

if TYPE_CHECKING:
    from spark_tools.replay.waves import Waves

SEND_TIMEOUT_MS_DEFAULT = 3000
AUDIT_MESSAGES_DEFAULT_MAX = 1_000_000
"""Up to here an audit is made without being asked for."""


class PlanConflict(UsageError):
    """The job on disk is another one, or messages of this one are another job's business."""


class FailuresExceeded(RocketMQError):
    """More messages were rejected than allowed; the job is open and can be resumed."""


CANARY_NOTE = "canary"
OnCanary = Callable[[CanaryReport], bool]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a plan; nothing here changes what is sent. ``rate`` is messages a second for the whole cluster."""

    rate: float | None = None
    byte_rate: float | None = None
    failures_max: int | None = None
    failures_share_max: float | None = None
    """Of the messages that the plan selects; instead of ``failures_max``."""
    canary_wait_s: float = WAIT_S_DEFAULT
    audit: bool | None = None
    """None: an audit for jobs of up to AUDIT_MESSAGES_DEFAULT_MAX messages."""
    send_timeout_ms: int = SEND_TIMEOUT_MS_DEFAULT
    batch_messages: int = 32
    in_flight: int = 4
    protected: bool = True
    permit_host: str = "127.0.0.1"
    credentials: Credentials | None = None


@dataclass(slots=True)
class Progress:
    """Handed to the caller's ``on_progress`` after every wave, and with each poll while one runs."""

    wave: int = 0
    wave_count: int = 0
    granted: int = 0
    """Messages that may be, or were, put on the wire by this run."""
    delivered: int = 0
    """By the ledger, when this wave began."""


@dataclass(slots=True)
class ReplayResult:
    """What a run did, all runs of the job together where it says ``total``."""

    job: str
    delivered_total: int = 0
    stored: int = 0
    found: int = 0
    """Were at the target already when this run looked."""
    excluded: int = 0
    skipped: int = 0
    rejected: int = 0
    doubtful: int = 0
    weak: int = 0
    waves: int = 0
    audit: AuditResult | None = None
    failures_path: str | None = None
    seconds: float = 0.0


def plan_replay(plan: Plan, waves: Waves, directory: str, *, wave_messages: int, sample: int = 0) -> Plan:
    """The plan with everything resolved and counted, written to ``directory``: what an execution will do. Sends
    nothing. NotFoundError where nothing is selected; PlanConflict where the directory holds another plan that was
    begun."""
    if plan.limit is not None:
        chosen = waves.first_places(plan, plan.limit)
        plan = msgspec.structs.replace(plan, ranges=list(chosen))
    if not plan.ranges:
        raise NotFoundError("nothing is selected: the queues hold no message in this range")
    os.makedirs(directory, exist_ok=True)
    excluded = waves.duplicates(plan) if plan.dedup else OffsetSet()
    duplicate_count = excluded.count
    root = os.path.dirname(os.path.abspath(directory))
    if plan.skip_redriven:
        excluded.update(other_jobs_delivered(root, plan, strict=False))
    plan = _in_waves(plan, waves, excluded, plan.limit or wave_messages)
    report = waves.run(plan, plan.ranges, WaveSpec(
        job=plan.replay_job, wave=0, wanted=plan.ranges, excluded=excluded.to_json(), target=plan.target,
        transform=plan.transform, result_path=os.path.join(directory, "dry-run.json"), sample=sample,
    ))  # fmt: skip
    topics = sorted(report.topics) if plan.target.kind != "file" else []
    plan = msgspec.structs.replace(
        plan,
        target=msgspec.structs.replace(plan.target, topics=topics),
        shown={
            "selected": report.selected, "size_bytes": report.size_bytes, "excluded": report.excluded,
            "skipped": report.skipped, "duplicates": duplicate_count, "topics": report.topics, "tags": report.tags,
            "oldest_ms": report.oldest_ms, "newest_ms": report.newest_ms, "would_reject": len(report.failures),
            "reject_reasons": _reasons(report), "samples": report.samples[:sample],
            "groups": _readers(plan, topics, waves.credentials),
        },
    )  # fmt: skip
    save_plan(directory, plan)
    return plan


def _in_waves(plan: Plan, waves: Waves, excluded: OffsetSet, wave_messages: int) -> Plan:
    """A canary's first wave takes each queue up to its last chosen message, so that no queue's order is broken."""
    if not plan.canary:
        return msgspec.structs.replace(plan, wave_count=wave_count_for(plan.ranges, wave_messages))
    ends: dict[str, int] = {}
    for each in waves.first_places(plan, plan.canary, excluded):
        ends[queue_text(each.queue)] = max(each.end, ends.get(queue_text(each.queue), 0))
    rest = split_ranges(plan.ranges, ends)[1]
    rest_count = wave_count_for(rest, wave_messages) if rest else 0
    return msgspec.structs.replace(plan, canary_ends=ends, wave_count=(1 if ends else 0) + rest_count)


def _readers(plan: Plan, topics: list[str], credentials: Credentials | None) -> list[str]:
    """The groups that get the messages: all that read a target topic, not only the one that failed."""
    if not topics:
        return []
    with LiveCluster(target_name_server(plan), credentials) as cluster:
        return sorted({group for topic in topics for group in cluster.groups(topic)})


def run_replay(
    plan: Plan,
    directory: str,
    waves: Waves,
    options: RunOptions = RunOptions(),
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_service: Callable[[PermitService], None] = lambda service: None,
    on_canary: OnCanary = lambda report: report.is_good,
) -> ReplayResult:
    """Does what ``plan`` says, from the first wave that is not done. May be interrupted by anything at any time and
    called again.

    ``on_canary`` says whether to go on after a canary, and may raise. StorageError if another driver runs the job;
    PlanConflict for a begun job with another plan; SparkJobError, FailuresExceeded and others leave the job open."""
    if plan.transform.delay_level and options.audit:
        raise UsageError("delayed messages are not in their queues yet: an audit would miss them all")
    started = time.monotonic()
    with Ledger(directory) as ledger:
        result = ReplayResult(plan.job)
        _begin(plan, ledger, waves)
        if plan.target.kind == "file":
            _run_file_waves(plan, ledger, waves, result, on_progress)
        else:
            _run_waves(plan, ledger, waves, options, result, on_progress, on_service, on_canary)
        if ledger.state.end is None:
            ledger.append(EndLine(_now_ms()))
        delivered = ledger.state.delivered()
        result.delivered_total = delivered.count
        if plan.target.kind != "file" and _is_audit_wanted(plan, options, delivered.count):
            result.audit = _audit(plan, ledger, delivered, options)
        if os.path.exists(ledger.failures_path):
            result.failures_path = ledger.failures_path
    result.seconds = time.monotonic() - started
    return result


def _begin(plan: Plan, ledger: Ledger, waves: Waves) -> None:
    begin = ledger.state.begin
    if begin is not None:
        if begin.plan != plan.identity:
            raise PlanConflict(
                f"job {plan.job} was begun with another plan", hint="--resume goes on with it; or choose another --job"
            )
        return
    excluded = waves.duplicates(plan) if plan.dedup else OffsetSet()
    root = os.path.dirname(os.path.abspath(ledger.directory))
    with root_lock(root):  # from here on the other jobs see this one, and it has seen them
        if plan.skip_redriven:
            excluded.update(other_jobs_delivered(root, plan, strict=True))
        ledger.append(Begin(plan.identity, _now_ms(), excluded.to_json()))


def _run_waves(
    plan: Plan,
    ledger: Ledger,
    waves: Waves,
    options: RunOptions,
    result: ReplayResult,
    on_progress: Callable[[Progress], None],
    on_service: Callable[[PermitService], None],
    on_canary: OnCanary,
) -> None:
    settle = settle_s(options.send_timeout_ms / 1000)
    book = PermitBook(time.monotonic, settle_s=settle, rate=options.rate, byte_rate=options.byte_rate)
    guard = _dead_letters(plan, options)
    service = PermitService(book, options.permit_host)
    on_service(service)
    try:
        while (wave := ledger.state.next_wave(plan.wave_count)) is not None:
            if wave == 1 and plan.canary_ends and CANARY_NOTE not in ledger.state.notes:
                _judge_canary(plan, ledger, options, on_canary)
            recovering = ledger.state.open_wave == wave
            if not recovering:
                ledger.append(FenceLine(wave, _fences(plan, options)))
            service.open_wave(wave, recovering=recovering)
            with _watching(plan, wave, ledger, service, on_progress):
                report = waves.run(plan, plan.wave(wave), _spec(plan, wave, ledger, service, options))
            service.close_wave()
            _finish(wave, report, ledger, result, _failures_allowed(plan, options))
            _refuse_circle(plan, guard, options)
    finally:
        service.close()


def _dead_letters(plan: Plan, options: RunOptions) -> list[Fence]:
    """For a redrive to a group: where its dead letters end now. UsageError where they would only grow."""
    if plan.target.kind != "group":
        return []
    with LiveCluster(target_name_server(plan), options.credentials) as cluster:
        refuse_orderly_group(cluster, plan.target.name)
        return dead_letter_fences(cluster, plan.target.name)


def _refuse_circle(plan: Plan, fences: list[Fence], options: RunOptions) -> None:
    if not fences:
        return
    with LiveCluster(target_name_server(plan), options.credentials) as cluster:
        count = came_back(cluster, fences, plan.replay_job, options.credentials)
    if count:
        raise FailuresExceeded(
            f"{count} messages came back as dead letters of {plan.target.name} at once: the redrive stops here",
            hint="find out why the group cannot take them before --resume",
        )


def _judge_canary(plan: Plan, ledger: Ledger, options: RunOptions, on_canary: OnCanary) -> None:
    """FailuresExceeded where the first wave's consumers do not do well. The verdict is noted: to resume is to overrule
    it."""
    begin = ledger.state.begin
    assert begin is not None
    with LiveCluster(target_name_server(plan), options.credentials) as cluster:
        fences = ledger.state.fences[0]
        report = watch_canary(plan, cluster, fences, begin.at_ms, options.canary_wait_s, options.credentials)
    may_go_on = on_canary(report)
    ledger.append(NoteLine(CANARY_NOTE, {**msgspec.to_builtins(report), "went_on": may_go_on}))
    if not may_go_on:
        raise FailuresExceeded(
            f"the canary's messages were not taken ({report}): the replay stops here",
            hint="find out why; --resume sends the rest all the same",
        )


def _spec(plan: Plan, wave: int, ledger: Ledger, service: PermitService, options: RunOptions) -> WaveSpec:
    ranges = plan.wave(wave)
    return WaveSpec(
        job=plan.replay_job, wave=wave, wanted=ranges,
        excluded=ledger.state.excluded().overlap(ranges).to_json(), target=plan.target, transform=plan.transform,
        keep_order=plan.keep_order, name_server=target_name_server(plan), fences=ledger.state.fences[wave],
        permits=service.address, send_timeout_ms=options.send_timeout_ms, batch_messages=options.batch_messages,
        in_flight=options.in_flight, protected=options.protected,
        access_key=options.credentials.access_key if options.credentials else "",
        result_path=os.path.join(os.path.abspath(ledger.directory), f"wave-{wave}.json"),
    )  # fmt: skip


def _failures_allowed(plan: Plan, options: RunOptions) -> int | None:
    if options.failures_share_max is None:
        return options.failures_max
    return int(plan.shown.get("selected", 0) * options.failures_share_max)


def _finish(wave: int, report: TaskReport, ledger: Ledger, result: ReplayResult, failures_max: int | None) -> None:
    """Failures first, then the done line: a crash in between lists some twice and forgets none."""
    ledger.reject([{"wave": wave, **msgspec.to_builtins(each)} for each in report.failures])
    counts = {
        "stored": report.stored, "found": report.found, "excluded": report.excluded, "skipped": report.skipped,
        "rejected": len(report.failures), "doubtful": report.doubtful, "weak": report.weak,
    }  # fmt: skip
    ledger.append(DoneLine(wave, report.delivered, counts))
    result.waves += 1
    for name, count in counts.items():
        setattr(result, name, getattr(result, name) + count)
    if failures_max is not None and result.rejected > failures_max:
        raise FailuresExceeded(
            f"{result.rejected} messages were rejected, more than the {failures_max} allowed",
            hint=f"see {ledger.failures_path}; --resume goes on",
        )


def _run_file_waves(
    plan: Plan, ledger: Ledger, waves: Waves, result: ReplayResult, on_progress: Callable[[Progress], None]
) -> None:
    """A wave's directory is overwritten whole, so that a broken attempt leaves nothing behind."""
    while (wave := ledger.state.next_wave(plan.wave_count)) is not None:
        ranges = plan.wave(wave)
        excluded = ledger.state.excluded().overlap(ranges)
        if ledger.state.open_wave != wave:
            ledger.append(FenceLine(wave, []))
        directory = os.path.join(plan.target.name, f"wave={wave:05d}")
        count = waves.write_files(plan, ranges, excluded, directory) if ranges else 0
        ledger.append(DoneLine(wave, {}, {"stored": count, "excluded": excluded.count}))
        result.stored += count
        result.waves += 1
        on_progress(Progress(wave + 1, plan.wave_count, delivered=result.stored))


def _fences(plan: Plan, options: RunOptions) -> list[Fence]:
    with LiveCluster(target_name_server(plan), options.credentials) as cluster:
        return read_fences(cluster, plan.target.topics)


def _audit(plan: Plan, ledger: Ledger, delivered: OffsetSet, options: RunOptions) -> AuditResult:
    with LiveCluster(target_name_server(plan), options.credentials) as cluster:
        found = audit(ledger.state.first_fences(), cluster, plan.replay_job, delivered, options.credentials)
    ledger.append(NoteLine("audit", msgspec.to_builtins(found)))
    return found


def _is_audit_wanted(plan: Plan, options: RunOptions, count: int) -> bool:
    if plan.transform.delay_level:
        return False
    return options.audit if options.audit is not None else count <= AUDIT_MESSAGES_DEFAULT_MAX


def target_name_server(plan: Plan) -> str:
    found = plan.target.name_server or plan.source.name_server
    if found is None:
        raise UsageError("the target cluster is not named", hint="--target-name-server HOST:PORT")
    return found


PROGRESS_POLL_S = 0.25


@contextmanager
def _watching(
    plan: Plan, wave: int, ledger: Ledger, service: PermitService, on_progress: Callable[[Progress], None]
) -> Any:
    """Reports while the Spark job runs: the permit service counts exactly, Spark's own numbers come only at the end."""
    delivered = ledger.state.delivered().count
    finished = threading.Event()

    def report() -> None:
        while not finished.wait(PROGRESS_POLL_S):
            on_progress(Progress(wave, plan.wave_count, service.book.granted_count, delivered))

    thread = threading.Thread(target=report, daemon=True, name="progress")
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
        on_progress(Progress(wave + 1, plan.wave_count, service.book.granted_count, delivered))


def _reasons(report: TaskReport) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for each in report.failures:
        reasons[each.remark] = reasons.get(each.remark, 0) + 1
    return reasons


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
