"""Messages that wait for something: ``halves`` of transactions that have not ended, and ``timers``."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError
from rmqproto.java.java_numbers import INT_MAX, LONG_MAX, whole_number
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.message.special_messages import check_times, is_recalled
from rmqproto.names import TIMER_TOPIC, TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import PullRules, pull_range
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.found.inventory import Inventory, inventory
from rmqserver.store.found.survey import survey
from rmqserver.store.found.what_waits import message_at, open_half_offsets, open_halves, open_timers, timers_of
from rmqserver.store.message_store import MessageStore
from spark_tools.tables.positions import Values


def _values(stored: StoredMessage, broker_name: str) -> Values:
    found = stored.properties
    return {
        "topic": found.get(props.REAL_TOPIC), "tags": found.get(props.TAGS), "keys": found.get(props.KEYS),
        "msgId": found.get(props.UNIQUE_KEY) or stored.message_id, "properties": found, "brokerName": broker_name,
        "bornTimestamp": stored.born_timestamp_ms, "storeTimestamp": stored.store_timestamp_ms,
    }  # fmt: skip


def _half(stored: StoredMessage, broker_name: str) -> Values:
    found = stored.properties
    return _values(stored, broker_name) | {
        "queueId": stored.queue_id, "queueOffset": stored.queue_offset,
        "producerGroup": found.get(props.PRODUCER_GROUP), "checkTimes": check_times(found),
    }  # fmt: skip


def _timer(stored: StoredMessage, broker_name: str) -> Values:
    found = stored.properties
    return _values(stored, broker_name) | {
        "queueId": _number(found, props.REAL_QUEUE_ID), "logOffset": stored.log_offset,
        "rolls": _number(found, props.TIMER_ROLL_TIMES),
        "deliverTimestamp": _number(found, props.TIMER_OUT_MS, LONG_MAX),
    }  # fmt: skip


def _number(found: dict[str, str], name: str, highest: int = INT_MAX) -> int:
    """0 for what is no number up to the highest."""
    return whole_number(found.get(name, ""), highest) or 0


def store_halves(path: str, broker_name: str) -> Iterator[Values]:
    with inventory(survey(path, OsDisk())) as opened:
        store = _store_of(opened)
        for queue_id, offset in open_halves(store, opened.tables):
            queue = store.queues.find(TRANSACTION_HALF_TOPIC, queue_id)
            unit = queue.unit(offset) if queue is not None else None
            stored = message_at(store, unit[0], unit[1]) if unit is not None else None
            if stored is not None:
                yield _half(stored, broker_name)


def store_timers(path: str, broker_name: str) -> Iterator[Values]:
    found = survey(path, OsDisk())
    with inventory(found) as opened:
        store = _store_of(opened)
        timers = timers_of(found, store)
        if timers is None:
            raise StorageError(f"{path}: its timers cannot be read")
        for stored in open_timers(store, timers):
            yield _timer(stored, broker_name)


def _store_of(opened: Inventory) -> MessageStore:
    if opened.store is None:
        raise StorageError(opened.problem or "the store cannot be read")
    return opened.store


def live_halves(cluster: LiveCluster, rules: PullRules) -> Iterator[Values]:
    for queue in cluster.queues(TRANSACTION_HALF_TOPIC):
        ops = MessageQueue(TRANSACTION_OP_TOPIC, queue.broker_name, queue.queue_id)
        bodies = [stored.body for stored in _pulled(cluster, _since_progress(cluster, ops), rules)]
        wanted = _since_progress(cluster, queue)
        is_open = set(open_half_offsets(wanted.start, wanted.end, bodies))
        for stored in _pulled(cluster, wanted, rules):
            if stored.queue_offset in is_open:
                yield _half(stored, queue.broker_name)


def live_timers(cluster: LiveCluster, rules: PullRules) -> Iterator[Values]:
    """Those that are due later. A message that was rolled lies in the queue again."""
    now_ms = time.time_ns() // 1_000_000
    for queue in cluster.queues(TIMER_TOPIC):
        waiting: dict[str, StoredMessage] = {}
        recalled: set[str] = set()
        for stored in _pulled(cluster, OffsetRange(queue, *cluster.bounds(queue)), rules):
            found = stored.properties
            if _number(found, props.TIMER_OUT_MS, LONG_MAX) <= now_ms:
                continue
            if props.TIMER_DELETE_UNIQUE_KEY in found:
                recalled.add(found[props.TIMER_DELETE_UNIQUE_KEY])
            else:
                waiting[found.get(props.UNIQUE_KEY) or stored.message_id] = stored
        for stored in waiting.values():
            if not is_recalled(stored, recalled):
                yield _timer(stored, queue.broker_name)


def _since_progress(cluster: LiveCluster, queue: MessageQueue) -> OffsetRange:
    """What the broker has not passed yet of a queue of transactions."""
    first, last = cluster.bounds(queue)
    start = max(first, min(cluster.committed(TRANSACTION_GROUP, queue) or 0, last))
    return OffsetRange(queue, start, last)


def _pulled(cluster: LiveCluster, wanted: OffsetRange, rules: PullRules) -> Iterator[StoredMessage]:
    if wanted.count > 0:
        for body in pull_range(cluster, wanted, rules):
            yield from (one for one in decode_records_untrusted(body) if wanted.start <= one.queue_offset < wanted.end)
