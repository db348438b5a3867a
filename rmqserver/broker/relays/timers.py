"""Timer messages: taken from the timer topic's queue into the wheel, and put into their own queues when their time has
come (``TimerMessageStore``, its services from enqueue to dequeue, 5.5.0)."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from typing import TYPE_CHECKING

import trio

from rmqproto.java.java_hash import java_hash, tag_code
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage
from rmqproto.names import TIMER_TOPIC
from rmqserver.broker.reads import read_in_task
from rmqserver.broker.relays.relay import PORTION_MAX, RETRY_AFTER_S, STOPS, Relay
from rmqserver.broker.relays.timer_messages import NEVER_IN_WHEEL, TimerMessage, decoded, timer_message
from rmqserver.broker.relays.timer_metrics import TimerCheckpoints, TimingCounts, recount
from rmqserver.broker.sending.put import Put
from rmqserver.broker.sending.recall import RECALL_TAG
from rmqserver.store.queues.consume_queue import UNIT
from rmqserver.store.results import MessageRefused, PutStatus
from rmqserver.store.timers.log import Unit
from rmqserver.store.timers.timer_check import FROM_QUEUE, NotedCopy, log_state
from rmqserver.store.timers.wheel import DueSlot

if TYPE_CHECKING:
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.disk.config_files import ConfigFiles
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.timers.timer_store import TimerStore

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""The longest pause while something waits: a clock that is put forward must not make it late."""

GATHER_S = 0.005
"""How long after the first new message all new ones are taken in together: a look after each round of sends would cost
a tenth of the sends. None is due that soon: slots are seconds."""

TAKE_IN_READS = 4
"""Reads of PORTION_MAX messages each, before other tasks have their turn."""

TAKE_IN_ANNOUNCED = 256
"""Announced messages taken in before other tasks have their turn: these need not be read."""

LOOKED_AT_UNITS = 1000
"""Units of the timer topic's queue read at a time to find recalls."""

_RECALL_CODE = tag_code(RECALL_TAG)

_HOPELESS = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)


class Timers:
    """To ``load`` when the store is open, ``run`` as a task, and ``close`` when all of the log is kept."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, timer_store: TimerStore, topics: TopicTable,
        files: ConfigFiles, put: Put,
    ):  # fmt: skip
        self._config = config
        self._store = store
        self._topics = topics
        self._clock_ms = store.clock_ms
        self._timers = timer_store
        self._put = put
        self.counts = TimingCounts(files, store.clock_ms)
        self.checkpoints = TimerCheckpoints(config, store, timer_store, self.counts)
        self._queue = Relay(
            store, TIMER_TOPIC, 0, lambda queue, start: min(queue.max_offset - start, PORTION_MAX), self._take_in
        )
        self._delivered_from_queue: list[NotedCopy] = []
        """The copies delivered from the portion that is being read."""
        self._recalled_ahead: dict[int, set[str]] = {}
        """By slot: the keys of the recalls up to ``_looked_to`` that the wheel does not have, or not yet."""
        self._looked_to = 0
        self._has_news = trio.Event()
        self._must_recount = False
        self._delivered_of_master = 0, 0

    # --- life --------------------------------------------------------------------------------------------------------

    def load(self, *, clean: bool) -> None:
        """Raises StorageError or OSError if the files cannot be used."""
        self.counts.load()
        self._must_recount = not clean
        self._timers.load(log_state(self._store), clean=clean)
        self._queue.next_offset = self._timers.queue_offset
        self._delivered_of_master = self._timers.saved.delivered_of_master

    def arrived(self) -> None:
        """Called when messages have become visible in the timer topic."""
        self._has_news.set()

    async def run(self) -> None:
        """Takes in and delivers until cancelled."""
        while True:
            try:
                is_busy = await self.step()
            except STOPS as error:
                log.warning("event=timers-stopped reason=%r", str(error))
                await trio.sleep(RETRY_AFTER_S)
                continue
            if is_busy:
                await trio.lowlevel.checkpoint()
            else:
                await self._wait()

    async def _wait(self) -> None:
        """Waits until the next slot's time, new messages, or the time of a checkpoint."""
        pauses_s = [self.checkpoints.pause_s]
        if (due_ms := self._timers.next_due_ms) is not None:
            pauses_s.append(min((due_ms - self._clock_ms()) / 1000, LOOK_EVERY_S))
        if not (self._takes_in and self._delivers):
            pauses_s.append(LOOK_EVERY_S)  # that may change at any time
        with trio.move_on_after(max(min(pauses_s), 0)):
            await self._has_news.wait()
            await trio.sleep(GATHER_S)
        self._has_news = trio.Event()

    def close(self) -> bool:
        """Saves at the end, when all of the log is kept; the rest waits for the next broker. Returns False if that one
        may deliver some messages again."""
        self.counts.save()
        return self.checkpoints.close()

    def clean_expired(self) -> None:
        """Removes timer log files whose messages have left the log."""
        try:
            self._timers.delete_expired(self._store.log.min_offset)
        except OSError as error:
            log.warning("event=timer-log-not-cleaned reason=%r", str(error))

    # --- steps -------------------------------------------------------------------------------------------------------

    async def step(self) -> bool:
        """Takes in a portion, delivers a portion of each slot that is due, and saves a checkpoint if it is time.
        Returns False if there was nothing to do. After a crash, it first recounts what waits."""
        is_busy = False
        if self._must_recount:
            self._must_recount = False
            await self._recount()
        if self._takes_in and self._timers.has_places(self._clock_ms()):
            is_busy = self._take_in_announced()
            for _ in range(0 if is_busy else TAKE_IN_READS):
                await self._look_for_recalls()
                self._delivered_from_queue.clear()
                if not await self._queue.step():
                    break
                is_busy = True
        if self._delivers:
            for slot in self._timers.due(self._clock_ms()):
                is_busy = True
                await self._deliver_some(slot)
        await self.checkpoints.save_if_time()
        return is_busy

    async def _recount(self) -> None:
        """Recounts what waits. A failure stops no delivery."""
        units, topics = self._timers.waiting_units(), {*self._topics.all(), *self.counts.by_topic}
        try:
            self.counts.set_counts(await trio.to_thread.run_sync(recount, units, topics, self._real_topic))
        except OSError as error:
            log.warning("event=timers-not-counted reason=%r", str(error))

    def _real_topic(self, unit: Unit) -> str | None:
        """The destination topic of a unit's message. May run in any thread."""
        records = self._store.log.read_ranges([(unit.log_offset, unit.message_size_bytes)])
        message = decoded(records[0]) if records else None
        return None if message is None else message.topic

    @property
    def _takes_in(self) -> bool:
        return self._config.timer_wheel_enable and not self._config.timer_stop_enqueue

    @property
    def _delivers(self) -> bool:
        return self._config.timer_wheel_enable and not self._config.timer_stop_dequeue

    def _take_in_announced(self) -> bool:
        """Takes in messages that were announced when put, up to one that has to be read. Returns False if none was."""
        queue, start, now_ms = self._store.queues.find(TIMER_TOPIC, 0), self._queue.next_offset, self._clock_ms()
        if queue is None or start < queue.min_offset:
            return False
        counts: Counter[str] = Counter()
        for log_offset, size_bytes, _ in UNIT.iter_unpack(queue.units(start, TAKE_IN_ANNOUNCED)):
            announced = self._timers.announced(log_offset)
            if announced is None:
                break
            topic, out_ms = announced
            if not self._timers.enqueue(log_offset, size_bytes, _topic_hash(topic), out_ms, now_ms):
                break
            counts[topic] += 1
        self._queue.next_offset = self._timers.queue_offset = start + counts.total()
        for topic, count in counts.items():
            self.counts.add(topic, count, changes=count)
        return bool(counts)

    async def _look_for_recalls(self) -> None:
        """Finds the recalls behind the messages that are taken in next. A message that is read after its time has no
        slot in which its recall would find it."""
        queue, start = self._store.queues.find(TIMER_TOPIC, 0), self._queue.next_offset
        if start >= self._looked_to:
            self._looked_to = start
            under_delivery = range(self._timers.read_time, self._timers.time_of(self._clock_ms()) + 1)
            self._recalled_ahead = {
                time: keys for time, keys in self._recalled_ahead.items() if time in under_delivery
            }  # the wheel has the others
        while queue is not None and (first := max(self._looked_to, queue.min_offset)) < queue.max_offset:
            await trio.lowlevel.checkpoint()  # others have their turn first, and no read of the device holds them up
            units = await read_in_task(functools.partial(queue.units, first, LOOKED_AT_UNITS))
            if not units:
                break
            self._looked_to = first + len(units) // UNIT.size
            found = [(log_offset, size) for log_offset, size, code in UNIT.iter_unpack(units) if code == _RECALL_CODE]
            for at in range(0, len(found), PORTION_MAX):
                for record in await self._records_at(found[at : at + PORTION_MAX]):
                    if (recall := decoded(record)) is not None and recall.is_recall:
                        key = recall.stored.properties[props.TIMER_DELETE_UNIQUE_KEY]
                        self._recalled_ahead.setdefault(self._timers.time_of(recall.out_ms), set()).add(key)

    def _take_in(self, message: StoredMessage) -> None:
        """Takes in one message of the timer topic."""
        queue_offset, log_offset = message.queue_offset, message.log_offset
        self._timers.announced(log_offset)  # drops the announcement
        if not self._timers.is_known(log_offset):
            found, now_ms = timer_message(message), self._clock_ms()
            is_waiting = self._timers.enqueue(
                log_offset, message.size_bytes, _topic_hash(found.topic), found.out_ms, now_ms,
                is_delete=found.is_recall,
            )  # fmt: skip
            if is_waiting:
                self.counts.add(found.topic, -1 if found.is_recall else 1)
            elif self._was_delivered(queue_offset, found.out_ms) or found.is_recalled(
                self._recalled_ahead.get(self._timers.time_of(found.out_ms), set())
            ):
                pass
            elif not found.is_recall and (put := self._put_copy(found, NEVER_IN_WHEEL, now_ms)) is not None:
                self._delivered_from_queue.append(NotedCopy(put, FROM_QUEUE, queue_offset + 1))
                self._note(self._delivered_from_queue)
        self._timers.queue_offset = queue_offset + 1

    def _was_delivered(self, queue_offset: int, out_ms: int) -> bool:
        """Whether the master whose slave this was has delivered the message."""
        taken_in, read_time_ms = self._delivered_of_master
        return queue_offset < taken_in and out_ms < read_time_ms

    async def _deliver_some(self, slot: DueSlot) -> None:
        await trio.lowlevel.checkpoint()
        if not slot.is_walked:
            slot.walk()
        elif slot.recalled is None:
            slot.recalled = await self._recalled(slot.delete_units)
        elif units := slot.portion(PORTION_MAX):
            self._deliver(slot, units, await self._records(units))

    async def _recalled(self, units: list[Unit]) -> set[str]:
        """The keys that these units recall. A recall was counted as -1 when it came. That ends here: the message that
        it recalls is subtracted when its slot is delivered."""
        keys: set[str] = set()
        for start in range(0, len(units), PORTION_MAX):
            portion = units[start : start + PORTION_MAX]
            for record in await self._records(portion):
                message = decoded(record)
                if message is not None:
                    keys.add(message.stored.properties.get(props.TIMER_DELETE_UNIQUE_KEY, ""))
                    self.counts.add(message.topic, 1)
        return keys

    async def _records(self, units: list[Unit]) -> list[bytes]:
        return await self._records_at([(unit.log_offset, unit.message_size_bytes) for unit in units])

    async def _records_at(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        records = self._store.log.read_ranges(ranges, cached_only=True)
        if records is None:
            records = await trio.to_thread.run_sync(self._store.log.read_ranges, ranges)
        assert records is not None
        return records

    def _deliver(self, slot: DueSlot, units: list[Unit], records: list[bytes]) -> None:
        """Puts the units' copies. The note is written before the log, so that a kill between them delivers nothing
        twice."""
        done, now_ms = units[0].position - 1, self._clock_ms()
        recalled = (slot.recalled or set()) | self._recalled_ahead.get(slot.time, set())
        delivered: list[NotedCopy] = []
        counts: Counter[str] = Counter()
        try:
            for unit, record in zip(units, records, strict=True):
                message = decoded(record)
                if message is not None and not message.is_recalled(recalled):
                    put = self._put_copy(message, unit.write_time_ms, now_ms, is_roll=unit.is_roll)
                    if put is not None:
                        delivered.append(NotedCopy(put, slot.time, unit.position + 1))
                if message is not None and unit.is_delete:
                    self.counts.add(message.topic, 1)
                elif message is not None:
                    counts[message.topic] += 1
                done = unit.position
        finally:
            self._note(delivered)
            self._store.commit()
            slot.passed(done)
            self.counts.delivered(len(delivered))
            for topic, count in counts.items():
                self.counts.add(topic, -count, changes=count)

    def _put_copy(self, message: TimerMessage, enqueue_ms: int, now_ms: int, *, is_roll: bool = False) -> int | None:
        """Puts a copy. Returns its log offset, or None if the log will never take it."""
        target = (TIMER_TOPIC, 0) if is_roll else (message.topic, message.queue_id)
        properties = message.properties_of_copy(enqueue_ms, now_ms, is_roll=is_roll)
        try:
            return self._put.put_on(message.stored, *target, properties).log_offset
        except MessageRefused as error:
            if error.status not in _HOPELESS:
                raise
            log.error("event=timer-message-dropped topic=%s reason=%r", target[0], str(error))
            return None

    def _note(self, delivered: list[NotedCopy]) -> None:
        """Notes deliveries. A failure stops no delivery: only a process that is killed would miss the note."""
        try:
            self._timers.note(delivered)
        except OSError as error:
            log.warning("event=timer-note-not-written reason=%r", str(error))


_topic_hash = functools.lru_cache(maxsize=1024)(java_hash)
