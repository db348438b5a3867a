"""Messages with a delay level wait in the schedule topic, in a queue for each level, and are delivered in the order in
which they came (``ScheduleMessageService``, 5.5.0).

How far each level is delivered is kept in ``config/delayOffset.json``, which is written only when the copies it speaks
of are on the device: after a crash a message may be delivered twice, never not at all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from rmqproto import properties as props
from rmqproto.bodies import DataVersion, DelayOffsets
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC
from rmqproto.record import decode_record_untrusted
from rmqserver.broker.config_table import from_file, next_version
from rmqserver.store.consume_queue import UNIT, ConsumeQueue
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.config import BrokerConfig
    from rmqserver.store.config_files import ConfigFiles, Document
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

FILE_NAME = "delayOffset.json"
LOOK_EVERY_S = 0.1
RETRY_AFTER_S = 1.0
"""After the store refused a copy."""
SAVE_EVERY_S = 1.0
PORTION_MAX = 32
"""Messages delivered before other tasks have their turn; also what one read of the store gives."""
VERSION_STEP = 200
"""Deliveries to one step of the data version (delayOffsetUpdateVersionStep)."""


class _Snapshot(NamedTuple):
    """What may be saved once the log is flushed up to ``log_offset``."""

    log_offset: int
    document: Document


class Delays:
    """``offsets``: the next queue offset to deliver, by level."""

    def __init__(self, config: BrokerConfig, store: MessageStore, files: ConfigFiles, stats: BrokerStats):
        self.data_version = DataVersion(timestamp=store.clock_ms())
        self.offsets: dict[int, int] = {}
        self._config = config
        self._store = store
        self._files = files
        self._stats = stats
        self._delivered_count = 0
        self._saved: dict[int, int] = {}
        self._waiting: _Snapshot | None = None

    def load(self) -> None:
        """StorageError if the file is none of ours."""
        loaded = from_file(self._files.load(FILE_NAME), DelayOffsets, FILE_NAME)
        self.data_version = loaded.data_version or self.data_version
        self.offsets = loaded.offset_table
        self._saved = dict(self.offsets)

    # --- delivering --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Delivers what is due until cancelled."""
        save_at_s = trio.current_time() + SAVE_EVERY_S
        while True:
            pause_s = LOOK_EVERY_S
            for level, delay_ms in enumerate(self._config.delay_levels_ms, 1):
                try:
                    while await self._deliver_some(level, delay_ms):
                        await trio.lowlevel.checkpoint()
                except (MessageRefused, StorageError, OSError) as error:
                    log.warning("event=delay-stopped level=%d reason=%r", level, str(error))
                    pause_s = RETRY_AFTER_S
            if trio.current_time() >= save_at_s:
                save_at_s = trio.current_time() + SAVE_EVERY_S
                self._save_when_flushed()
            await trio.sleep(pause_s)

    async def _deliver_some(self, level: int, delay_ms: int) -> bool:
        """A portion of a level; False if nothing of it is due. MessageRefused or StorageError where a copy cannot be
        stored: it is the next to be tried."""
        queue = self._store.queue(SCHEDULE_TOPIC, level - 1)
        if queue is None:
            return False
        start = min(max(self.offsets.get(level, 0), queue.min_offset), queue.max_offset)
        count = _due_count(queue, start, self._store.clock_ms(), delay_ms)
        if not count:
            return False
        result = self._store.get(SCHEDULE_TOPIC, level - 1, start, count, cached_only=True)
        if not result.is_loaded:
            await trio.to_thread.run_sync(self._store.load, result)
        done = start
        try:
            for record in result.records():
                done = self._deliver(record) or done
            done = result.next_offset
        finally:
            self._store.commit()
            self._advance(level, done - start, done)
        return done > start

    def _deliver(self, record: bytes) -> int | None:
        """Appends the copy that consumers see; returns the queue offset behind the message, None for one that cannot
        be read. The properties stay as they are, the delay level too: it delays only messages on their way in."""
        try:
            message = decode_record_untrusted(record)
            properties = message.properties
            topic, queue_id = properties[props.REAL_TOPIC], int(properties[props.REAL_QUEUE_ID])
        except (ProtocolError, KeyError, ValueError) as error:
            log.error("event=delayed-message-damaged reason=%r", str(error))
            return None
        if topic == TRANSACTION_HALF_TOPIC:
            log.error("event=delayed-half-message key=%s", properties.get(props.UNIQUE_KEY))
            return message.queue_offset + 1
        appended = self._store.append(
            topic, queue_id, message.flag, message.sys_flag, message.born_timestamp_ms, message.born_host,
            message.store_host, message.reconsume_times, message.body, message.properties_raw,
        )  # fmt: skip
        flow = self._stats.puts[topic]
        flow.message_count += 1
        flow.request_count += 1
        flow.size_bytes += appended.size_bytes
        return message.queue_offset + 1

    def _advance(self, level: int, count: int, next_offset: int) -> None:
        if not count:
            return
        self.offsets[level] = next_offset
        self._delivered_count += count
        if self._delivered_count >= VERSION_STEP:
            self._delivered_count = 0
            self.data_version = next_version(self.data_version, self._store.clock_ms())

    # --- saving ------------------------------------------------------------------------------------------------------

    def _save_when_flushed(self) -> None:
        if self._waiting is not None and self._store.flushed_offset >= self._waiting.log_offset:
            self._files.save(FILE_NAME, self._waiting.document)
            self._waiting = None
        if self._waiting is None and self.offsets != self._saved:
            self._saved = dict(self.offsets)
            self._waiting = _Snapshot(self._store.written_offset, self.document())

    def save(self) -> None:
        """At the end, when the store is flushed."""
        self._files.save(FILE_NAME, self.document())

    def document(self) -> Document:
        return {"dataVersion": msgspec.to_builtins(self.data_version), "offsetTable": dict(self.offsets)}


def _due_count(queue: ConsumeQueue, start: int, now_ms: int, delay_ms: int) -> int:
    """How many of the next messages are due. A unit's tags code is the time. A time further away than the level is long
    comes of other levels or another clock; it does not count."""
    count = 0
    for _, _, due_ms in UNIT.iter_unpack(queue.units(start, PORTION_MAX)):
        if now_ms < due_ms <= now_ms + delay_ms:
            break
        count += 1
    return count
