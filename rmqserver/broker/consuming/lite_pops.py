"""Pops of lite topics, and acknowledging what they took: always in order, each lite topic by itself
(``PopLiteMessageProcessor``, ``AckMessageProcessor.ackLite``, 5.5.0). Which messages are out is kept in memory: after a
restart they come again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rmqproto.codes import ResponseCode
from rmqproto.headers.popping import AckHeader, ChangeInvisibleTimeAnswer, ChangeInvisibleTimeHeader, PopLiteHeader
from rmqproto.java.java_numbers import saturated
from rmqproto.message.special_messages import LIGHT_QUEUE_ID
from rmqproto.names import lite_queue_name
from rmqproto.pop import ORDER_REVIVE_QUEUE_ID, Handle, parse_handle_untrusted
from rmqserver.broker.consuming.holds import Held, WakeKey
from rmqserver.broker.consuming.lite_subscriptions import BIND_TOPIC, LiteClient, LiteSubscriptions, Ready, client_key
from rmqserver.broker.consuming.offset_requests import start_near_end
from rmqserver.broker.consuming.pop.popping import POP_ENOUGH_BYTES
from rmqserver.broker.consuming.pop.waiting import LITE_POP, Waiting
from rmqserver.operation import Guarded, Peer, Refused
from rmqserver.store.disk.cached_reads import NotCached, Place
from rmqserver.store.results import MOVED, GetStatus

if TYPE_CHECKING:
    from rmqserver.broker.consuming.pop.orders import Orders
    from rmqserver.broker.consuming.pop.pop_checks import PopChecks
    from rmqserver.broker.reads import Reads
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)


class LitePopped(msgspec.Struct):
    """``counts``: how often each of the records was delivered before. ``free_at_ms``: when the first blocked lite topic
    is free; None if none is blocked. ``missing``: what was not in memory of other lite topics."""

    now_ms: int
    records: list[bytes] = []
    counts: list[int] = []
    free_at_ms: int | None = None
    missing: list[Place] = []


OnLitePopped = Callable[[ResponseCode, LitePopped], None]


class LitePops:
    """``orders`` holds only the orders of lite topics."""

    def __init__(
        self, store: MessageStore, offsets: ConsumerOffsets, stats: BrokerStats, reads: Reads, checks: PopChecks,
        subscriptions: LiteSubscriptions, ready: Ready, orders: Orders, waiting: Waiting,
    ):  # fmt: skip
        self._store = store
        self._offsets = offsets
        self._stats = stats
        self._reads = reads
        self._checks = checks
        self._clock_ms = store.clock_ms
        self._subscriptions = subscriptions
        self._ready = ready
        self._orders = orders
        self._waiting = waiting

    # --- popping -----------------------------------------------------------------------------------------------------

    def pop(self, header: PopLiteHeader, peer: Peer, then: OnLitePopped, guarded: Guarded) -> None:
        """Takes messages and calls ``then`` with them. Waits for some until the header's time is up. Raises Refused."""
        self._checks.lite_pop(header, peer)
        client = self._client_of(header)
        if client is not None:
            client.last_access_ms = self._clock_ms()
            for queue in self._offsets.topics_to_reset(header.consumer_group):  # resets come without a notice
                self._ready.offer(queue, header.consumer_group)

        deadline_ms = self._waiting.deadline_ms(header.born_time, header.poll_time)

        def look() -> None:
            self._reads.read(partial(self._pop, header), popped, guarded)

        def popped(found: LitePopped) -> None:
            code = self._after(header, peer, found, deadline_ms, partial(guarded, look))
            if code is not None:
                then(code, found)

        look()

    def _client_of(self, header: PopLiteHeader) -> LiteClient | None:
        client = self._subscriptions.by_client.get(header.client_id)
        return client if client is not None and client.group == header.consumer_group else None

    def _after(
        self, header: PopLiteHeader, peer: Peer, popped: LitePopped, deadline_ms: int, go_on: Callable[[], None]
    ) -> ResponseCode | None:
        """The code for what was popped; None if the request waits, and will ``go_on``."""
        client = self._client_of(header)
        self._reads.warm(popped.missing)
        if popped.records:
            if client is not None:
                self._ready.offer_rest(client)
            return ResponseCode.SUCCESS
        if not self._waiting.has_time(deadline_ms):
            return ResponseCode.POLLING_TIMEOUT
        if client is not None and self._has_unblocked(header, client):
            self._waiting.look_on(peer, go_on, client.wake_key)
            return None
        key = client.wake_key if client is not None else client_key(header.client_id)
        until_ms = self._waiting.until_ms(deadline_ms, popped.free_at_ms)
        return None if self._hold(peer, key, until_ms, go_on) else ResponseCode.POLLING_FULL

    def _pop(self, header: PopLiteHeader) -> LitePopped:
        """Takes what is ready for the client. Raises NotCached if nothing of it is in memory."""
        popped = LitePopped(self._clock_ms())
        client = self._client_of(header)
        if client is None:
            return popped
        for queue in list(client.ready):
            until_ms = self._orders.blocked_until_ms(
                header.consumer_group, queue, LIGHT_QUEUE_ID, header.attempt_id, header.invisible_time
            )
            if until_ms is not None:
                popped.free_at_ms = min(until_ms, popped.free_at_ms or until_ms)
                continue
            if len(popped.records) >= header.max_msg_num or sum(map(len, popped.records)) >= POP_ENOUGH_BYTES:
                break
            del client.ready[queue]
            try:
                has_more = self._pop_queue(header, queue, popped)
            except NotCached as error:
                client.ready[queue] = None
                popped.missing += error.missing
                continue
            if has_more:
                client.ready[queue] = None  # behind the others: there may be more
        if popped.missing and not popped.records:
            raise NotCached(popped.missing)
        return popped

    def _has_unblocked(self, header: PopLiteHeader, client: LiteClient) -> bool:
        """Whether a lite topic that is ready, and that no message blocks, was not looked at."""
        return any(
            self._orders.blocked_until_ms(
                header.consumer_group, queue, LIGHT_QUEUE_ID, header.attempt_id, header.invisible_time
            )
            is None
            for queue in client.ready
        )

    def _pop_queue(self, header: PopLiteHeader, queue: str, popped: LitePopped) -> bool:
        """Pops from one lite topic; returns whether there may be more."""
        group, count = header.consumer_group, header.max_msg_num - len(popped.records)
        start = self._start(group, queue)
        started_s = time.monotonic()
        result = self._store.get(queue, LIGHT_QUEUE_ID, start, count)
        if result.status in MOVED:
            start = result.next_offset
            self._offsets.commit(group, queue, LIGHT_QUEUE_ID, start)
            result = self._store.get(queue, LIGHT_QUEUE_ID, start, count)
        self._stats.note_get(started_s)
        if result.status is not GetStatus.FOUND:
            if start < result.next_offset < result.max_offset:  # damaged or expired; messages behind it can be read
                self._offsets.commit(group, queue, LIGHT_QUEUE_ID, result.next_offset)
                return True
            return False
        found = result.records()
        offsets = list(range(result.next_offset - len(found), result.next_offset))
        out = self._orders.popped(
            group, queue, LIGHT_QUEUE_ID, header.attempt_id, popped.now_ms, header.invisible_time, offsets
        )
        self._offsets.commit(group, queue, LIGHT_QUEUE_ID, offsets[0])
        popped.records += found
        popped.counts += [out.consumed_counts.get(offset, 0) for offset in offsets]
        self._stats.gets[header.topic, group].add(len(found), sum(result.sizes))
        return True

    def _start(self, group: str, queue: str) -> int:
        """Where the group's next pop of a lite topic begins. A new group begins at the first message of a young lite
        topic, and at the last message of an old one."""
        known = self._orders.known_offset(self._offsets, group, queue, LIGHT_QUEUE_ID)
        return start_near_end(self._store, queue, LIGHT_QUEUE_ID) if known is None else known

    def _hold(self, peer: Peer, key: WakeKey, until_ms: int, go_on: Callable[[], None]) -> bool:
        if not self._waiting.has_place(LITE_POP, key):
            return False
        held = Held(
            waiter=peer,
            keys=(key, (LITE_POP,)),
            line=key,
            deadline_ms=until_ms,
            go_on=partial(self._waiting.go_on_later, peer, go_on, key),
        )
        return self._waiting.holds.hold(held)

    # --- acknowledging -----------------------------------------------------------------------------------------------

    def ack(self, header: AckHeader, lite_topic: str) -> None:
        """Acknowledges a message. The group's offset moves on when no earlier one is out. Refuses as Apache's broker
        does."""
        queue, handle = self._popped_from(header, lite_topic)
        if header.offset > self._store.max_offset(queue, LIGHT_QUEUE_ID):
            raise Refused(ResponseCode.NO_MESSAGE, "ack offset illegal.")
        group = header.consumer_group
        try:
            next_offset = self._orders.ack(group, queue, LIGHT_QUEUE_ID, header.offset, handle.pop_time_ms)
        except ValueError:
            log.warning("event=lite-ack-passed-over group=%s queue=%s offset=%d", group, queue, header.offset)
            return
        if next_offset is None:
            return
        self._offsets.commit(group, queue, LIGHT_QUEUE_ID, next_offset)
        self._ready.offer(queue, group)  # messages still out may be free sooner than this one would have been

    def change(self, header: ChangeInvisibleTimeHeader, lite_topic: str) -> ChangeInvisibleTimeAnswer:
        """Makes the message, and with it the lite topic, invisible for the header's time. With ``suspend``, all
        messages that are out become invisible, and their next delivery is not counted."""
        queue, handle = self._popped_from(header, lite_topic)
        until_ms = saturated(self._clock_ms() + header.invisible_time)
        group = header.consumer_group
        if header.suspend:
            self._orders.suspend(group, queue, LIGHT_QUEUE_ID, handle.pop_time_ms, until_ms)
        else:
            self._orders.hide(group, queue, LIGHT_QUEUE_ID, header.offset, handle.pop_time_ms, until_ms)
        self._ready.offer(queue, group)  # pops that wait for it ask again when it is free
        return ChangeInvisibleTimeAnswer(
            pop_time=handle.pop_time_ms,
            invisible_time=until_ms - handle.pop_time_ms,
            revive_qid=ORDER_REVIVE_QUEUE_ID,
        )

    def _popped_from(self, header: AckHeader, lite_topic: str) -> tuple[str, Handle]:
        if self._subscriptions.attribute(header.consumer_group, BIND_TOPIC) != header.topic:
            raise Refused(ResponseCode.INVALID_PARAMETER, "group type or bind topic not match.")
        handle = parse_handle_untrusted(header.extra_info)
        if header.queue_id != LIGHT_QUEUE_ID or not handle.is_ordered:
            raise Refused(ResponseCode.INVALID_PARAMETER, "ack queue illegal.")
        return lite_queue_name(header.topic, lite_topic), handle
