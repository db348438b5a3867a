"""Messages with a delay level wait in the schedule topic, in one queue for each level, and are delivered in the order
of their arrival (``ScheduleMessageService``, 5.5.0). The progress of each level is kept in
``config/delayOffset.json``."""

from __future__ import annotations

import logging
from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.statistics import DelayOffsets
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC
from rmqserver.broker.relays.relay import PORTION_MAX, Progress, Relay, run_relays
from rmqserver.broker.sending.put import Put
from rmqserver.broker.tables.config_table import from_file, next_version
from rmqserver.store.new_message import copy_for
from rmqserver.store.queues.consume_queue import UNIT, ConsumeQueue
from rmqserver.store.results import MessageRefused, PutStatus

if TYPE_CHECKING:
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.disk.config_files import ConfigFiles, Document
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

FILE_NAME = "delayOffset.json"
UNKNOWN_MS = 1 << 62
"""The length of a level that the settings do not have any more."""
VERSION_STEP = 200
"""Deliveries per step of the data version (delayOffsetUpdateVersionStep)."""


class Delays:
    """The delay levels, numbered from 1. Their number and lengths are settings, which may change."""

    def __init__(self, config: BrokerConfig, store: MessageStore, files: ConfigFiles, put: Put):
        self.data_version = DataVersion(timestamp=store.clock_ms())
        self._config = config
        self._store = store
        self._files = files
        self._clock_ms = store.clock_ms
        self._put = put
        self._relays: dict[int, Relay] = {}
        self._loaded: dict[int, int] = {}
        self._delivered_count = 0
        self.progress = Progress(store, self.document, lambda document: self._files.save(FILE_NAME, document))

    @property
    def offsets(self) -> dict[int, int]:
        """The next queue offset to deliver, by level; levels that never had a message are left out."""
        now = {level: each.next_offset for level, each in self._relays.items() if each.next_offset}
        return {**self._loaded, **now}

    def load(self) -> None:
        """Raises StorageError if the file is not ours."""
        loaded = from_file(self._files.load(FILE_NAME), DelayOffsets, FILE_NAME)
        self.data_version = loaded.data_version or self.data_version
        self._loaded = loaded.offset_table
        self.progress.loaded()

    def hold_back(self) -> None:
        """Moves each level back to what this log has delivered: the file may be about another one, or a longer one."""
        for level, queue_offset in self._loaded.items():
            delivered = delivered_up_to(self._store, level, queue_offset)
            if queue_offset > delivered:
                log.warning("event=delay-held-back level=%d from=%d to=%d", level, queue_offset, delivered)
                self._loaded[level] = delivered

    def relays(self) -> list[Relay]:
        """One for each level that the settings have now, or had when messages came that may wait still."""
        levels = {*range(1, len(self._config.delay_levels_ms) + 1)}
        levels.update(queue_id + 1 for queue_id in self._store.queues.ids_of(SCHEDULE_TOPIC))
        return [self._relays.get(level) or self._add(level) for level in sorted(levels)]

    def _add(self, level: int) -> Relay:
        def due_count(queue: ConsumeQueue, start: int) -> int:
            lengths_ms = self._config.delay_levels_ms[level - 1 : level]
            return count_due(queue, start, self._clock_ms(), lengths_ms[0] if lengths_ms else UNKNOWN_MS)

        relay = self._relays[level] = Relay(self._store, SCHEDULE_TOPIC, level - 1, due_count, self._deliver)
        relay.next_offset = self._loaded.get(level, 0)
        return relay

    async def run(self) -> None:
        """Delivers what is due until cancelled."""
        await run_relays(self.relays, self.progress)

    def save(self) -> None:
        """Saves the progress at the end, when all of the log is kept."""
        self.progress.save()

    def document(self) -> Document:
        return {"dataVersion": msgspec.to_builtins(self.data_version), "offsetTable": self.offsets}

    def _deliver(self, message: StoredMessage) -> None:
        """Puts the copy that consumers see. It keeps all properties, even the delay level, which delays only messages
        that are sent."""
        properties = message.properties
        topic, queue_id = props.real_queue_untrusted(properties)
        if topic == TRANSACTION_HALF_TOPIC:
            log.error("event=delayed-half-message key=%s", properties.get(props.UNIQUE_KEY))
            return
        try:
            self._put.put_through(copy_for(message, topic, queue_id, properties))
        except MessageRefused as error:
            if error.status is not PutStatus.PROPERTIES_SIZE_EXCEEDED:
                raise
            # Its places in light queues make the properties too long for ever: all messages behind it would wait.
            log.error("event=delayed-message-dropped topic=%s reason=%r", topic, str(error))
            return
        self._delivered_count += 1
        if self._delivered_count % VERSION_STEP == 0:
            self.data_version = next_version(self.data_version, self._clock_ms())


def count_due(queue: ConsumeQueue, start: int, now_ms: int, delay_ms: int) -> int:
    """How many of the next messages are due. A unit's tags code is its due time. A time further away than the level's
    delay comes from other levels or another clock, and the message counts as due."""
    count = 0
    for _, _, due_ms in UNIT.iter_unpack(queue.units(start, PORTION_MAX)):
        if now_ms < due_ms <= now_ms + delay_ms:
            break
        count += 1
    return count


LATE_MAX_MS = 2_000
"""A broker that runs delivers no later than this. What was due before the log's last message by more was delivered."""

EARLY_MAX_MS = 1_000

LOOKED_AT_MAX = 10_000
"""Messages among which the copy of one is looked for."""


def delivered_up_to(store: MessageStore, level: int, queue_offset: int) -> int:
    """The queue offset up to which the level's messages are delivered, if a file says ``queue_offset``: never more than
    that."""
    queue = store.queues.find(SCHEDULE_TOPIC, level - 1)
    if queue is None:
        return 0
    end = min(queue_offset, queue.max_offset)
    if end <= queue.min_offset or _is_passed(store, queue, end - 1):
        return end
    offsets = range(queue.min_offset, end)
    low = bisect_left(offsets, True, key=lambda at: _due_ms(queue, at) > store.newest_store_time_ms - LATE_MAX_MS)
    return offsets.start + bisect_left(offsets, True, low, key=lambda at: not _is_passed(store, queue, at))


def _due_ms(queue: ConsumeQueue, queue_offset: int) -> int:
    unit = queue.unit(queue_offset)
    return unit[2] if unit is not None else 0


def _is_passed(store: MessageStore, queue: ConsumeQueue, queue_offset: int) -> bool:
    """Whether nothing is left to do for the message: it was due long before the log's last message, its copy is there,
    or it cannot be read."""
    newest_ms, due_ms = store.newest_store_time_ms, _due_ms(queue, queue_offset)
    if due_ms <= newest_ms - LATE_MAX_MS:
        return True
    unit = queue.unit(queue_offset)
    record = store.get_record(unit[0]) if unit is not None else None
    if record is None:
        return True
    try:
        message = decode_record_untrusted(record)
        topic, queue_id = props.real_queue_untrusted(message.properties)
    except ProtocolError:
        return True
    if topic == TRANSACTION_HALF_TOPIC:
        return True
    start_ms = max(due_ms - EARLY_MAX_MS, message.store_timestamp_ms) if due_ms <= newest_ms else 0
    if not start_ms and message.store_timestamp_ms <= newest_ms:  # else the clock has gone back since
        start_ms = message.store_timestamp_ms  # the levels may have been longer once
    at = store.offset_for_time(topic, queue_id, start_ms)
    return any(_is_copy(other, message) for other in store.messages(topic, queue_id, at, at + LOOKED_AT_MAX))


def _is_copy(other: StoredMessage, message: StoredMessage) -> bool:
    return (
        other.log_offset > message.log_offset
        and other.born_timestamp_ms == message.born_timestamp_ms
        and other.reconsume_times == message.reconsume_times
        and other.body == message.body
        and other.properties.get(props.UNIQUE_KEY) == message.properties.get(props.UNIQUE_KEY)
    )
