"""The routes of the topics that this client uses, asked of the name servers in turn and kept fresh.

A known route is kept if no name server can be reached, or a name server has just lost a restarting broker. The client
then continues with the old route, as Apache's clients do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

from rmqclient.remoting.channels import Channels
from rmqclient.sending import DEFAULT_TOPIC_QUEUE_NUMS
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicRoute
from rmqproto.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from rmqproto.errors import (
    ConnectError,
    NotConnectedError,
    ProtocolError,
    RefusedError,
    RequestTimeoutError,
    RocketMQError,
)
from rmqproto.ha import MASTER_ID
from rmqproto.headers.nameserver import RouteHeader
from rmqproto.message.special_messages import LIGHT_QUEUE_ID
from rmqproto.names import AUTO_CREATE_TOPIC
from rmqproto.queue_mapping import is_mock_broker, leaders_untrusted
from rmqproto.wire import fastjson

log = logging.getLogger(__name__)

REFRESH_INTERVAL_S = 30.0
REFRESH_APART_MIN_S = 0.1
REFRESH_APART_MAX_S = 1.0
REFRESH_APART_GROWTH = 1.5
"""While brokers fail, routes are asked for again after the first of these pauses. The pause then grows by the third, up
to the second: the name server needs a moment to learn of a new master. With a factor of 2, a producer was without a
master for 0.8 s although the set had one after 0.4 s."""

ROUTES_MAX = 10_000
"""Topics whose routes are kept. If there are more, the route that was asked for first is dropped."""


@dataclass(frozen=True, slots=True)
class TopicQueues:
    """The queues of a route. ``writable`` are queues whose broker has a master. Brokers are in the order of their
    names, as in Apache's clients. ``lacks_master``: a broker of the route has none now. ``ordered``: the queues among
    which a key has its place. They stay while a broker has no master and, with an order configuration
    (``updateOrderConf``), when queues are added."""

    readable: tuple[MessageQueue, ...]
    writable: tuple[MessageQueue, ...]
    ordered: tuple[MessageQueue, ...]
    lacks_master: bool = False


class Routes:
    """``refresh_forever`` must run in a task. ``on_change`` is called when the queues of a topic have changed."""

    def __init__(self, namesrv_addrs: list[str], channels: Channels, on_change: Callable[[], None] = lambda: None):
        self._namesrv_addrs = list(namesrv_addrs)
        self._channels = channels
        self._on_change = on_change
        self._queues: dict[str, TopicQueues] = {}
        self._borrowed: set[str] = set()  # topics that use another's route until a broker creates them
        self._addresses: dict[str, dict[int, str]] = {}  # by broker name and id
        self._leaders: dict[str, dict[MessageQueue, str]] = {}  # of the logical queues of static topics, by topic
        self._asking = anyio.Lock()
        self._wake = anyio.Event()

    def known(self, topic: str) -> TopicQueues | None:
        """The known queues, without a request."""
        return self._queues.get(topic)

    async def queues(self, topic: str, *, create: bool = False) -> TopicQueues:
        """The known queues, or those that a name server returns. With ``create``, a topic that does not exist gets
        queues on the brokers that create topics automatically.

        RefusedError with code 17 for a topic that does not exist; ConnectError or RequestTimeoutError if no name server
        answers.
        """
        known = self._queues.get(topic)
        if known is not None and (create or topic not in self._borrowed):
            return known
        async with self._asking:
            known = self._queues.get(topic)  # another task may have asked in the meantime
            if known is not None and (create or topic not in self._borrowed):
                return known
            try:
                return self._learn(topic, await self._ask(topic))
            except RefusedError as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST or not create:
                    raise
            return self._borrow(topic, await self._ask(AUTO_CREATE_TOPIC))

    async def light_queues(self, topic: str, name: str) -> list[MessageQueue]:
        """The light queue of that name on each broker of a topic. Errors as ``queues``."""
        brokers = {queue.broker_name for queue in (await self.queues(topic)).readable}
        return [MessageQueue(name, broker_name, LIGHT_QUEUE_ID) for broker_name in sorted(brokers)]

    def placed(self, queue: MessageQueue) -> MessageQueue:
        """The queue with the name of the broker that has it now. It differs from ``queue`` only for a logical queue of
        a static topic. ConnectError if no broker has it."""
        leaders = self._leaders.get(queue.topic)
        if leaders is None or not is_mock_broker(queue.broker_name):
            return queue
        name = leaders.get(queue)
        if name is None:
            raise ConnectError(f"no broker says that it has logical queue {queue.queue_id} of topic {queue.topic}")
        return MessageQueue(queue.topic, name, queue.queue_id)

    def master_of(self, queue: MessageQueue) -> str:
        """The address of the master. ConnectError as ``placed``, NotConnectedError as ``master``."""
        return self.master(self.placed(queue).broker_name)

    def replica_of(self, queue: MessageQueue, broker_id: int) -> str:
        """The address of a replica. ConnectError as ``placed`` and ``replica``."""
        return self.replica(self.placed(queue).broker_name, broker_id)

    def master(self, broker_name: str) -> str:
        """The address of the master. NotConnectedError if no master is known."""
        address = self._addresses.get(broker_name, {}).get(MASTER_ID)
        if address is None:
            raise NotConnectedError(f"no master of broker {broker_name} is known")
        return address

    def replica(self, broker_name: str, broker_id: int) -> str:
        """The address of one replica, else of the master, else of any. ConnectError if none is known."""
        addresses = self._addresses.get(broker_name, {})
        address = addresses.get(broker_id) or addresses.get(MASTER_ID) or next(iter(addresses.values()), None)
        if address is None:
            raise ConnectError(f"no address of broker {broker_name} is known")
        return address

    def broker_addresses(self) -> set[str]:
        """Every address of every broker in a known route."""
        return {address for addresses in self._addresses.values() for address in addresses.values()}

    def refresh_soon(self) -> None:
        """Asks for routes again soon: a broker failed, or no broker takes messages of a topic. If a master has handed
        over, only a refusal shows it."""
        self._wake.set()

    @contextmanager
    def looking_for_master(self) -> Iterator[None]:
        """For a request of the application to a broker: after an error, asks for routes again soon, so that the next
        request may reach another master."""
        try:
            yield
        except RocketMQError:
            self.refresh_soon()
            raise

    async def refresh_forever(self) -> None:
        """Asks for the route of every known topic again, periodically."""
        asked, self._wake = self._wake, anyio.Event()  # one of an earlier run belongs to that run's event loop
        if asked.is_set():
            self._wake.set()
        apart_s, rested_s = REFRESH_APART_MIN_S, anyio.current_time()
        while True:
            with anyio.move_on_after(REFRESH_INTERVAL_S):
                await self._wake.wait()
            was_quiet = anyio.current_time() > rested_s + REFRESH_APART_MAX_S
            apart_s = REFRESH_APART_MIN_S if was_quiet else min(REFRESH_APART_GROWTH * apart_s, REFRESH_APART_MAX_S)
            self._wake = anyio.Event()
            for topic in list(self._queues):
                await self._refresh(topic)
            await anyio.sleep(apart_s)
            rested_s = anyio.current_time()

    async def _refresh(self, topic: str) -> None:
        before = self._queues.get(topic)
        try:
            async with self._asking:
                self._learn(topic, await self._ask(topic))
        except RocketMQError as error:
            log.debug("route not refreshed topic=%s error=%s", topic, error)
        if self._queues.get(topic) != before:
            self._on_change()

    async def _ask(self, topic: str) -> TopicRoute:
        """The route of ``topic`` from the first name server that answers, which is then asked first."""
        header = RouteHeader(topic=topic, accept_standard_json_only=True)
        failure: RocketMQError | None = None
        for address in list(self._namesrv_addrs):
            try:
                answer = await self._channels.request(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
                route = fastjson.loads_untrusted(answer.body, TopicRoute)
            except (ConnectError, RequestTimeoutError, ProtocolError) as error:
                failure = error
                log.warning("name server does not answer address=%s error=%s", address, error)
                self._namesrv_addrs.remove(address)
                self._namesrv_addrs.append(address)
            else:
                return route
        assert failure is not None
        raise failure

    def _learn(self, topic: str, route: TopicRoute) -> TopicQueues:
        self._note_addresses(route)
        self._borrowed.discard(topic)
        if route.topic_queue_mapping_by_broker:
            # A static topic's queues, in the order of their numbers (``ClientMetadata``, 5.5.0).
            leaders = self._leaders[topic] = leaders_untrusted(topic, route.topic_queue_mapping_by_broker)
            logical = tuple(sorted(leaders))
            return self._keep(topic, TopicQueues(readable=logical, writable=logical, ordered=logical))
        self._leaders.pop(topic, None)
        masters = {broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
        data = sorted(route.queue_datas, key=lambda queues: queues.broker_name)
        permitted = [each for each in data if each.perm & PERM_WRITE]
        counts = _order_conf(route.order_topic_conf) or [
            (each.broker_name, each.write_queue_nums) for each in permitted
        ]
        queues = TopicQueues(
            readable=tuple(
                MessageQueue(topic, each.broker_name, queue_id)
                for each in data
                if each.perm & PERM_READ
                for queue_id in range(each.read_queue_nums)
            ),
            writable=tuple(
                MessageQueue(topic, each.broker_name, queue_id)
                for each in permitted
                if each.broker_name in masters
                for queue_id in range(each.write_queue_nums)
            ),
            ordered=tuple(MessageQueue(topic, name, queue_id) for name, count in counts for queue_id in range(count)),
            lacks_master=any(each.broker_name not in masters for each in data),
        )
        return self._keep(topic, queues)

    def _borrow(self, topic: str, template: TopicRoute) -> TopicQueues:
        """The queues that brokers will create for a topic at its first message."""
        self._note_addresses(template)
        self._borrowed.add(topic)
        writable = tuple(
            MessageQueue(topic, each.broker_name, queue_id)
            for each in sorted(template.queue_datas, key=lambda queues: queues.broker_name)
            for queue_id in range(min(DEFAULT_TOPIC_QUEUE_NUMS, each.read_queue_nums, each.write_queue_nums))
        )
        return self._keep(topic, TopicQueues(readable=(), writable=writable, ordered=writable))

    def _keep(self, topic: str, queues: TopicQueues) -> TopicQueues:
        if topic not in self._queues and len(self._queues) >= ROUTES_MAX:
            oldest = next(iter(self._queues))
            del self._queues[oldest]
            self._borrowed.discard(oldest)
            self._leaders.pop(oldest, None)
        self._queues[topic] = queues
        return queues

    def _note_addresses(self, route: TopicRoute) -> None:
        for broker in route.broker_datas:
            if broker.broker_addrs:
                self._addresses[broker.broker_name] = broker.broker_addrs


def _order_conf(text: str | None) -> list[tuple[str, int]]:
    """Broker names and queue counts of an order configuration, ``broker-a:4;broker-b:4``, in its order; nothing if
    there is none, or none that can be read (``topicRouteData2TopicPublishInfo``, 5.5.0)."""
    found = []
    for part in (text or "").split(";"):
        name, _, count = part.partition(":")
        if not name or not count.isascii() or not count.isdigit():
            return []
        found.append((name, int(count)))
    return found
