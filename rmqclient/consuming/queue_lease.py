"""The locks that give a queue to one member of a group at a time, so that it is consumed in order. They are taken at
the queue's broker, renewed while they are wanted, and given back (``RebalanceImpl.lock`` and ``lockAll``, 5.5.0)."""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

import anyio

from rmqclient.parking import ParkingLot
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import LockAnswer, LockRequest
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError, RocketMQError
from rmqproto.wire import fastjson

log = logging.getLogger(__name__)

RENEW_INTERVAL_S = 20.0
"""``rocketmq.client.rebalance.lockInterval``."""

LEASE_S = 30.0
"""How long a lock counts as ours without renewal (``rocketmq.client.rebalance.lockMaxLiveTime``): brokers keep it for
60 s."""


class QueueLeases:
    """``renew_forever`` must run in a task."""

    def __init__(self, client: ClientInstance, group: str):
        self._client = client
        self._group = group
        self._held_until_s: dict[MessageQueue, float] = {}  # a past time for a lost lock that is still wanted
        self._changed = ParkingLot()

    async def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Locks queues. Returns those that are ours now; they are renewed from now on. Queues of a broker that cannot
        be asked are not locked."""
        return await self._lock(queues, lambda queue: True)

    async def _lock(
        self, queues: Collection[MessageQueue], is_wanted: Callable[[MessageQueue], bool]
    ) -> set[MessageQueue]:
        """As ``lock``, but only for queues that are still wanted when their broker is asked and when it has
        answered."""
        held: set[MessageQueue] = set()
        for broker_name, all_of_broker in self._by_leader(sorted(queues)).items():
            of_broker = list(filter(is_wanted, all_of_broker))
            if not of_broker:
                continue
            asked_s = anyio.current_time()
            try:
                answer = await self._ask(RequestCode.LOCK_BATCH_MQ, broker_name, of_broker)
                granted = fastjson.loads_untrusted(answer, LockAnswer).lock_ok_mq_set
            except RocketMQError as error:
                log.warning("queues not locked group=%s broker=%s error=%s", self._group, broker_name, error)
                continue
            ours = set(filter(is_wanted, set(granted) & set(of_broker)))
            held |= ours
            self._held_until_s.update(dict.fromkeys(ours, asked_s + LEASE_S))
        self._changed.unpark_all()
        return held

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Gives locks back. A broker that cannot be told frees the queues after 60 s."""
        given = self._by_leader(queue for queue in queues if self._held_until_s.pop(queue, None) is not None)
        for broker_name, of_broker in given.items():
            try:
                await self._ask(RequestCode.UNLOCK_BATCH_MQ, broker_name, of_broker)
            except RocketMQError as error:
                log.warning("queues not unlocked group=%s broker=%s error=%s", self._group, broker_name, error)

    async def unlock_all(self) -> None:
        await self.unlock(list(self._held_until_s))

    async def renew_forever(self) -> None:
        while True:
            await anyio.sleep(RENEW_INTERVAL_S)
            wanted = list(self._held_until_s)
            held = await self._lock(wanted, self._held_until_s.__contains__)  # some may be given back meanwhile
            if lost := {queue for queue in wanted if queue in self._held_until_s} - held:
                log.warning("queues lost to other members for now group=%s queues=%s", self._group, sorted(lost))

    def is_held(self, queue: MessageQueue) -> bool:
        return anyio.current_time() < self._held_until_s.get(queue, 0.0)

    def locked_s(self, queue: MessageQueue) -> float | None:
        """When the lock was last taken or renewed, by ``anyio.current_time()``. None: never."""
        until_s = self._held_until_s.get(queue)
        return None if until_s is None else until_s - LEASE_S

    async def wait_held(self, queue: MessageQueue) -> None:
        """Waits until the lock is ours."""
        while not self.is_held(queue):
            await self._changed.park()

    def _by_leader(self, queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        """Groups the queues by the broker that has them now. Queues that no broker has are left out."""
        found: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            with contextlib.suppress(ConnectError):
                found[self._client.routes.placed(queue).broker_name].append(queue)
        return found

    async def _ask(self, code: RequestCode, broker_name: str, queues: list[MessageQueue]) -> bytes:
        request = LockRequest(client_id=self._client.client_id, consumer_group=self._group, mq_set=queues)
        address = self._client.routes.master(broker_name)
        return (await self._client.channels.request(address, code, body=fastjson.dumps(request))).body
