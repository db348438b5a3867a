"""The target cluster of a replay as a task uses it: it sends batches, and finds the messages that have arrived since
the fence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from rmqclient.blocking import BlockingClient
from rmqclient.tls import tls_context
from rmqproto.codes import PERM_READ_WRITE
from rmqproto.errors import NotFoundError, StorageError
from rmqproto.message.record import decode_records_untrusted
from rmqreplay.ledger.ledger import Fence
from rmqreplay.ledger.letters import REPLAY_ID
from rmqreplay.sending.delivery import Batch, BatchOutcome, DeliveryError
from rmqreplay.sending.sender import BatchSender, by_source_queue, round_robin, unless_refused
from rmqreplay.source.live import PLAIN, ClusterAccess, LiveCluster, queue_bounds
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import READ_TIMEOUT_S, OneBroker, PullRules, persist, pull_range

PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"

QUEUE_WAIT_S = 0.2
"""A broker answers "busy" to a request that waited longer in its send queue (``waitTimeMillsInSendQueue``)."""

DISPATCH_WAIT_S = 0.8
"""An appended message appears in its queue once it is dispatched; a busy broker may be this far behind."""


def settle_s(send_timeout_s: float) -> float:
    """How long a message may still appear in its queue after a permit has ended."""
    return send_timeout_s + QUEUE_WAIT_S + DISPATCH_WAIT_S


class ReplayTarget:
    """``fences`` name every queue that may be written to, and the offset from which to look. Brokers that are away when
    it is made are waited for. The caller closes it."""

    def __init__(
        self,
        name_server: str,
        fences: Sequence[Fence],
        job: str,
        access: ClusterAccess = PLAIN,
        *,
        keep_order: bool,
        send_timeout_s: float,
    ):
        self._fences = list(fences)
        self._job = job
        self._timeout_s = send_timeout_s
        self._access = access
        self._settled_at = 0.0
        queues = [fence.queue for fence in fences]
        with access.cluster(name_server) as cluster:
            self._addresses = persist(partial(_masters, cluster, fences), cluster.forget_routes, READ_TIMEOUT_S)
        self._sender = BatchSender(
            self._addresses,
            by_source_queue(queues) if keep_order else round_robin(queues),
            access,
            producer_group=PRODUCER_GROUP,
            send_timeout_s=send_timeout_s,
        )

    def put(self, batch: Batch, not_after: float, extend: Callable[[], float]) -> bool:
        went_out = self._sender.put(batch, not_after, extend)
        self._settled_at = time.monotonic() + settle_s(self._timeout_s)
        return went_out

    def outcomes(self) -> list[BatchOutcome]:
        return unless_refused(self._sender.outcomes())

    def settle(self) -> None:
        time.sleep(max(0.0, self._settled_at - time.monotonic()))

    def look(self) -> set[str]:
        # A new client, because open connections may be broken without a sign.
        access, tls = self._access, tls_context(self._access.tls)
        with BlockingClient(access.credentials, tls=tls, address_map=access.address_map) as client:
            return set(replay_ids_since(self._fences, self._addresses, self._job, client))

    def close(self) -> None:
        self._sender.close()


def _masters(cluster: LiveCluster, fences: Sequence[Fence]) -> dict[str, str]:
    return {fence.broker_name: cluster.master(fence.topic, fence.broker_name) for fence in fences}


def replay_ids_since(
    fences: Sequence[Fence], addresses: Mapping[str, str], job: str, client: BlockingClient
) -> Iterator[str]:
    """The replay ids of ``job`` in the target's queues, from the fences to the current ends, including doubles.
    DeliveryError if the target no longer has the messages at a fence, so that the result would be incomplete."""
    mark = f"{REPLAY_ID}\x01{job}:".encode()
    for fence in fences:
        queue, address = fence.queue, addresses[fence.broker_name]
        first, last = queue_bounds(client, address, queue)
        if first > fence.queue_offset:
            raise DeliveryError(
                f"the target's retention has passed the fence at {fence.queue_offset} of {fence.topic}",
                hint="what was sent cannot be found any more; raise the target's fileReservedTime",
            )
        # A topic that was made anew, or a master that lost its end, is shorter, and has what was sent since below.
        wanted = OffsetRange(queue, fence.queue_offset if fence.queue_offset <= last else first, last)
        for body in pull_range(OneBroker(client, address), wanted, PullRules()):
            if mark in body:
                found = (message.properties.get(REPLAY_ID) for message in decode_records_untrusted(body))
                yield from (each for each in found if each is not None and each.startswith(job + ":"))


def replay_ids_in(cluster: LiveCluster, fences: Sequence[Fence], job: str) -> Iterator[str]:
    """As ``replay_ids_since``, of a cluster's masters."""
    return replay_ids_since(fences, _masters(cluster, fences), job, cluster.connections)


def read_fences(cluster: LiveCluster, topics: Sequence[str]) -> list[Fence]:
    """The current ends of all queues of the topics. NotFoundError for a topic that does not exist; StorageError for one
    that is not both writable and readable, because messages that cannot be read cannot be checked."""
    fences = []
    for topic in topics:
        cluster.forget_route(topic)
        route = cluster.route(topic)
        if not route:
            raise NotFoundError(
                f"the target topic {topic} does not exist",
                hint="create it (updateTopic), or start its brokers: no name server knows it",
            )
        for broker_name, (queues, _) in sorted(route.items()):
            if queues.perm & PERM_READ_WRITE != PERM_READ_WRITE:
                continue
            address = cluster.master(topic, broker_name)
            for queue_id in range(min(queues.read_queue_nums, queues.write_queue_nums)):
                end = cluster.admin.max_offset(address, topic, queue_id)
                fences.append(Fence(topic, broker_name, queue_id, max(0, end)))
        if not any(fence.topic == topic for fence in fences):
            raise StorageError(
                f"the target topic {topic} cannot be both written and read (perm 6)",
                hint="a replay looks at what has arrived before it sends again; updateTopicPerm can allow it",
            )
    return fences
