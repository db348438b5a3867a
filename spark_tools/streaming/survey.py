"""Which queues a stream reads, and where they begin and end now. A broker that is away holds the stream, up to
``readTimeoutMs``: what it has must not be taken for lost, nor be left out without a word. With failOnDataLoss=false the
stream then goes on without it, and takes it up again where it left off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ConnectError, NotFoundError, RefusedError, RocketMQError
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange, queue_text
from rmqreplay.source.pulling import PullRules, check_allowed, is_gone, is_passing, is_silence, persist
from rmqreplay.source.queue_ranges import DataLossError, did_you_mean, starting_places, wanted_topics
from spark_tools.source_options import ReadOptions
from spark_tools.spark_worker import tell
from spark_tools.streaming.offsets import Marks, Places, is_younger

UNITS_MAX = 512
"""Units of a consume queue to ask for at once."""


@dataclass(slots=True)
class Seen:
    """The queues that answered, each with its first offset and its end; and those that are gone."""

    bounds: dict[MessageQueue, tuple[int, int]] = field(default_factory=dict)
    gone: list[MessageQueue] = field(default_factory=list)


class _AwayError(ConnectError):
    """These brokers do not tell now what they have."""

    def __init__(self, errors: dict[str, RocketMQError]):
        texts = "; ".join(f"{name}: {error}" for name, error in sorted(errors.items()))
        super().__init__(f"not all brokers answer ({texts})")
        self.broker_names = set(errors)


class QueueSurvey:
    """Over an open cluster. A cluster that never answered is not waited for: its address may be wrong."""

    def __init__(self, cluster: LiveCluster, options: ReadOptions):
        self._cluster = cluster
        self._options = options
        self._timeout_s = options.read_timeout_ms / 1000
        self._rules = PullRules(batch_size=1, group=options.reader_group)
        self._given_up: set[str] = set()
        """Brokers that were away too long. They are not waited for until they have answered again."""
        self._has_answered = self._is_checked = self._is_allowed = False

    def starting(self) -> dict[MessageQueue, int]:
        """Errors as of ``starting_places``."""
        self._reach()
        ask = partial(starting_places, self._options, self._cluster)
        places = persist(ask, self._cluster.forget_routes, self._timeout_s, passes=is_silence)
        self._check_sql92(places)
        return places

    def look(self, known: Places | None, marks: Marks | None = None) -> Seen:
        """``known`` are the queues that the stream has read, with their next offsets; None if that is not known yet.
        ``marks`` tell of those that were made anew, which may end before them; others that do are waited for.
        DataLossError if brokers do not answer in time; with failOnDataLoss=false their queues are left out.
        RefusedError, at the first look, if they may not be read.
        NotFoundError, at the first look that knows it, for a topic that the options name, and that neither the stream
        nor the cluster knows."""
        self._reach()
        self._refuse_unknown(known)
        try:
            seen = persist(lambda: self._look(known or {}, marks or {}), lambda: None, self._timeout_s)
        except _AwayError as error:
            text = f"{error}, for {self._options.read_timeout_ms} ms"
            if self._options.fail_on_data_loss:
                raise DataLossError(
                    text, hint="failOnDataLoss=false goes on without them, and takes them up again when they are back"
                ) from None
            tell(text + ": the stream goes on without them")
            self._given_up |= error.broker_names
            return self.look(known, marks)
        if not self._is_allowed:
            check_allowed(self._cluster, {queue: first for queue, (first, last) in seen.bounds.items()}, self._rules)
            self._is_allowed = bool(seen.bounds)
        return seen

    def _reach(self) -> None:
        if not self._has_answered:
            self._cluster.topics()
            self._has_answered = True

    def _refuse_unknown(self, known: Places | None) -> None:
        if known is None or self._is_checked:  # the broker that has a topic may be away
            return
        topics = persist(self._cluster.topics, lambda: None, self._timeout_s)
        there = {*topics, *(queue.topic for queue in known)}
        unknown = [topic for topic in self._options.topics or () if topic not in there]
        if unknown and self._options.fail_on_data_loss:
            raise NotFoundError(f"there is no topic {unknown[0]}", hint=did_you_mean(unknown[0], there))
        self._is_checked = True

    def _look(self, known: Places, marks: Marks) -> Seen:
        found, away = Seen(), dict[str, RocketMQError]()
        topics = self._topics()
        for topic in {*topics, *(queue.topic for queue in known)}:
            self._cluster.renew_route(topic)
        wanted = set(self._queues(topics, away))
        for queue in sorted({*wanted, *known}):
            if queue.broker_name in away:
                continue
            at = known.get(queue, 0)
            try:
                if queue not in wanted and self._is_gone(queue, at):
                    found.gone.append(queue)
                    continue
                first, last = self._cluster.bounds(queue)
                if last < at and self._is_gone(queue, at):  # a name server may still name what was deleted
                    found.gone.append(queue)
                    continue
                is_short = last < at and not (first < last and self._is_anew(queue, first, marks))
                if is_short and queue.broker_name not in self._given_up:
                    # A replica that has yet to catch up, or a store that lost its end.
                    raise ConnectError(f"{queue_text(queue)} ends at {last}, and {at} was read")
            except RocketMQError as error:
                if not is_passing(error):
                    raise
                away[queue.broker_name] = error
            else:
                found.bounds[queue] = first, last
        while self._cluster.not_searched:
            tell(self._cluster.not_searched.pop())
        if away.keys() - self._given_up:
            raise _AwayError(away)
        self._given_up &= away.keys()
        return found

    def _is_gone(self, queue: MessageQueue, at: int) -> bool:
        return is_gone(self._cluster, queue, at, self._rules)

    def made_anew(self, queues: Sequence[MessageQueue], marks: Marks) -> list[MessageQueue]:
        """Those of the queues whose first message is younger than the marked one. What a broker that is away has now,
        nobody knows."""
        found, away = [], set[str]()
        for queue in queues:
            if queue.broker_name in away:
                continue
            try:
                first, last = self._cluster.bounds(queue)
                if first < last and self._is_anew(queue, first, marks):
                    found.append(queue)
            except RocketMQError as error:
                if not is_passing(error):
                    raise
                if is_silence(error):  # to ask for each of its queues would hold the stream
                    away.add(queue.broker_name)
        return found

    def _is_anew(self, queue: MessageQueue, first: int, marks: Marks) -> bool:
        stored_ms = self.first_stored_ms(queue)
        return stored_ms is not None and is_younger(marks.get(queue), first, stored_ms)

    def is_wanted(self, queue: MessageQueue) -> bool:
        """Whether the options name it, or its topic."""
        assigned = self._options.assigned
        if assigned is not None:
            return queue.queue_id in assigned.get(queue.topic, {}).get(queue.broker_name, ())
        return queue.topic in wanted_topics(self._options, [queue.topic])

    def _topics(self) -> Sequence[str]:
        if self._options.assigned is not None:
            return list(self._options.assigned)
        return wanted_topics(self._options, () if self._options.topics is not None else self._cluster.topics())

    def _queues(self, topics: Sequence[str], away: dict[str, RocketMQError]) -> Iterator[MessageQueue]:
        for topic in topics:
            for broker_name in self._cluster.route(topic):
                if broker_name in away:
                    continue
                try:
                    yield from filter(self.is_wanted, self._cluster.broker_queues(topic, broker_name))
                except RocketMQError as error:
                    if not is_passing(error):
                        raise
                    away[broker_name] = error

    def sizes(self, queue: MessageQueue, start: int, count: int) -> list[int]:
        """Stored bytes of the messages from ``start`` on, by the units of the consume queue: as many as one answer has,
        none if the broker does not answer now."""
        try:
            address = self._cluster.reading_address(queue)
            answer = self._cluster.admin.query_consume_queue(
                address, queue.topic, queue.queue_id, start, min(count, UNITS_MAX)
            )
        except RocketMQError as error:
            if not is_passing(error):
                raise
            return []
        return [] if answer is None else [unit.physic_size for unit in answer.queue_data]

    def first_stored_ms(self, queue: MessageQueue) -> int | None:
        """When the queue's first message was stored; None if its broker does not tell."""
        try:
            address = self._cluster.reading_address(queue)
            return self._cluster.admin.earliest_store_time(address, queue.topic, queue.queue_id)
        except RocketMQError as error:
            if not is_passing(error) and not isinstance(error, RefusedError):
                raise
            return None

    def _check_sql92(self, queues: Places) -> None:
        if self._options.sql92 is not None:
            ranges = [OffsetRange(queue, 0, 0) for queue in queues]
            self._cluster.check_sql92(ranges, self._options.sql92)
