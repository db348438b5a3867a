"""A member of a consumer group: it gets its share of the queues, hands their messages to the listener, and commits the
group's offsets (``DefaultMQPushConsumerImpl``, 5.5.0). It consumes concurrently or in order, and a message goes to one
member or to all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from rmqclient.consuming.deliveries import ConcurrentDeliveries, Deliveries
from rmqclient.consuming.group_member import UNSETTLED_MAX_COUNT, GroupMember, MemberOptions
from rmqclient.consuming.offset_store import offset_store
from rmqclient.consuming.orderly import OrderlyDeliveries
from rmqclient.consuming.pulled_queues import PulledQueues, Pulling
from rmqclient.consuming.queue_lease import QueueLeases
from rmqclient.consuming.rebalance import Allocation, Rebalance, Sticky
from rmqclient.consuming.start import ConsumeFrom, Start
from rmqclient.consuming.subscribing import MessageModel
from rmqclient.listener import BatchListener, Listener
from rmqproto.allocate import Strategy, averagely
from rmqproto.errors import UsageError
from rmqproto.filters.subscription import Sql92
from rmqproto.headers.consuming import PULL_BATCH_COUNT

BATCH_MAX_COUNT = 1024
"""Of a list for the listener, and of one pull, as in Java (``DefaultMQPushConsumerImpl.checkConfig``, 5.5.0)."""


class PushConsumer(GroupMember):
    """``async with PushConsumer("127.0.0.1:9876", "group", {"Topic": "TagA || TagB"}, listener):`` consumes until the
    body ends. Then the listener gets FINISH_TIMEOUT_S to finish, offsets are stored, and other members get the queues
    at once.

    Every message is consumed at least once. It comes again after a crash, or if its queue goes to another member while
    the listener has it. In order, a queue changes hands only between two messages.
    """

    def __init__(
        self,
        namesrv_addrs: str,
        group: str,
        subscriptions: Mapping[str, str | Sql92],
        listener: Listener | BatchListener,
        *,
        consume_from: ConsumeFrom | str = ConsumeFrom.LAST_OFFSET,
        consume_from_ms: int | None = None,
        max_in_flight: int = UNSETTLED_MAX_COUNT,
        consume_message_batch_max_size: int | None = None,
        pull_batch_size: int = PULL_BATCH_COUNT,
        allocate: Strategy | Sticky = averagely,
        orderly: bool = False,
        message_model: MessageModel | str = MessageModel.CLUSTERING,
        offset_dir: Path | None = None,
        **options: Unpack[MemberOptions],
    ):
        """``subscriptions``: topic to tag expression, or to ``Sql92("a > 5")``. ``consume_from_ms``, in ms since the
        epoch, is for TIMESTAMP (default: half an hour ago). ``max_in_flight``: pulled and unsettled messages per queue.
        All members of a group must subscribe alike and allocate alike. ``options`` are those of ``MemberOptions``.

        With ``consume_message_batch_max_size`` the listener gets lists of up to so many messages of one queue, and its
        result is for the whole list: if it fails, all of it comes again. ``pull_batch_size``: the most messages that
        one request brings, 1 to 1024; brokers send fewer (``maxTransferCountOnMessageInMemory``, 32 by default).

        ``orderly``: the messages of a queue are consumed one after the other. A message that fails comes again before
        the next, after ``suspend(seconds)`` or a second. BROADCASTING: every member gets every message, a message that
        fails is dropped, and offsets are kept in ``offset_dir``/CLIENT_ID/GROUP/offsets.json (default
        ``~/.rocketmq_offsets``); two members on one machine then need two values of ``instance_name``.

        UsageError for invalid arguments.
        """
        for name, count in (
            ("consume_message_batch_max_size", consume_message_batch_max_size),
            ("pull_batch_size", pull_batch_size),
        ):
            if count is not None and not 1 <= count <= BATCH_MAX_COUNT:
                raise UsageError(f"{name} is {count}, and may be 1 to {BATCH_MAX_COUNT}")
        super().__init__(
            namesrv_addrs,
            group,
            subscriptions,
            listener,
            start_at=Start.of(consume_from, consume_from_ms),
            batch_max_count=consume_message_batch_max_size,
            message_model=MessageModel.of(message_model),
            orderly=orderly,
            **options,
        )
        self._offset_dir = offset_dir
        self._max_in_flight = max_in_flight
        self._pull_batch_size = pull_batch_size
        allocation = Allocation(self._client, group, None if self._is_broadcasting else allocate, self._pulled)
        self._rebalance = Rebalance(self._client, self.subscriptions, allocation.ours, self._take)

    def _open(self) -> PulledQueues:
        failed, leases = self._failed, None
        deliveries: Deliveries
        if self._is_orderly:
            leases = None if self._is_broadcasting else QueueLeases(self._client, self.group)
            give_up = failed.drop if self._is_broadcasting else failed.give_up
            deliveries = OrderlyDeliveries(self._call, leases, give_up, self._reconsume_limit)
        else:
            send_back = failed.drop if self._is_broadcasting else failed.send_back
            deliveries = ConcurrentDeliveries(self._call, send_back)
        shared = Pulling(
            self.group,
            self._client,
            self._start_at,
            offset_store(self._client, self.group, self._message_model, self._offset_dir),
            self._rates,
            self._max_in_flight,
            commits_in_pulls=not self._is_broadcasting,
            pull_batch_size=self._pull_batch_size,
        )
        return PulledQueues(self._pulled, self.subscriptions, shared, deliveries, leases, self._assignment_changed)
