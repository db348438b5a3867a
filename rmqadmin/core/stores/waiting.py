"""What waits in a store: delayed messages, timers, half messages, popped messages. Each is in a queue of the system,
and a table holds how far a broker has come in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.errors import StorageError
from rmqproto.message.record import decode_record_untrusted
from rmqproto.names import (
    REVIVE_GROUP,
    SCHEDULE_TOPIC,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
    revive_topic,
)

if TYPE_CHECKING:
    from rmqserver.store.checks.found_tables import FoundTables
    from rmqserver.store.checks.survey import Survey
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.queues.consume_queue import ConsumeQueue
    from rmqserver.store.timers.timer_store import TimerStore

_PULL_COUNT = 32


def delayed_count(store: MessageStore, tables: FoundTables) -> int:
    """Messages of delay levels that have not been delivered yet."""
    offsets = tables.delay_offsets()
    return sum(
        queue.max_offset - max(queue.min_offset, min(offsets.get(queue.queue_id + 1, 0), queue.max_offset))
        for queue in store.queues.of_topic(SCHEDULE_TOPIC)
    )


def half_count(store: MessageStore, tables: FoundTables) -> int:
    """Half messages whose transaction has not ended."""
    committed = tables.offsets()
    waiting = 0
    for queue in store.queues.of_topic(TRANSACTION_HALF_TOPIC):
        first = _committed(committed, TRANSACTION_HALF_TOPIC, TRANSACTION_GROUP, queue)
        ended = set(_ended(store, committed, queue.queue_id))
        waiting += sum(offset not in ended for offset in range(first, queue.max_offset))
    return waiting


def _ended(store: MessageStore, committed: dict[str, dict[int, int]], queue_id: int) -> list[int]:
    """Queue offsets of ended half messages, read from op messages, whose bodies are numbers separated by commas."""
    ops = store.queue(TRANSACTION_OP_TOPIC, queue_id)
    found: list[int] = []
    if ops is None:
        return found
    offset = _committed(committed, TRANSACTION_OP_TOPIC, TRANSACTION_GROUP, ops)
    while offset < ops.max_offset:
        result = store.get(TRANSACTION_OP_TOPIC, queue_id, offset, _PULL_COUNT)
        for record in result.records():
            body = decode_record_untrusted(record).body
            found += [int(number) for number in body.split(b",") if number.isdigit()]
        if result.next_offset <= offset:
            break
        offset = result.next_offset
    return found


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
    from rmqserver.store.disk.overlay import OverlayDisk
    from rmqserver.store.disk.segments import FileCache
    from rmqserver.store.timers.checked_checkpoint import log_state
    from rmqserver.store.timers.timer_store import TimerStore

    disk = OverlayDisk(found.disk)
    timers = TimerStore(found.timer_paths, found.timer_options, disk, FileCache(disk, 16))
    try:
        timers.load(store.clock_ms(), log_state(store), clean=found.is_clean)
    except (StorageError, OSError):
        return None
    return timers
