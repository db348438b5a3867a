"""A replay from its plan to its audit: ``run_replay`` executes the plan, and continues after an interruption. This file
sets the order of the durable steps: fence, wave, done."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec

from rmqproto.errors import RocketMQError, UsageError
from rmqproto.wording import counted
from rmqreplay.ledger.audit import AuditResult, audit, has_lost_lines
from rmqreplay.ledger.ledger import Begin, DoneLine, EndLine, Fence, FenceLine, Ledger, NoteLine
from rmqreplay.ledger.letter_source import letters_of
from rmqreplay.ledger.sent_before import changed_queue, root_lock, sent_before
from rmqreplay.plans.plan import Plan
from rmqreplay.run.consumers import (
    CANARY_WAIT_S_DEFAULT,
    CanaryReport,
    dead_letter_fences,
    refuse_orderly_group,
    watch_canary,
)
from rmqreplay.run.engine import Engine, TaskReport, WaveSpec
from rmqreplay.sending.permit_service import PermitService
from rmqreplay.sending.permits import PermitBook
from rmqreplay.sending.target import read_fences, replay_ids_in, settle_s
from rmqreplay.source.live import ClusterAccess, LiveCluster
from rmqreplay.source.offset_ranges import OffsetSet

SEND_TIMEOUT_MS_DEFAULT = 3000
AUDIT_MESSAGES_DEFAULT_MAX = 1_000_000
"""Jobs of up to this many messages are audited by default."""


class PlanConflict(UsageError):
    """The job on disk has another plan, or another job covers some of this job's messages."""


class FailuresExceeded(RocketMQError):
    """More messages were rejected than allowed. The job is open and can be resumed."""


CANARY_NOTE = "canary"
PROGRESS_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class RunOptions(ClusterAccess):
    """How to run a plan. Nothing here changes the messages sent. ``rate`` is messages per second for the whole
    cluster. ``client`` is for everything except sending."""

    rate: float | None = None
    byte_rate: float | None = None
    failures_max: int | None = None
    failures_share_max: float | None = None
    """A share of the messages that the plan selects; used instead of ``failures_max``."""
    canary_wait_s: float = CANARY_WAIT_S_DEFAULT
    audit: bool | None = None
    """None audits jobs of up to AUDIT_MESSAGES_DEFAULT_MAX messages."""
    send_timeout_ms: int = SEND_TIMEOUT_MS_DEFAULT
    batch_messages: int = 32
    in_flight: int | None = None
    """Requests under way in each task; None for the engine's default."""
    protected: bool = True
    permit_host: str = "127.0.0.1"


@dataclass(slots=True)
class ReplayProgress:
    """Passed to the caller's ``on_progress`` after every wave, and with each poll during a wave."""

    wave: int = 0
    wave_count: int = 0
    granted: int = 0
    """Messages that this run sent or may have sent."""
    delivered: int = 0
    """The messages delivered according to the ledger when this wave began."""
    found: int = 0
    """Messages that finished waves of this run did not send, because they were at the target already."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The caller's callbacks. ``confirm`` may raise to stop before anything is sent."""

    on_stage: Callable[[str], None] = lambda stage: None
    """Called with a text for people about a stage that begins and may take a while."""
    on_read: Callable[[int], None] = lambda count: None
    """Called with the number of messages of every pull, as progress of a stage that reads them in this process."""
    on_plan: Callable[[Plan], None] = lambda plan: None
    confirm: Callable[[Plan], None] = lambda plan: None
    on_progress: Callable[[ReplayProgress], None] = lambda progress: None
    on_service: Callable[[PermitService], None] = lambda service: None
    """Called with the permit service, which can change the rate from then on."""
    on_canary: Callable[[CanaryReport], bool] = lambda report: report.is_good
    """Returns whether to continue. It may ask, and raise."""


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
    plan: Plan, directory: str, engine: Engine, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()
) -> ReplayResult:
    """Executes ``plan`` from the first wave that is not done. It may be interrupted at any time, and called again.

    StorageError if another driver runs the job; PlanConflict for a begun job with another plan; FailuresExceeded and
    errors of the engine leave the job open.
    """
    if plan.transform.delay_level and options.audit:
        raise UsageError("delayed messages are not in their queues yet: an audit would miss them all")
    started = time.monotonic()
    with Ledger(directory) as ledger:
        result = _Run(plan, ledger, engine, options, hooks).to_its_end()
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


class _Run:
    """One run of a job, whose ledger it holds."""

    def __init__(self, plan: Plan, ledger: Ledger, engine: Engine, options: RunOptions, hooks: Hooks):
        self._plan = plan
        self._ledger = ledger
        self._state = ledger.state
        self._engine = engine
        self._options = options
        self._hooks = hooks
        self._result = ReplayResult(plan.job)

    def to_its_end(self) -> ReplayResult:
        plan, state, ledger, result = self._plan, self._state, self._ledger, self._result
        is_resumed = state.begin is not None
        self._begin()
        if plan.target.kind == "file":
            self._write_waves()
        else:
            if state.open_wave is not None:
                self._hooks.on_stage("looking for what an earlier run has sent, once it cannot send any more")
            self._send_waves(self._fences_of_lost_lines() if is_resumed else [])
        if state.end is None:
            ledger.append(EndLine(_now_ms()))
        delivered = state.delivered()
        result.delivered_total = delivered.count
        wanted, is_small = self._options.audit, delivered.count <= AUDIT_MESSAGES_DEFAULT_MAX
        if plan.target.kind != "file" and not plan.transform.delay_level and (is_small if wanted is None else wanted):
            self._hooks.on_stage(f"counting {counted(delivered.count, 'message')} at the target")
            result.audit = self._audit(delivered)
        if os.path.exists(ledger.failures_path):
            result.failures_path = ledger.failures_path
        return result

    def _target(self) -> LiveCluster:
        return self._options.cluster(self._plan.target_name_server)

    def _begin(self) -> None:
        plan, begin = self._plan, self._state.begin
        if begin is not None:
            if begin.plan != plan.identity:
                raise PlanConflict(
                    f"job {plan.job} was begun with another plan",
                    hint="--resume goes on with it; or choose another --job",
                )
            return
        excluded = self._engine.duplicates(plan) if plan.dedup else OffsetSet()
        fences = self._fences() if plan.target.kind != "file" else []
        root = os.path.dirname(os.path.abspath(self._ledger.directory))
        with letters_of(plan, self._options.cluster) as source, root_lock(root):
            if plan.skip_redriven:
                excluded.update(sent_before(root, plan, source, strict=True).places)
            brokers = {each.queue.broker_name: source.broker(each.queue) for each in plan.ranges}
            # From here on other jobs see this one, and it has seen them.
            self._ledger.append(Begin(plan.identity, _now_ms(), excluded.to_json(), fences, brokers))

    def _fences(self) -> list[Fence]:
        with self._target() as cluster:
            return read_fences(cluster, self._plan.target.topics)

    def _fences_of_lost_lines(self) -> list[Fence]:
        """The newest fences of a ledger that has lost its last lines; none if it is whole. Every wave from now on must
        look at the target from there, because a lost line may have been its fence."""
        if self._state.next_wave(self._plan.wave_count) is None:
            return []
        with self._target() as cluster:
            return self._state.last_fences() if has_lost_lines(self._state, self._plan, cluster) else []

    def _waves(self) -> Iterator[int]:
        """The waves that are not done, each once the canary before it was judged, which may take long, and then its
        source was looked at: of a cluster, files stay as they are."""
        while (wave := self._state.next_wave(self._plan.wave_count)) is not None:
            if wave == 1 and self._plan.canary_ends and CANARY_NOTE not in self._state.notes:
                self._judge_canary()
            if self._plan.source.path is None:
                refuse_changed(self._plan, self._options)
            yield wave

    # --- waves that are sent -----------------------------------------------------------------------------------------

    def _send_waves(self, old_fences: list[Fence]) -> None:
        plan, options, hooks, state = self._plan, self._options, self._hooks, self._state
        settle = settle_s(options.send_timeout_ms / 1000)
        book = PermitBook(time.monotonic, settle_s=settle, rate=options.rate, byte_rate=options.byte_rate)
        dead_letters = self._ends_of_dead_letters()
        service = PermitService(book, options.permit_host)
        hooks.on_service(service)
        try:
            for wave in self._waves():
                recovering = state.open_wave == wave
                if not recovering:
                    self._ledger.append(FenceLine(wave, old_fences or self._fences()))
                service.open_wave(wave, recovering=recovering or bool(old_fences))
                reached = ReplayProgress(wave, plan.wave_count, 0, state.delivered().count, self._result.found)
                with _watching(reached, service, hooks.on_progress):
                    report = self._engine.run(plan, plan.wave(wave), self._spec(wave, service))
                granted, found = book.granted_count, self._result.found + report.found
                hooks.on_progress(replace(reached, wave=wave + 1, granted=granted, found=found))
                service.close_wave()
                self._finish(wave, report)
                self._refuse_circle(dead_letters)
        finally:
            service.close()

    def _ends_of_dead_letters(self) -> list[Fence]:
        """Of the group, for a redrive to one. UsageError if the redrive would only add to them."""
        if self._plan.target.kind != "group":
            return []
        with self._target() as cluster:
            refuse_orderly_group(cluster, self._plan.target.name)
            return dead_letter_fences(cluster, self._plan.target.name)

    def _refuse_circle(self, dead_letters: list[Fence]) -> None:
        if not dead_letters:
            return
        with self._target() as cluster:
            count = sum(1 for _ in replay_ids_in(cluster, dead_letters, self._plan.replay_job))
        if count:
            raise FailuresExceeded(
                f"{counted(count, 'message')} came back as dead letters of {self._plan.target.name}: the redrive stops"
                " here",
                hint="find out why the group cannot take them before --resume",
            )

    def _judge_canary(self) -> None:
        """FailuresExceeded if the first wave's consumers do not do well. The decision is noted in the ledger. Resuming
        the job overrules it."""
        begin = self._state.begin
        assert begin is not None
        self._hooks.on_stage("watching how the canary's consumers fare")
        with self._target() as cluster:
            wait_s = self._options.canary_wait_s
            report = watch_canary(self._plan, cluster, self._state.fences[0], begin.at_ms, wait_s)
        may_go_on = self._hooks.on_canary(report)
        self._ledger.append(NoteLine(CANARY_NOTE, {**msgspec.to_builtins(report), "went_on": may_go_on}))
        if not may_go_on:
            raise FailuresExceeded(
                f"the canary's messages were not taken ({report}): the replay stops here",
                hint="find out why; --resume sends the rest anyway",
            )

    def _spec(self, wave: int, service: PermitService) -> WaveSpec:
        plan, options, ranges = self._plan, self._options, self._plan.wave(wave)
        return WaveSpec(
            job=plan.replay_job, wave=wave, wanted=ranges,
            excluded=self._state.excluded().overlap(ranges).to_json(), target=plan.target, transform=plan.transform,
            keep_order=plan.keep_order, name_server=plan.target_name_server, fences=self._state.fences[wave],
            permits=service.address, send_timeout_ms=options.send_timeout_ms, batch_messages=options.batch_messages,
            in_flight=options.in_flight or self._engine.in_flight, protected=options.protected,
        )  # fmt: skip

    # --- waves in files ----------------------------------------------------------------------------------------------

    def _write_waves(self) -> None:
        """A wave's directory is replaced as a whole, so that a broken attempt leaves nothing behind."""
        plan = self._plan
        for wave in self._waves():
            ranges = plan.wave(wave)
            excluded = self._state.excluded().overlap(ranges)
            if self._state.open_wave != wave:
                self._ledger.append(FenceLine(wave, []))
            directory = os.path.join(plan.target.name, f"wave={wave:05d}")
            report = self._engine.write_files(plan, ranges, excluded, directory) if ranges else TaskReport()
            report.excluded = excluded.count
            self._finish(wave, report)
            self._hooks.on_progress(ReplayProgress(wave + 1, plan.wave_count, delivered=self._result.stored))

    # --- the end of a wave, and of the job ---------------------------------------------------------------------------

    def _finish(self, wave: int, report: TaskReport) -> None:
        """Writes failures first, then the done line: after a crash in between some are listed twice, but none is
        lost."""
        ledger, result, options = self._ledger, self._result, self._options
        rejected = ledger.reject([{"wave": wave, **msgspec.to_builtins(each)} for each in report.failures])
        counts = {
            "stored": report.stored, "found": report.found, "excluded": report.excluded, "skipped": report.skipped,
            "rejected": rejected, "doubtful": report.doubtful, "weak": report.weak,
        }  # fmt: skip
        ledger.append(DoneLine(wave, report.delivered, counts, report.marks))
        result.waves += 1
        for name, count in counts.items():
            setattr(result, name, getattr(result, name) + count)
        failures_max = options.failures_max
        if options.failures_share_max is not None:
            failures_max = int(self._plan.shown.get("selected", 0) * options.failures_share_max)
        if failures_max is not None and result.rejected > failures_max:
            raise FailuresExceeded(
                f"{counted(result.rejected, 'message')} rejected, more than the {failures_max} allowed",
                hint=f"see {ledger.failures_path}; --resume goes on",
            )

    def _audit(self, delivered: OffsetSet) -> AuditResult:
        """Audits a job that has ended. An error only means that nothing was counted, and says so."""
        plan = self._plan
        try:
            with self._target() as cluster:
                found = audit(self._state.first_fences(), cluster, plan.replay_job, delivered)
        except BaseException as error:
            error.add_note(
                f"everything was sent, and was not counted at the target; --resume --job {plan.job} counts it"
            )
            raise
        self._ledger.append(NoteLine("audit", msgspec.to_builtins(found)))
        return found


@contextmanager
def _watching(
    reached: ReplayProgress, service: PermitService, on_progress: Callable[[ReplayProgress], None]
) -> Iterator[None]:
    """Reports progress from ``reached`` on while the wave runs, from the permit service's exact counts. Spark's numbers
    only come at the end."""
    finished = threading.Event()

    def report() -> None:
        while not finished.wait(PROGRESS_POLL_S):
            on_progress(replace(reached, granted=service.book.granted_count))

    thread = threading.Thread(target=report, daemon=True, name="progress")
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
