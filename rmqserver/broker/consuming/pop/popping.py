"""Popping: takes a group's next messages queue by queue, notes them in the revive log, and moves the group's offset
behind them (``PopMessageProcessor``, 5.5.0).

Finding messages may end with ``NotCached``; they are found again once a thread has loaded them, and only then taken.
Taking happens in one go with finding, in one thread, in place of a lock of (topic, group, queue)."""

from __future__ import annotations

import functools
import logging
import struct
import time
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rmqproto.bodies.popping import CheckPoint
from rmqproto.codes import MESSAGE_TYPE, TopicMessageType
from rmqproto.errors import ProtocolError
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.headers.popping import INIT_FROM_MIN, PopHeader
from rmqproto.message import properties as props
from rmqproto.message.record import RECORD_SIZE_MIN_BYTES, decode_record_untrusted, encode_record
from rmqproto.message.special_messages import queue_offset_in_untrusted
from rmqproto.names import LIGHT_QUEUE_PREFIX, RETRY_PREFIX
from rmqproto.pop import ORDER_REVIVE_QUEUE_ID, Handle, Source, pop_retry_topic, retry_kind
from rmqserver.broker.consuming.offset_requests import start_near_end
from rmqserver.store.disk.cached_reads import NotCached, Place
from rmqserver.store.results import MOVED, GetResult, GetStatus

if TYPE_CHECKING:
    from rmqserver.broker.consuming.pop.orders import Orders
    from rmqserver.broker.consuming.pop.revive_log import ReviveLog
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)


_QUEUE_OFFSET = struct.Struct(">q")
_QUEUE_OFFSET_AT = 20
"""Where a record has its queue offset: behind size, magic, CRC, queue id and flag."""

_NOTHING_WANTED = (
    GetStatus.NO_MATCHED_MESSAGE,
    GetStatus.OFFSET_FOUND_NULL,
    GetStatus.MESSAGE_WAS_REMOVING,
    GetStatus.NO_MATCHED_LOGIC_QUEUE,
)

POP_ENOUGH_BYTES = 4 << 20
"""A pop with so many bytes of messages looks at no further queue. Clients of the remoting protocol take 16 MiB at once,
and an answer that alone is more than a connection may leave unread would end it each time."""


class TakenQueue(NamedTuple):
    """Where a group stood in a queue before a pop took so many messages."""

    topic: str
    queue_id: int
    queue_offset: int
    message_count: int


class Popped(msgspec.Struct):
    """The result of a pop: ``message_count`` records, joined in ``chunks``. ``rest_count``: messages left in the queues
    that it looked at. ``taken_back``: what to commit if the check points are lost. ``free_at_ms``: when the first
    blocked queue is free, if the pop is in order. ``has_unseen``: it has passed over messages that it does not want,
    and there are more behind them."""

    pop_time_ms: int
    revive_queue_id: int
    message_count: int = 0
    chunks: list[bytes] = []
    starts: dict[Source, int] = {}
    offsets: dict[Source, list[int]] = {}
    order_counts: list[tuple[Source, dict[int, int], int]] = []
    rest_count: int = 0
    taken_back: list[TakenQueue] = []
    free_at_ms: int | None = None
    has_unseen: bool = False


class FoundPops(msgspec.Struct):
    """What a pop can take: topic, queue id, the group's offset and the messages there. ``missing``: what was not in
    memory of other queues. See Popped for the rest."""

    queues: list[tuple[str, int, int, GetResult]] = []
    message_count: int = 0
    size_bytes: int = 0
    rest_count: int = 0
    free_at_ms: int | None = None
    missing: list[Place] = []


class Popping:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, groups: GroupTable,
        offsets: ConsumerOffsets, stats: BrokerStats, orders: Orders, revive_log: ReviveLog,
    ):  # fmt: skip
        self._config = config
        self._store = store
        self._offsets = offsets
        self._stats = stats
        self._clock_ms = store.clock_ms
        self._log = revive_log
        self._orders = orders
        self._in_flight = revive_log.in_flight
        self._topics = topics
        self._groups = groups
        self._turn = 0

    # --- what is looked at --------------------------------------------------------------------------------------------

    def _retry_topics(self, group: str, topic: str) -> list[str]:
        """The POP retry topics to look at that exist."""
        config = self._config
        names = [pop_retry_topic(group, topic, is_v2=config.enable_retry_topic_v2)]
        if config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1:
            names.append(pop_retry_topic(group, topic))
        return [name for name in names if self._topics.get(name) is not None]

    def sources(self, group: str, topic: str, queue_id: int, *, with_retries: bool = True) -> list[tuple[str, int]]:
        """Topic and queue id of everything that a pop of the queue (-1: of all) looks at, in order. Queues take turns
        at being the first. In some pops, retries come first (popFromRetryProbability). Of a topic with priorities, the
        queue of the highest comes first in the group's ``priority.factor`` percent of the pops. A pop in order has no
        retries and no priorities."""
        turn, config = self._turn, self._topics.get(topic)
        self._turn += 1
        retry_topics = self._retry_topics(group, topic) if with_retries else []
        if queue_id >= 0 and not retry_topics:
            return [(topic, queue_id)] if config is not None else []
        percent, queues_of = self._config.pop_from_retry_probability, self._queues_of
        is_priority = config is not None and config.attributes.get(MESSAGE_TYPE) == TopicMessageType.PRIORITY
        if with_retries and is_priority and _is_turn(turn, self._priority_percent(group)):
            percent, queues_of = self._config.pop_from_retry_probability_for_priority, self._by_priority
        queues = queues_of(topic, queue_id, turn)
        retries = [source for name in retry_topics for source in queues_of(name, -1, turn)]
        return [*retries, *queues] if _is_turn(turn, percent) else [*queues, *retries]

    def _queues_of(self, topic: str, queue_id: int, turn: int) -> list[tuple[str, int]]:
        config = self._topics.get(topic)
        if config is None:
            return []
        if queue_id >= 0:
            return [(topic, queue_id)]
        queue_nums = config.read_queue_nums
        return [(topic, (turn + number) % queue_nums) for number in range(queue_nums)]

    def _priority_percent(self, group_name: str) -> int:
        """The group's; 100 if its attribute is none, since a file may say anything."""
        group = self._groups.get(group_name)
        text = group.attributes.get("priority.factor", "") if group is not None else ""
        return int(text) if text.isdecimal() and len(text) <= 3 and int(text) <= 100 else 100

    def _by_priority(self, topic: str, queue_id: int, turn: int) -> list[tuple[str, int]]:
        """As ``_queues_of``, but the queue of the highest priority comes first."""
        queues = sorted(self._queues_of(topic, queue_id, turn))
        return queues[::-1] if self._config.priority_order_asc else queues

    # --- taking ------------------------------------------------------------------------------------------------------

    def find(self, header: PopHeader, wanted: MessageFilter, sources: list[tuple[str, int]]) -> FoundPops:
        """Finds what a request may pop from ``sources``. Raises NotCached only if nothing that it found is in
        memory."""
        found = FoundPops()
        for topic, queue_id in sources:
            self._find_in(found, header, topic, queue_id, wanted)
        if found.missing and not found.message_count:
            raise NotCached(found.missing)
        return found

    def pop(self, header: PopHeader, found: FoundPops, store_host: bytes) -> Popped:
        """Takes what ``find`` has just found. Raises MessageRefused or StorageError if the revive log cannot be
        written."""
        popped = Popped(
            pop_time_ms=self._clock_ms(),
            revive_queue_id=ORDER_REVIVE_QUEUE_ID if header.order else self._log.next_queue_id(),
            rest_count=found.rest_count,
            free_at_ms=found.free_at_ms,
        )
        for topic, queue_id, start, result in found.queues:
            before_count = popped.message_count
            if result.chunks:
                self._take(popped, header, topic, queue_id, start, result, store_host)
            elif result.status in _NOTHING_WANTED and result.next_offset > start:
                self._offsets.commit(header.consumer_group, topic, queue_id, result.next_offset)
            if popped.message_count == before_count and start < result.next_offset < result.max_offset:
                popped.has_unseen = True
        if found.message_count and not popped.message_count:  # damaged messages took the place of others
            popped.has_unseen = True
        return popped

    def _find_in(self, found: FoundPops, header: PopHeader, topic: str, queue_id: int, wanted: MessageFilter) -> None:
        group = header.consumer_group
        start = self.offset(group, topic, queue_id, header.init_mode)
        if header.order:
            until_ms = self._orders.blocked_until_ms(group, topic, queue_id, header.attempt_id, header.invisible_time)
            if until_ms is not None:
                found.free_at_ms = min(until_ms, found.free_at_ms or until_ms)
                return
        count = header.max_msg_nums - found.message_count
        config = self._config
        has_enough = (  # ``isPopShouldStop``: messages that are popped in order do not count as in flight
            config.enable_pop_message_threshold
            and self._in_flight.count(topic, group, queue_id) >= config.pop_inflight_message_threshold
        )
        if count <= 0 or found.size_bytes >= POP_ENOUGH_BYTES or has_enough:
            found.rest_count += self._store.max_offset(topic, queue_id) - start
            return
        started_s = time.monotonic()
        try:
            result = self._store.get(topic, queue_id, start, count, wanted=wanted)
            if result.status in MOVED:
                start = result.next_offset
                self._offsets.commit(group, topic, queue_id, start)
                result = self._store.get(topic, queue_id, start, count, wanted=wanted)
        except NotCached as error:
            found.missing += error.missing
            found.rest_count += self._store.max_offset(topic, queue_id) - start
            return
        self._stats.note_get(started_s)
        found.queues.append((topic, queue_id, start, result))
        found.message_count += len(result.sizes)
        found.size_bytes += sum(result.sizes)
        found.rest_count += result.max_offset - result.next_offset

    def _take(
        self,
        popped: Popped,
        header: PopHeader,
        topic: str,
        queue_id: int,
        start: int,
        result: GetResult,
        store_host: bytes,
    ) -> None:
        """Takes the found messages of one queue: notes who has them, and adds them to the answer. In order, the group's
        offset stays before them until they are acknowledged; else the revive log says which messages come back unless
        they are acknowledged in time."""
        group = header.consumer_group
        offsets, chunks = self._chunks_of(popped, header, topic, queue_id, start, result)
        if not offsets:
            self._offsets.commit(group, topic, queue_id, result.next_offset)
            return
        source = retry_kind(topic), queue_id
        if header.order:
            counts = self._orders.popped(
                group, topic, queue_id, header.attempt_id, popped.pop_time_ms, header.invisible_time, offsets
            ).consumed_counts
            least = min(counts.values(), default=0) if len(counts) == len(offsets) else 0
            popped.order_counts.append((source, counts, least))
            self._offsets.commit(group, topic, queue_id, start)
        else:
            check_point = CheckPoint(
                broker_name=self._config.broker_name,
                consumer_group=group,
                offset_diffs=[offset - start for offset in offsets],
                invisible_time=header.invisible_time,
                message_count=len(offsets),
                pop_time=popped.pop_time_ms,
                queue_id=queue_id,
                start_offset=start,
                topic=topic,
            )
            self._log.put(check_point, popped.revive_queue_id, store_host)
            popped.taken_back.append(TakenQueue(topic, queue_id, start, len(offsets)))
            self._in_flight.popped(topic, group, queue_id, len(offsets))
            self._offsets.commit(group, topic, queue_id, result.next_offset)
        popped.starts[source] = start
        popped.offsets[source] = offsets
        popped.chunks += chunks
        popped.message_count += len(offsets)
        self._stats.gets[topic, group].add(len(offsets), sum(result.sizes))

    def _chunks_of(
        self, popped: Popped, header: PopHeader, topic: str, queue_id: int, start: int, result: GetResult
    ) -> tuple[list[int], list[bytes]]:
        """The queue offsets of the found messages, and their records as the client gets them. Damaged ones are left
        out."""
        is_as_first_sent = topic != header.topic and not self._config.pop_response_return_actual_retry_topic
        is_run = result.is_run and not topic.startswith(LIGHT_QUEUE_PREFIX)
        whole = list(range(start, result.next_offset)) if is_run else _queue_offsets_untrusted(topic, result, start)
        if whole is not None and not is_as_first_sent:
            return whole, result.chunks
        offsets: list[int] = []
        records: list[bytes] = []
        for record in result.records():
            try:
                offset = _queue_offset_untrusted(topic, record, start, result.next_offset)
                records.append(self._as_first_sent(record, popped, header, start) if is_as_first_sent else record)
                offsets.append(offset)
            except ProtocolError as error:  # a damaged message must not cost those beside it
                log.error("event=pop-message-damaged topic=%s queue=%d reason=%r", topic, queue_id, str(error))
        return offsets, records

    def _as_first_sent(self, record: bytes, popped: Popped, header: PopHeader, start: int) -> bytes:
        """A message of a retry topic, under the topic that the client asked for, with its handle in its properties."""
        message = decode_record_untrusted(record)
        handle = Handle(
            start, popped.pop_time_ms, header.invisible_time, popped.revive_queue_id, retry_kind(message.topic),
            self._config.broker_name, message.queue_id, message.queue_offset,
        )  # fmt: skip
        properties = message.properties | {props.POP_CK: str(handle)}
        return encode_record(
            msgspec.structs.replace(message, topic=header.topic, properties_raw=props.joined(properties))
        )

    # --- offsets -----------------------------------------------------------------------------------------------------

    def offset(self, group: str, topic: str, queue_id: int, init_mode: int) -> int:
        """Where the group's next pop of the queue starts. For a group without an offset, it is committed."""
        known = self._orders.known_offset(self._offsets, group, topic, queue_id)
        if known is not None:
            return known
        if init_mode == INIT_FROM_MIN or topic.startswith(RETRY_PREFIX):
            start = self._store.min_offset(topic, queue_id)
        else:
            start = start_near_end(self._store, topic, queue_id)
        self._offsets.commit(group, topic, queue_id, start)
        return start

    def peeked_offset(self, group: str, topic: str, queue_id: int) -> int:
        """As ``offset``, for requests that only look."""
        committed = self._offsets.committed(group, topic, queue_id)
        return committed if committed is not None and committed >= 0 else self._store.min_offset(topic, queue_id)

    def take_back(self, group: str, popped: Popped) -> None:
        """Makes the messages of a pop available again, because its check points are lost."""
        for topic, queue_id, start, message_count in popped.taken_back:
            self._in_flight.settled(topic, group, queue_id, popped.pop_time_ms, message_count)
            if (committed := self._offsets.committed(group, topic, queue_id)) is None or committed > start:
                self._offsets.commit(group, topic, queue_id, start)


def _queue_offsets_untrusted(topic: str, result: GetResult, start: int) -> list[int] | None:
    """The queue offsets of all messages, if each record has one from ``start`` to ``next_offset`` at the usual place;
    else None."""
    sizes, data = result.sizes, b"".join(result.chunks)
    if topic.startswith(LIGHT_QUEUE_PREFIX) or min(sizes) < RECORD_SIZE_MIN_BYTES or sum(sizes) != len(data):
        return None
    if sizes.count(sizes[0]) == len(sizes):  # as in many topics
        found = list(_queue_offsets_struct(sizes[0], len(sizes)).unpack(data))
    else:
        places = accumulate(sizes[:-1], initial=_QUEUE_OFFSET_AT)
        found = [queue_offset for (queue_offset,) in map(_QUEUE_OFFSET.unpack_from, repeat(data), places)]
    return found if start <= found[0] and found[-1] < result.next_offset and found == sorted(found) else None


@functools.lru_cache(maxsize=256)
def _queue_offsets_struct(size_bytes: int, count: int) -> struct.Struct:
    """Unpacks only the queue offsets of so many records of one size."""
    behind = size_bytes - _QUEUE_OFFSET_AT - _QUEUE_OFFSET.size
    return struct.Struct(">" + f"{_QUEUE_OFFSET_AT}xq{behind}x" * count)


def _queue_offset_untrusted(topic: str, record: bytes, start: int, end: int) -> int:
    """The message's offset in a queue of that topic. A record holds the one in the queue that it was sent to, and those
    in light queues in its properties. Raises ProtocolError if it is not one from ``start`` to ``end``."""
    if len(record) < RECORD_SIZE_MIN_BYTES:
        raise ProtocolError(f"a record of {len(record)} bytes")
    if topic.startswith(LIGHT_QUEUE_PREFIX):
        queue_offset = queue_offset_in_untrusted(decode_record_untrusted(record), topic)
    else:
        (queue_offset,) = _QUEUE_OFFSET.unpack_from(record, _QUEUE_OFFSET_AT)
    if not start <= queue_offset < end:
        raise ProtocolError(f"queue offset {queue_offset} is not one from {start} to {end}")
    return int(queue_offset)


def _is_turn(turn: int, percent: int) -> bool:
    """True in so many of a hundred turns, evenly spread."""
    return (turn + 1) * percent // 100 > turn * percent // 100
