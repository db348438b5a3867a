"""POP in order: which messages of a queue a group has out. The group gets no others of the queue while one of them is
neither acknowledged nor past its invisible time (``ConsumerOrderInfoManager``, 5.5.0). Kept in
``config/consumerOrderInfo.json``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.base import Body
from rmqproto.java.java_numbers import Int64
from rmqserver.broker.tables.config_table import from_file
from rmqserver.broker.tables.consumer_offsets import SEPARATOR, ConsumerOffsets

if TYPE_CHECKING:
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.store.disk.config_files import ConfigFiles, Document

FILE_NAME = "consumerOrderInfo.json"
UNUSED_MAX_MS = 24 * 3_600_000
"""An entry that is unused for so long is forgotten (CLEAN_SPAN_FROM_LAST)."""


class QueueOrder(Body, kw_only=True):
    """The messages that a group has out of one queue. Offsets are queue offsets: ``offset_list`` holds the first, and
    for each other its distance from the first. Bit ``n`` of ``acked_bits`` says that message number ``n`` is
    acknowledged. Times are in ms."""

    attempt_id: str | None = msgspec.field(default=None, name="a")
    acked_bits: Int64 = msgspec.field(default=0, name="cm")
    invisible_time: Int64 | None = msgspec.field(default=None, name="i")
    last_consume_timestamp: Int64 = msgspec.field(default=0, name="l")
    offset_list: list[Int64] = msgspec.field(default_factory=list, name="o")
    consumed_counts: dict[Int64, int] = msgspec.field(default_factory=dict, name="oc")
    next_visible_times: dict[Int64, Int64] = msgspec.field(default_factory=dict, name="ot")
    pop_time: Int64 = 0

    @property
    def offsets(self) -> list[int]:
        first = self.offset_list[:1]
        return first + [first[0] + distance for distance in self.offset_list[1:]]

    @property
    def waiting(self) -> list[int]:
        """The offsets that are not acknowledged."""
        return [offset for number, offset in enumerate(self.offsets) if not self.acked_bits >> number & 1]

    def blocked_until_ms(self, now_ms: int) -> int | None:
        """When the first message that blocks the queue becomes visible again; None if none blocks it."""
        for offset in self.waiting:
            until_ms = self.next_visible_times.get(offset, self.pop_time + (self.invisible_time or 0))
            if now_ms < until_ms:
                return until_ms
        return None


class _File(Body, kw_only=True):
    order_info_count: int = 0
    ordered_consumption_level: str = "QUEUE"
    table: dict[str, dict[int, QueueOrder]] = {}


class Orders:
    def __init__(self, files: ConfigFiles, topics: TopicTable, groups: GroupTable, clock_ms: Callable[[], int]):
        self._files = files
        self._topics = topics
        self._groups = groups
        self._clock_ms = clock_ms
        self._table: dict[str, dict[int, QueueOrder]] = {}
        self._is_changed = False

    @property
    def count(self) -> int:
        """The number of queues of which a group has or had messages out."""
        return sum(map(len, self._table.values()))

    def load(self) -> None:
        """Raises StorageError if the file is not ours."""
        self._table = from_file(self._files.load(FILE_NAME), _File, FILE_NAME).table

    def save(self) -> None:
        """Saves the table if anything changed since the last time, without what is not used any more."""
        if self._is_changed:
            self._is_changed = False
            oldest_ms = self._clock_ms() - UNUSED_MAX_MS
            for key, queues in list(self._table.items()):
                topic, _, group = key.partition(SEPARATOR)
                if self._topics.get(topic) is None or self._groups.get(group) is None:
                    queues.clear()
                for queue_id in [each for each, out in queues.items() if out.last_consume_timestamp < oldest_ms]:
                    del queues[queue_id]
                if not queues:
                    del self._table[key]
            self._files.save(FILE_NAME, self.document())

    def document(self) -> Document:
        document: Document = msgspec.to_builtins(_File(order_info_count=self.count, table=self._table))
        return document

    def blocked_until_ms(
        self, group: str, topic: str, queue_id: int, attempt_id: str | None, invisible_time_ms: int
    ) -> int | None:
        """When the group may pop from the queue again; None: now. The same attempt may, and gets the same messages."""
        out = self._table.get(f"{topic}@{group}", {}).get(queue_id)
        if out is None or (out.attempt_id is not None and out.attempt_id == attempt_id):
            return None
        if (out.invisible_time or 0) <= 0:
            out.invisible_time = invisible_time_ms
        return out.blocked_until_ms(self._clock_ms())

    def popped(
        self,
        group: str,
        topic: str,
        queue_id: int,
        attempt_id: str | None,
        pop_time_ms: int,
        invisible_time_ms: int,
        offsets: Sequence[int],
    ) -> QueueOrder:
        """Notes that the group has these messages out now. The result says how often it had them before."""
        queues = self._table.setdefault(f"{topic}@{group}", {})
        before = queues.get(queue_id)
        distances = [offset - offsets[0] for offset in offsets[1:]]
        out = QueueOrder(
            attempt_id=attempt_id,
            invisible_time=invisible_time_ms,
            last_consume_timestamp=self._clock_ms(),
            offset_list=[offsets[0], *distances],
            pop_time=pop_time_ms,
        )
        if before is not None and before.attempt_id is not None and before.attempt_id == attempt_id:
            out.consumed_counts = before.consumed_counts
        elif before is not None:
            known = set(before.offsets)
            out.consumed_counts = {
                offset: before.consumed_counts.get(offset, 0) + 1 for offset in offsets if offset in known
            }
        queues[queue_id] = out
        self._is_changed = True
        return out

    def ack(self, group: str, topic: str, queue_id: int, queue_offset: int, pop_time_ms: int) -> int | None:
        """Acknowledges a message. Returns the queue offset to commit, up to which the group is done; None if another
        pop has the queue now. Raises ValueError if the message is not out."""
        out = self._table.get(f"{topic}@{group}", {}).get(queue_id)
        if out is None:
            return queue_offset + 1
        if out.offset_list and out.pop_time != pop_time_ms:
            return None
        offsets = out.offsets
        out.acked_bits |= 1 << offsets.index(queue_offset)
        self._is_changed = True
        waiting = out.waiting
        return waiting[0] if waiting else offsets[-1] + 1

    def hide(self, group: str, topic: str, queue_id: int, queue_offset: int, pop_time_ms: int, until_ms: int) -> None:
        """Makes a message invisible until then; does nothing if another pop has the queue now."""
        out = self._table.get(f"{topic}@{group}", {}).get(queue_id)
        if out is not None and out.pop_time == pop_time_ms:
            out.next_visible_times[queue_offset] = until_ms
            self._is_changed = True

    def suspend(self, group: str, topic: str, queue_id: int, pop_time_ms: int, until_ms: int) -> None:
        """Makes all messages that are out invisible until then; their next delivery is not counted."""
        out = self._table.get(f"{topic}@{group}", {}).get(queue_id)
        if out is not None and out.pop_time == pop_time_ms:
            out.consumed_counts = {offset: max(count - 1, 0) for offset, count in out.consumed_counts.items()}
            out.next_visible_times.clear()
            out.invisible_time = until_ms - pop_time_ms
            self._is_changed = True

    def known_offset(self, offsets: ConsumerOffsets, group: str, topic: str, queue_id: int) -> int | None:
        """Where the group goes on; None if it has no offset. An operator's reset that waits counts from now on: nothing
        is out in order any more."""
        reset = offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            self.clear(group, topic, queue_id)
            offsets.commit(group, topic, queue_id, reset)
            return reset
        committed = offsets.committed(group, topic, queue_id)
        return committed if committed is not None and committed >= 0 else None

    def clear(self, group: str, topic: str, queue_id: int) -> None:
        """Forgets what is out of a queue because the group's offset was reset."""
        if self._table.get(f"{topic}@{group}", {}).pop(queue_id, None) is not None:
            self._is_changed = True
