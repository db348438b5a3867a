"""One task of a wave: it turns originals into messages, sends these under the driver's permits, and reports. A dry run
makes and counts the same messages, but sends none."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rmqproto.message import properties as props
from rmqreplay.ledger.letters import Place, Witness
from rmqreplay.run.engine import (
    SAMPLE_BODY_MAX_BYTES,
    Failure,
    TaskReport,
    WaveSpec,
    failure,
    note_witness,
)
from rmqreplay.sending.delivery import (
    Batch,
    BatchOutcome,
    DeliveryReport,
    Limits,
    Outgoing,
    Rejected,
    TaskDelivery,
)
from rmqreplay.sending.permit_service import PermitClient
from rmqreplay.sending.permits import Entered, Granted
from rmqreplay.sending.redrive import Original, Redrive, damaged_at_origin
from rmqreplay.sending.target import ReplayTarget
from rmqreplay.source.live import ClusterAccess
from rmqreplay.source.offset_ranges import OffsetSet, queue_text

UNPROTECTED_TTL_S = 3600.0


class WaveTask:
    """Turns the messages that one task reads into those to send, and keeps the report."""

    def __init__(self, spec: WaveSpec):
        self._spec = spec
        self._wanted = OffsetSet(spec.wanted)
        self._excluded = OffsetSet.from_json(spec.excluded)
        self._redrive = Redrive(spec.job, spec.target, spec.transform)
        self._topics: Counter[str] = Counter()
        self._tags: Counter[str] = Counter()
        self._origins: Counter[str] = Counter()
        self._marks: dict[Place, bytes] = {}
        self.report = TaskReport()

    def takes(self, place: Place) -> bool:
        """Whether the wave sends the message. Call it once per message, because it counts excluded ones."""
        if place not in self._wanted:
            return False
        if place in self._excluded:
            self.report.excluded += 1
            return False
        return True

    def reject_unnamed(self, reason: str) -> None:
        """Rejects what a scan of store files found instead of a record. It may have been one of the wanted messages.
        The reason names its file and bytes."""
        self.report.selected += 1
        self.report.failures.append(Failure("", -1, "", 0, damaged_at_origin(reason)))

    def messages(self, originals: Iterable[Original]) -> Iterator[Outgoing]:
        """The messages to send. Rejected ones go into the report."""
        report = self.report
        for original in originals:
            report.selected += 1
            made = self._redrive.outgoing(original)
            if isinstance(made, Rejected):
                report.failures.append(failure(made))
                continue
            self._tally(original, made)
            if self._spec.permits is None:
                note_witness(report.witnesses, queue_text(made.queue), Witness(made.queue_offset, made.mark))
            else:
                self._marks[made.place] = made.mark
            yield made

    def take(self, delivered: DeliveryReport) -> None:
        """Notes what became of the messages that were sent."""
        self.report.take(delivered, self._marks)

    def finished(self) -> TaskReport:
        report = self.report
        report.topics, report.tags, report.origins = dict(self._topics), dict(self._tags), dict(self._origins)
        return report

    def _tally(self, original: Original, made: Outgoing) -> None:
        report = self.report
        report.size_bytes += made.size_bytes
        self._topics[made.topic] += 1
        self._origins[original.origin_topic] += 1
        self._tags[original.properties.get(props.TAGS, "")] += 1
        stored_ms = original.store_timestamp_ms
        report.oldest_ms = stored_ms if report.oldest_ms is None else min(report.oldest_ms, stored_ms)
        report.newest_ms = stored_ms if report.newest_ms is None else max(report.newest_ms, stored_ms)
        if len(report.samples) < self._spec.sample:
            report.samples.append(sample(original, made))


def deliver(
    spec: WaveSpec,
    messages: Iterable[Outgoing],
    access: ClusterAccess,
    *,
    partition: int,
    attempt: int,
) -> DeliveryReport:
    """Sends the messages as task ``partition`` of the wave. ``attempt`` is higher than that of any earlier attempt of
    this task under the same driver. DeliveryError or ConnectError if it cannot continue."""
    assert spec.permits is not None
    permits = PermitClient(spec.permits, spec.wave, partition, attempt)
    target = ReplayTarget(
        spec.name_server, spec.fences, spec.job, access, keep_order=spec.keep_order,
        send_timeout_s=spec.send_timeout_ms / 1000,
    )  # fmt: skip
    limits = Limits(spec.batch_messages, 1 if spec.keep_order else spec.in_flight)
    try:
        if not spec.protected:
            plain = _Unprotected(target)
            return TaskDelivery(plain, plain, time.monotonic, time.sleep, limits).run(messages)
        return TaskDelivery(target, permits, time.monotonic, time.sleep, limits).run(messages)
    finally:
        target.close()
        permits.close()


class _Unprotected:
    """The target and permits of a sender that only relies on acknowledgements."""

    def __init__(self, target: ReplayTarget):
        self._target = target

    def enter(self) -> Entered:
        return Entered(must_look=False)

    def ask(self, count: int, size_bytes: int) -> Granted:
        return Granted(count, UNPROTECTED_TTL_S)

    def extend(self) -> Granted:
        return Granted(0, UNPROTECTED_TTL_S)

    def put(self, batch: Batch, not_after: float, extend: Callable[[], float]) -> bool:
        return self._target.put(batch, not_after, extend)

    def outcomes(self) -> list[BatchOutcome]:
        return self._target.outcomes()

    def settle(self) -> None:
        return None

    def look(self) -> set[str]:
        return set()


def sample(original: Original, made: Outgoing) -> dict[str, Any]:
    """A message before and after the changes, for showing to people."""
    queue = original.queue
    return {
        "from": f"{queue.topic}/{queue.broker_name}/{queue.queue_id}@{original.queue_offset}",
        "to": made.topic,
        "properties_before": dict(original.properties),
        "properties_after": props.parse(made.properties),
        "body": made.body[:SAMPLE_BODY_MAX_BYTES].decode("utf-8", "replace"),
        "body_size_bytes": len(made.body),
    }
