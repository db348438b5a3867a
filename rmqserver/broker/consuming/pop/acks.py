"""Acknowledges popped messages and changes their invisible time (``AckMessageProcessor``,
``ChangeInvisibleTimeProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from rmqproto.bodies.popping import AckMessage, BatchAck, CheckPoint
from rmqproto.codes import ResponseCode
from rmqproto.headers.popping import AckHeader, ChangeInvisibleTimeAnswer, ChangeInvisibleTimeHeader
from rmqproto.java.java_numbers import saturated
from rmqproto.pop import ORDER_REVIVE_QUEUE_ID, Handle, diffs_of_untrusted, parse_handle_untrusted, real_topic
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.consuming.lite_pops import LitePops
    from rmqserver.broker.consuming.pop.orders import Orders
    from rmqserver.broker.consuming.pop.pop_checks import PopChecks
    from rmqserver.broker.consuming.pop.revive_log import ReviveLog
    from rmqserver.broker.consuming.pop.waiting import Waiting
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.operation import Peer
    from rmqserver.store.message_store import MessageStore


class Acks:
    def __init__(
        self, store: MessageStore, offsets: ConsumerOffsets, stats: BrokerStats, address: OwnAddress, checks: PopChecks,
        orders: Orders, revive_log: ReviveLog, waiting: Waiting, lite_pops: LitePops,
    ):  # fmt: skip
        self._lite_pops = lite_pops
        self._store = store
        self._offsets = offsets
        self._address = address
        self._stats = stats
        self._clock_ms = store.clock_ms
        self._log = revive_log
        self._orders = orders
        self._waiting = waiting
        self._in_flight = revive_log.in_flight
        self._checks = checks

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def ack(self, header: AckHeader, peer: Peer, handle: Handle | None = None) -> None:
        """Acknowledges a message; ``handle`` is the header's, if it was read before. Raises Refused if there is no such
        topic, queue or message, or if the revive log cannot be written; ProtocolError if the handle cannot be read."""
        self._checks.acked_queue(header.topic, header.queue_id, peer.address)
        if header.lite_topic:
            self._lite_pops.ack(header, header.lite_topic)
            return
        queue = self._store.queues.find(header.topic, header.queue_id)
        low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
        if not low <= header.offset <= high:
            text = (
                f"offset is illegal, key:{header.topic}@{header.queue_id}, commit:{header.offset}, store:{low}~{high}"
            )
            raise Refused(ResponseCode.NO_MESSAGE, text)
        if handle is None:
            handle = parse_handle_untrusted(header.extra_info)
        if handle.is_ordered:
            self._ack_ordered(header.consumer_group, header.topic, header.queue_id, header.offset, handle, peer)
        else:
            store_host = self._address.record_host(peer)
            self._put_ack(header.consumer_group, header.topic, header.queue_id, handle, [header.offset], store_host)

    def ack_together(self, group: str, topic: str, handle: Handle, offsets: list[int], peer: Peer) -> None:
        """As ``ack``, for messages of one pop that is not in order: with one entry, and only if all can be
        acknowledged. ``handle`` is that of any of them."""
        self._checks.acked_queue(topic, handle.queue_id, peer.address)
        queue = self._store.queues.find(topic, handle.queue_id)
        if queue is None or not queue.min_offset <= min(offsets) <= max(offsets) <= queue.max_offset:
            raise Refused(ResponseCode.NO_MESSAGE, "an offset is illegal")
        self._put_ack(group, topic, handle.queue_id, handle, offsets, self._address.record_host(peer))

    def ack_batch(self, ack: BatchAck, broker_name: str | None, peer: Peer) -> None:
        """As ``ack``, but skips offsets at which the queue has no message."""
        topic = real_topic(ack.topic, ack.consumer_group, ack.retry)
        queue = self._store.queues.find(topic, ack.queue_id)
        if queue is None:
            return
        low, high, start = queue.min_offset, queue.max_offset, ack.start_offset
        offsets = [start + diff for diff in diffs_of_untrusted(ack.bits)]  # ascending
        if offsets and not low <= offsets[0] <= offsets[-1] <= high:
            offsets = [offset for offset in offsets if low <= offset <= high]
        if ack.revive_queue_id == ORDER_REVIVE_QUEUE_ID:
            handle = Handle(
                start, ack.pop_time, ack.invisible_time, ack.revive_queue_id, ack.retry, broker_name or "",
                ack.queue_id, start,
            )  # fmt: skip
            for offset in offsets:
                self._ack_ordered(ack.consumer_group, topic, ack.queue_id, offset, handle, peer)
        elif offsets:
            entry = AckMessage(
                ack_offsets=offsets,
                broker_name=UNSET if broker_name is None else broker_name,
                consumer_group=ack.consumer_group,
                pop_time=ack.pop_time,
                queue_id=ack.queue_id,
                start_offset=start,
                topic=topic,
            )
            self._put(entry, ack.revive_queue_id, self._address.record_host(peer))

    def _put_ack(
        self, group: str, topic: str, queue_id: int, handle: Handle, offsets: list[int], store_host: bytes
    ) -> None:
        entry = AckMessage(
            broker_name=handle.broker_name,
            consumer_group=group,
            pop_time=handle.pop_time_ms,
            queue_id=queue_id,
            start_offset=handle.start_offset,
            topic=topic,
        )
        if len(offsets) == 1:
            entry.ack_offset = offsets[0]
        else:
            entry.ack_offsets = sorted(offsets)
        self._put(entry, handle.revive_queue_id, store_host)

    def _put(self, entry: AckMessage | CheckPoint, revive_queue_id: int, store_host: bytes) -> None:
        """Writes to the revive log. Raises Refused if the handle names a missing revive queue, or nothing can be
        written."""
        if not 0 <= revive_queue_id < self._log.queue_nums:
            text = f"reviveQid {revive_queue_id} of the handle is none of the {self._log.queue_nums} revive queues"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, text)
        try:
            self._log.put(entry, revive_queue_id, store_host)
            if isinstance(entry, CheckPoint):
                self._in_flight.popped(entry.topic, entry.consumer_group, entry.queue_id, entry.message_count)
            else:
                topic, group, count = entry.topic, entry.consumer_group, len(entry.offsets)
                self._in_flight.settled(topic, group, entry.queue_id, entry.pop_time, count)
                self._stats.add("GROUP_ACK_NUMS", f"{topic}@{group}", count)
        except MessageRefused as refused:
            raise Refused(ResponseCode.SYSTEM_ERROR, refused.status.value) from None

    def _ack_ordered(self, group: str, topic: str, queue_id: int, offset: int, handle: Handle, peer: Peer) -> None:
        """``ackOrderly``: the group's offset moves on when no earlier message is out."""
        old = self._offsets.committed(group, topic, queue_id)
        if old is not None and offset < old:
            return
        try:
            next_offset = self._orders.ack(group, topic, queue_id, offset, handle.pop_time_ms)
        except ValueError:
            text = (
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{old if old is not None else -1}, "
                f"commit:{offset}, next:-1, /{peer.address}"
            )
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, text) from None
        if next_offset is None:
            return
        if not self._offsets.has_reset(group, topic, queue_id):
            self._offsets.commit(group, topic, queue_id, next_offset)
        if self._orders.blocked_until_ms(group, topic, queue_id, None, handle.invisible_time_ms) is None:
            self._waiting.wake(topic, group, queue_id)

    # --- change of the invisible time --------------------------------------------------------------------------------

    def change(self, header: ChangeInvisibleTimeHeader, peer: Peer) -> ChangeInvisibleTimeAnswer:
        """Makes the message invisible from now on, for the header's time. Raises as ``ack``."""
        self._checks.acked_queue(header.topic, header.queue_id, peer.address)
        if header.lite_topic:
            return self._lite_pops.change(header, header.lite_topic)
        low = self._store.min_offset(header.topic, header.queue_id)
        if not low <= header.offset < self._store.max_offset(header.topic, header.queue_id):
            raise Refused(ResponseCode.NO_MESSAGE, UNSET_REMARK)
        handle = parse_handle_untrusted(header.extra_info)
        return (self._change_ordered if handle.is_ordered else self._change_unordered)(header, handle, peer)

    def _change_unordered(
        self, header: ChangeInvisibleTimeHeader, handle: Handle, peer: Peer
    ) -> ChangeInvisibleTimeAnswer:
        """Puts a check point for this message alone, then acknowledges the message in the old one.

        The new pop time is always later than the old one. If it were the same after two changes within a millisecond,
        the acknowledgement would also hit the new check point, and the message would never come again."""
        pop_time_ms = saturated(max(self._clock_ms(), handle.pop_time_ms + 1))
        check_point = CheckPoint(
            broker_name=handle.broker_name,
            consumer_group=header.consumer_group,
            offset_diffs=[0],
            invisible_time=header.invisible_time,
            message_count=1,
            pop_time=pop_time_ms,
            queue_id=header.queue_id,
            start_offset=header.offset,
            is_suspended=bool(header.suspend),
            topic=header.topic,
        )
        store_host = self._address.record_host(peer)
        self._put(check_point, handle.revive_queue_id, store_host)
        self._put_ack(header.consumer_group, header.topic, header.queue_id, handle, [header.offset], store_host)
        return ChangeInvisibleTimeAnswer(
            pop_time=pop_time_ms, invisible_time=header.invisible_time, revive_qid=handle.revive_queue_id
        )

    def _change_ordered(
        self, header: ChangeInvisibleTimeHeader, handle: Handle, peer: Peer
    ) -> ChangeInvisibleTimeAnswer:
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        old = self._offsets.committed(group, topic, queue_id)
        if old is not None and header.offset < old:
            return ChangeInvisibleTimeAnswer()
        until_ms = saturated(self._clock_ms() + header.invisible_time)
        self._orders.hide(group, topic, queue_id, header.offset, handle.pop_time_ms, until_ms)
        self._waiting.wake(topic, group, queue_id)  # a pop that is held waits for the time before
        return ChangeInvisibleTimeAnswer(
            pop_time=handle.pop_time_ms, invisible_time=until_ms - handle.pop_time_ms, revive_qid=ORDER_REVIVE_QUEUE_ID
        )
