"""What waits in a store: delayed messages, timers, half messages, popped messages. Each is in a queue of the system,
and a table holds how far a broker has come in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rmqproto.errors import ProtocolError, StorageError
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.message.special_messages import is_recalled, offsets_of
from rmqproto.names import (
    REVIVE_GROUP,
    SCHEDULE_TOPIC,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
    revive_topic,
)
from rmqserver.store.disk.overlay import OverlayDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.found.found_tables import FoundTables
from rmqserver.store.found.survey import Survey
from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues.consume_queue import ConsumeQueue
from rmqserver.store.timers.timer_check import log_state
from rmqserver.store.timers.timer_store import TimerStore


def delayed_count(store: MessageStore, tables: FoundTables) -> int:
    """Messages of delay levels that have not been delivered yet."""
    offsets = tables.delay_offsets()
    return sum(
        queue.max_offset - max(queue.min_offset, min(offsets.get(queue.queue_id + 1, 0), queue.max_offset))
        for queue in store.queues.of_topic(SCHEDULE_TOPIC)
    )


def open_half_offsets(first: int, end: int, op_bodies: Iterable[bytes]) -> list[int]:
    """The queue offsets of half messages whose transaction has not ended, of those from ``first``, how far the broker
    has come, to ``end``. Op messages since then say which have ended."""
    ended = {number for body in op_bodies for number in offsets_of(body)}
    return [offset for offset in range(first, end) if offset not in ended]


def open_halves(store: MessageStore, tables: FoundTables) -> Iterator[tuple[int, int]]:
    """The queue id and queue offset of each half message whose transaction has not ended."""
    committed = tables.offsets()
    for queue in store.queues.of_topic(TRANSACTION_HALF_TOPIC):
        first = _committed(committed, TRANSACTION_HALF_TOPIC, TRANSACTION_GROUP, queue)
        for offset in open_half_offsets(first, queue.max_offset, _op_bodies(store, committed, queue.queue_id)):
            yield queue.queue_id, offset


def half_count(store: MessageStore, tables: FoundTables) -> int:
    """Half messages whose transaction has not ended."""
    return sum(1 for _ in open_halves(store, tables))


def _op_bodies(store: MessageStore, committed: dict[str, dict[int, int]], queue_id: int) -> Iterator[bytes]:
    ops = store.queues.find(TRANSACTION_OP_TOPIC, queue_id)
    if ops is None:
        return
    start = _committed(committed, TRANSACTION_OP_TOPIC, TRANSACTION_GROUP, ops)
    for op in store.messages(TRANSACTION_OP_TOPIC, queue_id, start):
        yield op.body


def pop_entry_count(store: MessageStore, tables: FoundTables) -> int:
    """Checkpoints and acknowledgements that the POP revive has not processed yet."""
    committed = tables.offsets()
    revive_topics = [name for name in store.queues.names() if name.startswith(revive_topic(""))]
    queues = [queue for name in revive_topics for queue in store.queues.of_topic(name)]
    return sum(queue.max_offset - _committed(committed, queue.topic, REVIVE_GROUP, queue) for queue in queues)


def _committed(committed: dict[str, dict[int, int]], topic: str, group: str, queue: ConsumeQueue) -> int:
    """How far the system's group has come, within the queue's limits."""
    offset = committed.get(f"{topic}@{group}", {}).get(queue.queue_id, 0)
    return max(queue.min_offset, min(offset, queue.max_offset))


def timers_of(found: Survey, store: MessageStore) -> TimerStore | None:
    """The timers as a start would find them; None if they cannot be read. Writes nothing."""
    disk = OverlayDisk(found.disk)
    timers = TimerStore(found.timer_paths, found.timer_options, disk, FileCache(disk, 16))
    try:
        timers.load(log_state(store), clean=found.is_clean)
    except (StorageError, OSError):
        return None
    return timers


def open_timers(store: MessageStore, timers: TimerStore) -> list[StoredMessage]:
    """The timer messages that wait, without those that others of them recall. What the log no longer has is left
    out."""
    waiting: list[StoredMessage] = []
    recalled: set[str] = set()
    for unit in timers.waiting_units():
        stored = message_at(store, unit.log_offset, unit.message_size_bytes)
        if stored is not None and unit.is_delete:
            recalled.add(stored.properties.get(props.TIMER_DELETE_UNIQUE_KEY, ""))
        elif stored is not None:
            waiting.append(stored)
    return [one for one in waiting if not is_recalled(one, recalled)]


def message_at(store: MessageStore, log_offset: int, size_bytes: int) -> StoredMessage | None:
    try:
        found = decode_records_untrusted(store.log.read(log_offset, size_bytes))
    except (StorageError, ProtocolError):
        return None
    return found[0] if found else None
