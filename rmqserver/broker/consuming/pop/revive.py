"""Revives messages that were popped and not acknowledged in time: they come again through the POP retry topic of their
group, and after too many times become dead letters (``PopReviveService``, 5.5.0).

Each queue of the revive log is read from the offset of the group ``CID_RMQ_SYS_REVIVE_GROUP``. That offset moves on
once the log holds, on the device, everything that was put for it; so after a crash a message may come twice, and none
is lost. It does not pass an open check point. When a later check point's messages have come again, they are
acknowledged in the log. Apache's broker leaves dead letters to its proxy; here the broker makes them, since it knows
the group's retryMaxTimes.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from rmqproto.bodies.popping import AckMessage, CheckPoint
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.message.special_messages import queue_offset_in_untrusted
from rmqproto.names import REVIVE_GROUP
from rmqproto.pop import normal_topic, pop_retry_topic
from rmqserver.broker.consuming.pop.revive_log import Open, ReviveLog, ReviveQueue, entry_untrusted
from rmqserver.broker.errors import TableFull
from rmqserver.broker.relays.relay import STOPS
from rmqserver.broker.sending.put import Put
from rmqserver.broker.sending.rewrites import to_dead_letters
from rmqserver.store.append.confirmation import OFFSET_MAX
from rmqserver.store.new_message import NewMessage, copy_for
from rmqserver.store.results import GetStatus, MessageRefused, PutStatus

if TYPE_CHECKING:
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
PORTION_MAX = 32
"""Entries of one read of the revive log."""
RETRY_QUEUE_NUMS = 1
"""Queues of a POP retry topic."""


LATE_MAX_MS = 10_000
"""A broker that runs revives no later than this."""

AGAIN_AFTER_MS = 60_000
"""How long until a message that cannot come again now is tried again, while others can."""


class _Unfit(Exception):
    """One message cannot come again now."""


class Reviver:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, groups: GroupTable,
        offsets: ConsumerOffsets, put: Put, revive_log: ReviveLog,
    ):  # fmt: skip
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clock_ms = store.clock_ms
        self._put = put
        self._log = revive_log
        self._in_flight = revive_log.in_flight
        self._revived_ms: dict[int, int] = {}
        """By queue id, for queues that are read from their start: check points due before that time have come again."""
        self._queues: dict[int, ReviveQueue] = {}
        self._waiting: dict[int, tuple[int, int]] = {}
        """By queue id: a log offset, and the revive offset that may be committed once the log is kept up to there."""

    @property
    def open_count(self) -> int:
        """The number of open check points in the part of the log that is read."""
        return sum(queue.open_count for queue in self._queues.values())

    async def run(self) -> None:
        """Revives until cancelled."""
        while True:
            for queue_id in range(self._log.queue_nums):
                try:
                    await self.step(queue_id)
                except STOPS as error:
                    log.warning("event=revive-stopped queue=%d reason=%r", queue_id, str(error))
            await trio.sleep(LOOK_EVERY_S)

    async def step(self, queue_id: int) -> None:
        """Reads a queue of the log to its end, revives what is due, and commits the progress. Raises the store's
        refusals; messages that were not put are tried again."""
        queue = self._queues[queue_id] if queue_id in self._queues else self._start(queue_id)
        try:
            while await self._read(queue_id, queue):
                await trio.lowlevel.checkpoint()
            now_ms = self._clock_ms()
            while (due := queue.next_due(now_ms)) is not None:
                try:
                    await self._revive(due, self._log_offset(queue_id, due))
                    if due.waiting:
                        queue.postpone(due, now_ms + AGAIN_AFTER_MS)
                    elif queue.is_open(due):
                        self._settle(queue_id, due)
                except BaseException:
                    queue.put_back(due)
                    raise
                await trio.lowlevel.checkpoint()
            queue.forget_early(now_ms)
        finally:
            self._store.commit()
            self._commit_kept(queue_id, queue)

    def _start(self, queue_id: int) -> ReviveQueue:
        """Starts a queue. As in Apache's broker, the group's committed offset is the last one that is done."""
        committed = self._offsets.committed(REVIVE_GROUP, self._log.topic, queue_id)
        low = self._store.min_offset(self._log.topic, queue_id)
        high = self._store.max_offset(self._log.topic, queue_id)
        next_offset = min(max((committed if committed is not None else -1) + 1, low), high)
        queue = self._queues[queue_id] = ReviveQueue(next_offset, self._revived_ms.get(queue_id, 0))
        self._log.tell(queue_id, queue)
        return queue

    async def _read(self, queue_id: int, queue: ReviveQueue) -> bool:
        """Takes a portion of the log. Returns False at its end; from then on, the queue is told of what is put."""
        start = queue.next_offset
        records, next_offset = await self._get(self._log.topic, queue_id, start, PORTION_MAX)
        for record in records:
            try:
                queue.take(*entry_untrusted(decode_record_untrusted(record)))
            except ProtocolError as error:
                log.error("event=revive-entry-damaged queue=%d reason=%r", queue_id, str(error))
        queue.next_offset = max(queue.next_offset, next_offset)
        return queue.next_offset > start

    async def _get(self, topic: str, queue_id: int, queue_offset: int, count: int) -> tuple[list[bytes], int]:
        """Records, and the queue offset behind them."""
        if self._store.max_offset(topic, queue_id) <= queue_offset:
            return [], queue_offset
        result = self._store.get(topic, queue_id, queue_offset, count, cached_only=True)
        if not result.is_loaded:
            await trio.to_thread.run_sync(self._store.load, result)
        return (result.records() if result.status is GetStatus.FOUND else []), result.next_offset

    def load(self, offsets_saved_ms: int | None) -> None:
        """At a start, with the offsets loaded. ``offsets_saved_ms``: after a crash, when they were last saved. Messages
        that were popped since then are not popped again before their time is over. Check points say how far their group
        had come; older ones may precede an operator's reset, so they are skipped."""
        self._hold_back()
        if offsets_saved_ms is not None:
            for queue_id in range(self._log.queue_nums):
                start = self._store.offset_for_time(self._log.topic, queue_id, offsets_saved_ms)
                for message in self._store.messages(self._log.topic, queue_id, start):
                    self._move_behind(message, offsets_saved_ms)

    def _hold_back(self) -> None:
        """A committed offset that its queue does not have is about another log, or a longer one. The queue
        is read from its start; what was not due when this log ended, and is not acknowledged, comes again."""
        found: list[str] = []
        for queue_id in range(self._log.queue_nums):
            committed = self._offsets.committed(REVIVE_GROUP, self._log.topic, queue_id)
            if committed is None or committed < self._store.max_offset(self._log.topic, queue_id):
                continue
            done = self._store.min_offset(self._log.topic, queue_id) - 1
            if committed > done:
                found.append(f"{queue_id}:{committed}")
                self._offsets.commit(REVIVE_GROUP, self._log.topic, queue_id, done)
                self._revived_ms[queue_id] = self._store.newest_store_time_ms - LATE_MAX_MS
        if found:
            log.warning("event=revive-log-read-again topic=%s from='%s'", self._log.topic, " ".join(found))

    def _move_behind(self, message: StoredMessage, since_ms: int) -> None:
        """Moves the group's offset behind the messages of a check point."""
        try:
            entry = entry_untrusted(message)
        except ProtocolError:  # the reader of the log will report it
            return
        check_point = entry.body
        if entry.store_timestamp_ms <= since_ms or not isinstance(check_point, CheckPoint):
            return
        group, topic, queue_id = check_point.consumer_group, check_point.topic, check_point.queue_id
        end = min(max(check_point.offsets, default=-1) + 1, self._store.max_offset(topic, queue_id))
        committed = self._offsets.committed(group, topic, queue_id)
        if end > (committed if committed is not None else -1):
            with suppress(TableFull):  # then they come again before their time
                self._offsets.commit(group, topic, queue_id, end)

    # --- one check point ---------------------------------------------------------------------------------------------

    def _log_offset(self, queue_id: int, due: Open) -> int:
        """Where the check point's entry lies, behind all that was popped with it."""
        queue = self._store.queues.find(self._log.topic, queue_id)
        unit = queue.unit(due.revive_offset) if queue is not None else None
        return unit[0] if unit is not None else OFFSET_MAX

    async def _revive(self, due: Open, log_offset: int) -> None:
        """Puts the waiting messages of the check point at ``log_offset`` into the retry topic; messages that were put
        no longer wait. Those that still wait could not be read or put, for reasons of their own. Messages may be
        acknowledged while one is read."""
        check_point = due.check_point
        topic = normal_topic(check_point.topic, check_point.consumer_group)
        config = self._config
        # If pops may create groups, a crash may have lost one before it reached its file: its messages are not dropped.
        is_group_absent = (
            config.pop_revive_skip_if_group_absent
            and not config.auto_create_subscription_group
            and self._groups.get(check_point.consumer_group) is None
        )
        if self._topics.get(topic) is None or is_group_absent:
            log.warning("event=revive-skipped topic=%s group=%s", topic, check_point.consumer_group)
            self._settled(check_point, len(due.waiting))
            due.waiting.clear()
            return
        for queue_offset in list(due.waiting):
            try:
                message = await self._message(check_point, queue_offset, log_offset)
                if queue_offset not in due.waiting:  # acknowledged meanwhile
                    continue
                if message is not None:
                    self._put_again(check_point, topic, message)
                due.waiting.remove(queue_offset)
                self._settled(check_point, 1)
            except _Unfit as unfit:
                log.warning(
                    "event=revive-postponed topic=%s queue=%d offset=%d reason=%r",
                    check_point.topic, check_point.queue_id, queue_offset, str(unfit),
                )  # fmt: skip

    def _settled(self, check_point: CheckPoint, message_count: int) -> None:
        group, topic, queue_id = check_point.consumer_group, check_point.topic, check_point.queue_id
        self._in_flight.settled(topic, group, queue_id, check_point.pop_time, message_count)

    async def _message(self, check_point: CheckPoint, queue_offset: int, end: int) -> StoredMessage | None:
        """The message, which lies before ``end`` in the log; None if its file is gone, its topic was deleted, or it
        cannot be identified. Raises _Unfit if it cannot be read now."""
        try:
            records, _ = await self._get(check_point.topic, check_point.queue_id, queue_offset, 1)
            message = decode_record_untrusted(records[0]) if records else None
            found_offset = None
            if message is not None:
                _ = message.properties  # they are parsed again for the copy, and may be no text
                found_offset = queue_offset_in_untrusted(message, check_point.topic)
        except (StorageError, OSError) as error:
            raise _Unfit(str(error)) from error
        except ProtocolError as error:
            log.error("event=revive-message-damaged topic=%s reason=%r", check_point.topic, str(error))
            return None
        if message is None or found_offset != queue_offset or message.log_offset >= end:
            log.warning(
                "event=revive-without-message topic=%s queue=%d offset=%d",
                check_point.topic, check_point.queue_id, queue_offset,
            )  # fmt: skip
            return None
        return message

    def _put_again(self, check_point: CheckPoint, topic: str, message: StoredMessage) -> None:
        """Puts a message again. Raises _Unfit if it is too large, or its topic has no room among the others, and
        MessageRefused if nothing can be put now."""
        try:
            again = self._again(check_point, topic, message)
            self._put.put_through(again)
        except TableFull as full:
            raise _Unfit(str(full)) from full
        except MessageRefused as refused:
            if refused.status is PutStatus.PROPERTIES_SIZE_EXCEEDED:
                again.properties = message.properties  # those that it came with fit
                self._put.put_through(again)
            elif refused.status is PutStatus.MESSAGE_ILLEGAL:
                raise _Unfit(str(refused)) from refused
            else:
                raise

    def _settle(self, queue_id: int, revived: Open) -> None:
        """Makes sure that revived messages do not come again after a restart: an acknowledgement in the log, behind
        what was put, says so. The committed offset cannot while an older check point is open, nor after kill -9."""
        check_point = revived.check_point
        ack = AckMessage(
            ack_offsets=check_point.offsets,
            broker_name=check_point.broker_name,
            consumer_group=check_point.consumer_group,
            pop_time=check_point.pop_time,
            queue_id=check_point.queue_id,
            start_offset=check_point.start_offset,
            topic=check_point.topic,
        )
        self._log.put(ack, queue_id, revived.store_host)

    def _again(self, check_point: CheckPoint, topic: str, message: StoredMessage) -> NewMessage:
        """The message to be put again (``reviveRetry``)."""
        group = check_point.consumer_group
        properties = dict(message.properties)
        if not message.reconsume_times or props.FIRST_POP_TIME not in properties:
            properties[props.FIRST_POP_TIME] = str(check_point.pop_time)
        properties[props.ORIGIN_GROUP] = group
        again = copy_for(message, check_point.topic, 0, properties)
        again.born_host = message.store_host
        again.reconsume_times += 0 if check_point.is_suspended else 1
        config = self._groups.get(group)
        is_worn_out = config is not None and message.reconsume_times >= config.retry_max_times
        if is_worn_out and not check_point.is_suspended:
            properties.setdefault(props.RETRY_TOPIC, topic)
            properties.setdefault(props.ORIGIN_MESSAGE_ID, message.message_id)
            to_dead_letters(again, group, self._topics)
            again.reconsume_times += 1  # a proxy gets it once more, and sends it back
        else:
            if check_point.topic == topic:
                again.topic = pop_retry_topic(group, topic, is_v2=self._config.enable_retry_topic_v2)
            queue_nums = self._make_retry_topic(again.topic, group, topic)
            if self._config.use_separate_retry_queue and message.queue_id < queue_nums:
                again.queue_id = message.queue_id
        return again

    def _make_retry_topic(self, retry_topic: str, group: str, topic: str) -> int:
        """Creates the retry topic if it is missing, and returns how many queues it has. The group begins at the first
        message of each. With useSeparateRetryQueue it has the queues of the topic, and follows when those change."""
        found, origin = self._topics.get(retry_topic), self._topics.get(topic)
        queue_nums = RETRY_QUEUE_NUMS if found is None else found.write_queue_nums
        if self._config.use_separate_retry_queue and origin is not None:
            queue_nums = origin.write_queue_nums
        if found is None:
            self._topics.create_system(retry_topic, queue_nums)
        elif found.write_queue_nums != queue_nums:
            self._topics.put(msgspec.structs.replace(found, read_queue_nums=queue_nums, write_queue_nums=queue_nums))
        else:
            return queue_nums
        for queue_id in range(queue_nums):
            if self._offsets.committed(group, retry_topic, queue_id) is None:
                self._offsets.commit(group, retry_topic, queue_id, 0)
        return queue_nums

    # --- progress ----------------------------------------------------------------------------------------------------

    def _commit_kept(self, queue_id: int, queue: ReviveQueue) -> None:
        waiting = self._waiting.get(queue_id)
        if waiting is not None and waiting[0] <= self._store.kept_offset:
            self._commit(queue_id, waiting[1])
            del self._waiting[queue_id]
        if queue_id not in self._waiting:
            self._waiting[queue_id] = self._store.written_offset, self._done_offset(queue_id, queue)

    def _done_offset(self, queue_id: int, queue: ReviveQueue) -> int:
        """How far readers of the log may see the queue as done: it also knows entries that a crash, or another master,
        may still take back."""
        return min(queue.done_offset, self._store.max_offset(self._log.topic, queue_id) - 1)

    def _commit(self, queue_id: int, done_offset: int) -> None:
        committed = self._offsets.committed(REVIVE_GROUP, self._log.topic, queue_id)
        if done_offset > (committed if committed is not None else -1):
            self._offsets.commit(REVIVE_GROUP, self._log.topic, queue_id, done_offset)

    def commit(self) -> None:
        """Commits the progress at the end, when the store is flushed."""
        if self._store.is_all_kept:
            for queue_id, queue in self._queues.items():
                self._commit(queue_id, self._done_offset(queue_id, queue))
