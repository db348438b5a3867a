"""What a stream reads next: the offset at which each batch ends. Without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqreplay.source.offset_ranges import OffsetRange, queue_text
from rmqreplay.source.queue_ranges import DataLossError
from spark_tools.spark_worker import tell
from spark_tools.streaming.limits import TriggerLimits, batch_ends
from spark_tools.streaming.offsets import StreamOffset, is_younger, ranges_between
from spark_tools.streaming.survey import QueueSurvey


class MadeAnewError(DataLossError):
    """A queue that was read is gone, and another has its name."""


class StreamPlanner:
    """Of one query, from its start on."""

    def __init__(
        self,
        survey: QueueSurvey,
        limits: TriggerLimits,
        fail_on_data_loss: bool,
        now_s: Callable[[], float] = time.monotonic,
    ):
        self._survey = survey
        self._limits = limits
        self._fail_on_data_loss = fail_on_data_loss
        self._now_s = now_s
        self._batch_at_s = now_s()
        self._target: dict[MessageQueue, int] | None = None
        """Trigger.AvailableNow: where the queues ended when the query began."""
        self._planned: StreamOffset | None = None
        """The end of the newest batch, which is read at once."""
        self.latest: dict[MessageQueue, int] = {}
        """Where the queues ended at the last look."""

    def initial(self) -> StreamOffset:
        return StreamOffset(self._survey.starting(), is_initial=True)

    def stop_at_present(self) -> None:
        """For Trigger.AvailableNow: nothing is read that is stored from now on."""
        self._target = {queue: last for queue, (_, last) in self._survey.look(None).bounds.items()}

    def next(self, start: StreamOffset, *, limited: bool) -> StreamOffset:
        """Where the next batch ends; ``start`` itself if there is to be none now.

        DataLossError if something is gone that was to be read; with failOnDataLoss=false it is told and passed over.
        """
        known = {queue: at for queue, at in start.queues.items() if self._keep(queue)}
        seen = self._survey.look(known, start.first)
        for queue in seen.gone:
            self._lost(f"{queue_text(queue)} is gone, which was read to {known.pop(queue)}")
        before, self.latest = self.latest, {queue: last for queue, (_, last) in seen.bounds.items()}
        places, begun, marks = {}, dict(start.queues) if start.is_initial else {}, dict(start.first)
        for queue, (first, last) in seen.bounds.items():
            if self._target is not None and queue not in known and queue not in self._target:
                continue  # it came in after the query began
            at = known.get(queue)
            stored_ms = self._survey.first_stored_ms(queue) if last > first and before.get(queue) != last else None
            if stored_ms is not None:
                if at is not None and is_younger(marks.get(queue), first, stored_ms):
                    self._lost(f"{queue_text(queue)} was made anew after it was read to {at}", MadeAnewError)
                    at = None
                marks[queue] = first, stored_ms
            if at is None:
                begun[queue] = at = first
            elif at < first:
                self._lost(f"{queue_text(queue)}: offset {at} is gone, the queue now holds {first} to {last}")
            elif at > last:
                self._lost(f"{queue_text(queue)} was read to {at} and now ends at {last}: the stream goes on there")
            begin = min(max(at, first), last)
            end = last if self._target is None else min(last, self._target.setdefault(queue, last))
            places[queue] = begin, max(begin, end)
        ends = batch_ends(places, self._limits, self._survey.sizes) if limited else _all(places)
        if limited and self._waits(sum(places[queue][1] - places[queue][0] for queue in places)):
            ends = {queue: begin for queue, (begin, _) in places.items()}
        # A queue that came in stays unknown until a message of it is read: its first offset may still move.
        known |= {queue: end for queue, end in ends.items() if queue in known or end > begun[queue]}
        if known == start.queues and not start.is_initial:
            return start
        self._batch_at_s = self._now_s()
        self._planned = StreamOffset(
            known, {queue: begun[queue] for queue in known if queue in begun},
            first={queue: mark for queue, mark in marks.items() if queue in known},
        )  # fmt: skip
        return self._planned

    def ranges(self, start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
        """What the batch between the offsets reads. Another driver may have planned it, before a queue was made anew,
        which has other messages there: DataLossError; with failOnDataLoss=false they are left to the batches to
        come."""
        found = ranges_between(start, end)
        anew = self._survey.made_anew([each.queue for each in found], end.first) if end != self._planned else ()
        for queue in anew:
            self._lost(
                f"{queue_text(queue)} was made anew after its messages up to {end.queues[queue]} were planned",
                MadeAnewError,
            )
        return [each for each in found if each.queue not in anew]

    def _waits(self, waiting_count: int) -> bool:
        """Whether too few messages wait. At the end of Trigger.AvailableNow too few may be all."""
        passed_ms = (self._now_s() - self._batch_at_s) * 1000
        return self._target is None and waiting_count < self._limits.offsets_min and passed_ms < self._limits.delay_ms

    def _keep(self, queue: MessageQueue) -> bool:
        """Whether the options still name a queue of the checkpoint."""
        if self._survey.is_wanted(queue):
            return True
        text = f"the checkpoint has {queue_text(queue)}, which the options of the stream do not name"
        if self._fail_on_data_loss:
            raise UsageError(
                text, hint="name it, or take another checkpointLocation; failOnDataLoss=false leaves it out"
            )
        tell(f"{text}: it is left out")
        return False

    def _lost(self, text: str, kind: type[DataLossError] = DataLossError) -> None:
        if self._fail_on_data_loss:
            raise kind(text, hint="failOnDataLoss=false goes on with what is left")
        tell(text)


def _all(places: dict[MessageQueue, tuple[int, int]]) -> dict[MessageQueue, int]:
    return {queue: end for queue, (_, end) in places.items()}
