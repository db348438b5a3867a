"""A load as the command sees it: the processes that make it, and their reports, merged interval by interval."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import msgspec

from rmqadmin.core.load.load_plan import Histogram, IntervalReport, LoadPlan, ReadyReport, Report
from rmqproto.errors import ConnectError, RocketMQError


def new_run_id() -> str:
    """A unique id of 22 hex digits."""
    return secrets.token_hex(11).upper()


class Interval(msgspec.Struct):
    """What all processes did in one interval; ``begin_s`` counts from the end of the warm-up."""

    begin_s: float
    seconds: float
    messages: int
    size_bytes: int
    received: int
    errors: dict[str, int]
    answers: Histogram
    deliveries: Histogram

    def merge(self, other: Interval) -> None:
        self.messages += other.messages
        self.size_bytes += other.size_bytes
        self.received += other.received
        for what, count in other.errors.items():
            self.errors[what] = self.errors.get(what, 0) + count
        self.answers.merge(other.answers)
        self.deliveries.merge(other.deliveries)

    @property
    def error_count(self) -> int:
        return sum(self.errors.values())


class LoadSetting(msgspec.Struct, frozen=True):
    """The settings of a load, as shown in its answer. ``size_bytes`` is the size of bodies; None if none are sent."""

    topic: str
    brokers: list[str]
    queues: int
    connections: int
    processes: int
    in_flight: int
    batch_size: int
    size_bytes: int | None


class BegunLoad(msgspec.Struct, frozen=True):
    """What each process is to do."""

    setting: LoadSetting
    plans: list[LoadPlan]


class LoadRun:
    """One load. ``intervals`` starts it and yields its intervals until it is over or Ctrl-C; ``total`` sums up those
    yielded. ``is_stopped``: the user ended it early. ``warm_up_messages`` are in no interval. ``begin`` makes what the
    load needs, and ``end`` undoes it, however the load ends."""

    def __init__(self, begin: Callable[[], BegunLoad], end: Callable[[], None]):
        self._begin = begin
        self._undo = end
        self._plans: list[LoadPlan] = []
        self.setting: LoadSetting | None = None
        """Set once the load has begun."""
        self.total = Interval(0.0, 0.0, 0, 0, 0, {}, Histogram(), Histogram())
        self.is_stopped = False
        self.warm_up_messages = 0
        self.unanswered = 0
        """Messages that were under way when it was stopped: whether they are stored is not known."""
        self._is_under_way = False
        self._is_interrupted = False
        self._processes: list[subprocess.Popen[bytes]] = []

    def intervals(self) -> Iterator[Interval]:
        """Runs the load. ConnectError; KeyboardInterrupt for Ctrl-C before it is under way, or for the second one."""
        with self._interruptible():
            try:
                begun = self._begin()
                self.setting, self._plans = begun.setting, begun.plans
                self._start()
                yield from self._merged()
            except BaseException:
                for process in self._processes:
                    process.kill()
                raise
            finally:
                self._end()
                self._undo()

    def _start(self) -> None:
        # Each process gets its own session: Ctrl-C reaches only this process, which then asks the others to end.
        command = [sys.executable, "-m", "rmqadmin.core.load.worker"]
        for plan in self._plans:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            self._processes.append(process)
            self._tell(process, msgspec.json.encode(plan) + b"\n")
        for process in self._processes:
            ready = self._report(process)
            if not isinstance(ready, ReadyReport):
                raise RocketMQError("a load process ended before the load began")
            if ready.problem is not None:
                addrs = sorted({f"{lane.host}:{lane.port}" for plan in self._plans for lane in plan.lanes})
                raise ConnectError(f"cannot connect to {', '.join(addrs)}: {ready.problem}")
        if self._is_interrupted:  # what the handler raised was lost, as in a finalizer
            raise KeyboardInterrupt
        self._is_under_way = True
        for process in self._processes:
            self._tell(process, b"go\n")

    def _merged(self) -> Iterator[Interval]:
        """Merges the n-th intervals of all processes into one, because they began together."""
        left = list(self._processes)
        while left:
            merged: Interval | None = None
            is_warm_up = False
            for process in list(left):
                report = self._report(process)
                if not isinstance(report, IntervalReport):
                    left.remove(process)
                    self.total.errors["a process of the load has ended early"] = 1
                    continue
                if report.is_last:
                    left.remove(process)
                is_warm_up = report.is_warm_up
                self.unanswered += report.unanswered
                one = Interval(
                    self.total.seconds, report.seconds, report.messages, report.size_bytes, report.received,
                    report.errors, Histogram(report.answers_us), Histogram(report.deliveries_us),
                )  # fmt: skip
                if merged is None:
                    merged = one
                else:
                    merged.merge(one)
                    merged.seconds = max(merged.seconds, one.seconds)
            if merged is None:
                return
            if is_warm_up:
                self.warm_up_messages += merged.messages
                continue
            self.total.merge(merged)
            self.total.seconds += merged.seconds
            if merged.seconds:
                yield merged

    def _report(self, process: subprocess.Popen[bytes]) -> Report | None:
        """The next report; None at the end."""
        assert process.stdout is not None
        line = process.stdout.readline()
        return msgspec.json.decode(line, type=Report) if line else None

    def _tell(self, process: subprocess.Popen[bytes], line: bytes) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and its output says so
            process.stdin.write(line)
            process.stdin.flush()

    def _stop(self) -> None:
        for process in self._processes:
            if process.stdin is not None:
                with suppress(BrokenPipeError):
                    process.stdin.close()

    def _end(self) -> None:
        self._stop()
        for process in self._processes:
            assert process.stdout is not None
            try:
                process.stdout.read()  # reads to the end; the process does not wait long for anything
            finally:
                process.kill()
                process.wait()
                process.stdout.close()

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Makes the first Ctrl-C end the load, so that the results so far are shown."""

        def stop(number: int, frame: FrameType | None) -> None:
            self._is_interrupted = self.is_stopped or not self._is_under_way
            if self._is_interrupted:
                raise KeyboardInterrupt
            self.is_stopped = True
            self._stop()

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
