"""Who looks at POP and takes nothing (``PeekMessageProcessor``, ``NotificationProcessor``, ``PollingInfoProcessor``,
5.5.0)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqproto.headers.popping import NotificationAnswer, NotificationHeader, PeekHeader, PollingInfoHeader
from rmqserver.broker.consuming.pop.orders import Orders
from rmqserver.broker.consuming.pop.pop_checks import POP_COUNT_MAX, PopChecks
from rmqserver.broker.consuming.pop.pop_request import EARLY_MS
from rmqserver.broker.consuming.pop.popping import Popping
from rmqserver.broker.consuming.pop.waiting import NOTIFICATION, Waiting
from rmqserver.operation import Guarded, Peer
from rmqserver.store.results import GetResult, GetStatus

if TYPE_CHECKING:
    from rmqserver.broker.reads import Reads
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore

Seen = dict[tuple[str, int], tuple[int, int]]
"""By topic and queue id: the group's offset when a notification looked, and the queue offset up to which it looked."""

OnNotified = Callable[[NotificationAnswer], None]


class Peeked(msgspec.Struct):
    """``rest_count``: messages in the queues from the group's offsets on."""

    records: list[bytes]
    rest_count: int


class Looks:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, reads: Reads, checks: PopChecks, popping: Popping,
        orders: Orders, waiting: Waiting,
    ):  # fmt: skip
        self._config = config
        self._store = store
        self._popping = popping
        self._orders = orders
        self._waiting = waiting
        self._reads = reads
        self._checks = checks

    def peek(self, header: PeekHeader, peer: Peer) -> Callable[[], Peeked]:
        """A function that reads what the group would pop next, without filters. Messages of retry topics come as they
        are stored. Raises Refused."""
        group, count_max = header.consumer_group, min(header.max_msg_nums, POP_COUNT_MAX)
        self._checks.peek(peer)
        self._checks.topic_and_group(header.topic, header.queue_id, group, peer.address)
        sources = self._popping.sources(group, header.topic, header.queue_id)

        def look() -> Peeked:
            records: list[bytes] = []
            rest_count = 0
            for topic, queue_id in sources:
                start = self._popping.peeked_offset(group, topic, queue_id)
                rest_count += self._store.max_offset(topic, queue_id) - start
                if len(records) < count_max:
                    records += self._get(topic, queue_id, start, count_max - len(records)).records()
            return Peeked(records, rest_count)

        return look

    def _get(self, topic: str, queue_id: int, start: int, count: int) -> GetResult:
        result = self._store.get(topic, queue_id, start, count)
        if result.status in (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY):
            result = self._store.get(topic, queue_id, result.next_offset, count)
        return result

    def notify(self, header: NotificationHeader, peer: Peer, then: OnNotified, guarded: Guarded) -> None:
        """``then`` is told when the group has a message to pop, or that it has none until the header's time is up. What
        could not be looked at until then counts as wanted. Raises Refused."""
        self._checks.peek(peer)
        self._checks.topic_and_group(header.topic, header.queue_id, header.consumer_group, peer.address)
        wanted = EVERYTHING
        if self._config.use_message_filter_for_notification:
            wanted = self._checks.wanted(header)
        deadline_ms = self._waiting.deadline_ms(header.born_time, header.poll_time - EARLY_MS)
        seen = Seen()

        def look() -> None:
            self._reads.read(partial(self._has_message, header, wanted, seen), looked, guarded)

        def looked(has_message: bool | None) -> None:
            is_full = False
            if not has_message and self._waiting.has_time(deadline_ms):
                go_on = partial(guarded, look)
                if has_message is None:
                    self._waiting.go_on_next_turn(NOTIFICATION, header, peer, go_on)
                    return
                if self._waiting.hold(NOTIFICATION, header, peer, deadline_ms, go_on, wanted):
                    return
                is_full = True
            then(NotificationAnswer(has_msg=has_message is not False, polling_full=is_full))

        look()

    def _has_message(self, header: NotificationHeader, wanted: MessageFilter, seen: Seen) -> bool | None:
        """Looks at a portion of each queue. None: it found nothing, and there is more to look at."""
        group = header.consumer_group
        has_unseen = False
        for topic, queue_id in self._popping.sources(group, header.topic, header.queue_id):
            if header.order and self._orders.blocked_until_ms(group, topic, queue_id, header.attempt_id, 0):
                continue
            offset = self._popping.peeked_offset(group, topic, queue_id)
            before, behind = seen.get((topic, queue_id), (0, 0))
            start = max(offset, behind) if offset >= before else offset  # an operator may have reset the group
            if self._store.max_offset(topic, queue_id) <= start:
                continue
            if wanted is EVERYTHING:
                return True
            result = self._store.get(topic, queue_id, start, 1, wanted=wanted)
            if result.chunks:
                return True
            seen[topic, queue_id] = offset, result.next_offset
            has_unseen |= start < result.next_offset < result.max_offset
        return None if has_unseen else False

    def polling_count(self, header: PollingInfoHeader, peer: Peer) -> int:
        """How many pops wait for the queue. Raises Refused."""
        self._checks.peek(peer)
        self._checks.topic_and_group(header.topic, header.queue_id, header.consumer_group, peer.address)
        return self._waiting.pops_held_for(header.topic, header.consumer_group, header.queue_id)
