"""The results of a load: one row per interval, and the total."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec

from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.core.load.load_plan import Histogram
from rmqadmin.core.load.load_run import Interval, LoadRun
from rmqadmin.core.results import R, ResultOf, Row, doc
from rmqproto.wording import counted

_PERCENTS = (50.0, 90.0, 99.0, 99.9, 100.0)
_BYTES_IN_MB = 1_000_000

_P90 = Annotated[float | None, doc("the same of 90 percent")]
_P99 = Annotated[float | None, doc("the same of 99 percent")]
_P999 = Annotated[float | None, doc("the same of 99.9 percent")]
_Max = Annotated[float | None, doc("the longest time")]
_ErrorCount = Annotated[int, doc("requests that failed, or were answered with less than SEND_OK")]
_Said = Annotated[dict[str, int] | None, doc("errors of these requests, and how often each came")]
_Ended = Annotated[str, doc("why it ended")]


class LoadRow(Row, frozen=True):
    elapsed_s: Annotated[float, doc("when the interval ended, in seconds since the end of the warm-up", key=True)]
    seconds: Annotated[float, doc("length of the interval", wide=True)]
    messages: Annotated[int, doc("messages that were stored, or read")]
    message_tps: Annotated[float, doc("messages a second", vital=True)]
    mb_tps: Annotated[float, doc("megabytes a second, of bodies sent or of records read", minor=True)]
    p50_ms: Annotated[float | None, doc("time within which half of the requests were answered", vital=True)]
    p90_ms: Annotated[float | None, doc("the same of 90 percent", minor=True)]
    p99_ms: Annotated[float | None, doc("the same of 99 percent", vital=True)]
    p999_ms: _P999
    max_ms: _Max
    error_count: _ErrorCount


class LoadTotals(Row, frozen=True):
    topic: Annotated[str, doc("topic")]
    brokers: Annotated[list[str], doc("brokers")]
    queues: Annotated[int, doc("queues")]
    connections: Annotated[int, doc("connections")]
    processes: Annotated[int, doc("processes that made the load")]
    in_flight: Annotated[int, doc("requests on their way at once on each connection")]
    batch_size: Annotated[int, doc("messages a request, or at most for a pull")]
    size_bytes: Annotated[int | None, doc("size of each body that was sent")]
    seconds: Annotated[float, doc("length of the run, without the warm-up")]
    messages: Annotated[int, doc("messages that were stored, or read")]
    warm_up_messages: Annotated[int, doc("messages of the warm-up, which are not counted elsewhere")]
    message_tps: Annotated[float, doc("messages a second")]
    mb_tps: Annotated[float, doc("megabytes a second, of bodies sent or of records read")]
    p50_ms: Annotated[float | None, doc("time within which half of the requests were answered")]
    p90_ms: _P90
    p99_ms: _P99
    p999_ms: _P999
    max_ms: _Max
    error_count: _ErrorCount
    said: _Said
    ended: _Ended


class _Figures(ResultOf[R], frozen=True):
    """An interval after the other, as they come."""

    run: LoadRun

    def row(self, each: Interval) -> R:
        raise NotImplementedError

    def is_live(self) -> bool:
        return True

    def rows(self) -> Sequence[R]:
        return [row for batch in self.batches() for row in batch]

    def batches(self) -> Iterator[Sequence[R]]:
        return ([self.row(each)] for each in self.run.intervals())

    def remark(self) -> str | None:
        """The most frequent errors, because the tables have no column for them, and what an early end leaves open."""
        run = self.run
        found = sorted(run.total.errors.items(), key=lambda item: -item[1])
        said = [f"{count:,} x {what}" for what, count in found[:3]]
        if run.is_stopped and not run.total.seconds:
            said.append("stopped before anything was measured")
        if run.unanswered:
            said.append(f"not answered yet, and so stored or not: {counted(run.unanswered, 'message')}")
        return "; ".join(said) or None

    def problem(self) -> str | None:
        run = self.run
        is_idle = run.total.errors and not run.total.messages and not run.is_stopped
        return "not one message went through" if is_idle else None

    def exit_status(self) -> int | None:
        return ExitCode.INTERRUPTED if self.run.is_stopped else None


class LoadFigures(_Figures[LoadRow], frozen=True):
    """An interval after the other, as they come."""

    def row(self, each: Interval) -> LoadRow:
        return LoadRow(
            elapsed_s=round(each.begin_s + each.seconds, 3), seconds=round(each.seconds, 3), messages=each.messages,
            message_tps=_rate(each.messages, each.seconds), mb_tps=_mb_rate(each),
            **percentiles(each.answers), error_count=each.error_count,
        )  # fmt: skip

    def summary(self) -> LoadTotals | None:
        total, setting = self.run.total, self.run.setting
        if setting is None:
            return None
        return LoadTotals(
            **msgspec.structs.asdict(setting),
            seconds=round(total.seconds, 3), messages=total.messages, warm_up_messages=self.run.warm_up_messages,
            message_tps=_rate(total.messages, total.seconds), mb_tps=_mb_rate(total),
            **percentiles(total.answers), error_count=total.error_count, said=total.errors or None,
            ended=ended(self.run),
        )  # fmt: skip

    def remark(self) -> str | None:
        """And why a load that only reads has no figures."""
        run = self.run
        is_reading = run.setting is not None and run.setting.size_bytes is None
        read_too_soon = is_reading and not run.is_stopped and not run.total.messages and run.warm_up_messages
        why = "all messages were read in the warm-up: --repeat begins again with the first, --warm-up 0 counts them"
        return super().remark() or (why if read_too_soon else None)


def percentiles(lengths: Histogram) -> dict[str, Any]:
    names = ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")
    return dict(zip(names, lengths.percentiles_ms(_PERCENTS), strict=True))


def _mb_rate(each: Interval) -> float:
    return _rate(each.size_bytes / _BYTES_IN_MB, each.seconds)


def _rate(count: float, seconds: float) -> float:
    return round(count / seconds, 3) if seconds else 0.0


def ended(run: LoadRun) -> str:
    return "Ctrl-C" if run.is_stopped else "its time was over"


class DeliveryRow(Row, frozen=True):
    elapsed_s: Annotated[float, doc("when the interval ended, in seconds since the end of the warm-up", key=True)]
    sent: Annotated[int, doc("messages that were stored")]
    received: Annotated[int, doc("messages that were received")]
    p50_ms: Annotated[float | None, doc("time from sending to receiving, of half of the messages at most", vital=True)]
    p90_ms: Annotated[float | None, doc("the same of 90 percent", minor=True)]
    p99_ms: Annotated[float | None, doc("the same of 99 percent", vital=True)]
    p999_ms: _P999
    max_ms: _Max
    error_count: _ErrorCount


class DeliveryTotals(Row, frozen=True):
    topic: Annotated[str, doc("topic")]
    brokers: Annotated[list[str], doc("brokers")]
    queues: Annotated[int, doc("queues")]
    size_bytes: Annotated[int | None, doc("size of each body")]
    seconds: Annotated[float, doc("length of the run, without the warm-up")]
    sent: Annotated[int, doc("messages that were stored")]
    received: Annotated[int, doc("messages that were received, without those of the warm-up")]
    p50_ms: Annotated[float | None, doc("time from sending to receiving, of half of the messages at most")]
    p90_ms: _P90
    p99_ms: _P99
    p999_ms: _P999
    max_ms: _Max
    error_count: _ErrorCount
    said: _Said
    ended: _Ended


class DeliveryFigures(_Figures[DeliveryRow], frozen=True):
    """An interval after the other, as they come."""

    def row(self, each: Interval) -> DeliveryRow:
        return DeliveryRow(
            elapsed_s=round(each.begin_s + each.seconds, 3), sent=each.messages, received=each.received,
            **percentiles(each.deliveries), error_count=each.error_count,
        )  # fmt: skip

    def summary(self) -> DeliveryTotals | None:
        total, setting = self.run.total, self.run.setting
        if setting is None:
            return None
        return DeliveryTotals(
            topic=setting.topic, brokers=setting.brokers, queues=setting.queues,
            size_bytes=setting.size_bytes, seconds=round(total.seconds, 3), sent=total.messages,
            received=total.received, **percentiles(total.deliveries), error_count=total.error_count,
            said=total.errors or None, ended=ended(self.run),
        )  # fmt: skip
