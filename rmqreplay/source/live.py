"""A live cluster as a source: routes, and the ends of queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rmqclient.addresses import NO_MAP, AddressMap
from rmqclient.admin import AdminClient
from rmqclient.tls import TlsFiles, tls_context
from rmqclient.unread_queues import queues_past_unknown
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, QueueData
from rmqproto.codes import PERM_READ, RequestCode, ResponseCode
from rmqproto.errors import NotConnectedError, NotFoundError, RefusedError, UsageError
from rmqproto.filters.sql92 import Sql92Error, compile_sql92
from rmqproto.filters.subscription import SQL92, subscription_data
from rmqproto.ha import MASTER_ID
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import OffsetAnswer, QueueHeader
from rmqproto.wire.credentials import Credentials
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import READER_GROUP

if TYPE_CHECKING:
    from rmqclient.blocking import BlockingClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """How a cluster is reached. TLS files are read where connections are made."""

    credentials: Credentials | None = None
    tls: TlsFiles | None = None
    address_map: AddressMap = NO_MAP
    client: BlockingClient | None = None
    """Open connections with these credentials, TLS and map, which stay open; None opens some."""

    def cluster(self, name_server: str) -> LiveCluster:
        return LiveCluster(name_server, self)

    def apart(self) -> ClusterAccess:
        """The same without open connections, for other processes."""
        return ClusterAccess(credentials=self.credentials, tls=self.tls, address_map=self.address_map)


PLAIN = ClusterAccess()


class LiveCluster:
    """The positions of a cluster's queues. Routes are asked for once. Use with ``with``, or ``close`` it."""

    def __init__(
        self,
        name_server: str,
        access: ClusterAccess = PLAIN,
        *,
        read_from: str = "master",
        reader_group: str = READER_GROUP,
        timeout_s: float = 5.0,
    ):
        context = tls_context(access.tls) if access.client is None else None
        self.admin = AdminClient(
            name_server, access.credentials, timeout_s, tls=context, address_map=access.address_map,
            client=access.client,
        )  # fmt: skip
        self.connections = self.admin.connections
        self._read_from = read_from
        self._reader_group = reader_group
        self._routes: dict[str, dict[str, tuple[QueueData, BrokerData]]] = {}
        self._queues: dict[tuple[str, str], list[MessageQueue]] = {}
        self.not_searched: list[str] = []
        """What a person must hear: where queues past a topic's counts could not be looked for, and why."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.admin.close()

    def topics(self) -> list[str]:
        return sorted(self.admin.topic_list())

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that may be read, sorted, with those that consumers do not read (``unread_queues``)."""
        return sorted(queue for broker_name in self.route(topic) for queue in self.broker_queues(topic, broker_name))

    def broker_queues(self, topic: str, broker_name: str) -> list[MessageQueue]:
        """Those of one broker of the route. They are looked for once."""
        found = self._queues.get((topic, broker_name))
        if found is None:
            ids = self._queue_ids(topic, self.route(topic)[broker_name][0])
            found = self._queues[topic, broker_name] = [MessageQueue(topic, broker_name, each) for each in ids]
        return found

    def _queue_ids(self, topic: str, queue: QueueData) -> list[int]:
        if not queue.perm & PERM_READ:
            return []
        queue_nums = max(queue.read_queue_nums, queue.write_queue_nums)
        try:
            address = self.reading_address(MessageQueue(topic, queue.broker_name, 0))
            past = self.admin.queues_past(address, topic, queue_nums)
        except RefusedError as error:  # not allowed to ask
            self.not_searched.append(queues_past_unknown(topic, queue_nums, queue.broker_name, error))
            past = []
        return [*range(queue_nums), *past]

    def route(self, topic: str) -> dict[str, tuple[QueueData, BrokerData]]:
        """The queues and addresses by broker name; empty for a topic that no name server knows."""
        if topic not in self._routes:
            try:
                found = self.admin.topic_route(topic)
            except RefusedError as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                self._routes[topic] = {}
            else:
                brokers = {broker.broker_name: broker for broker in found.broker_datas}
                self._routes[topic] = {
                    queue.broker_name: (queue, brokers[queue.broker_name])
                    for queue in found.queue_datas
                    if queue.broker_name in brokers
                }
        return self._routes[topic]

    def groups(self, topic: str) -> list[str]:
        """The consumer groups that read the topic, as far as its brokers know."""
        addresses = [self.master(topic, broker_name) for broker_name in self.route(topic)]
        return sorted({group for address in addresses for group in self.admin.groups_of_topic(address, topic)})

    def forget_route(self, topic: str) -> None:
        for broker_name in self._routes.pop(topic, {}):
            self._queues.pop((topic, broker_name), None)

    def forget_routes(self) -> None:
        self._routes.clear()
        self._queues.clear()

    def renew_route(self, topic: str) -> None:
        """Asks for the route again. Queues are looked for again where a broker tells other counts."""
        before = self._routes.pop(topic, {})
        for broker_name, (queue, _) in self.route(topic).items():
            if broker_name not in before or before[broker_name][0] != queue:
                self._queues.pop((topic, broker_name), None)

    def master(self, topic: str, broker_name: str) -> str:
        """The address of the master. NotFoundError if the broker does not have the topic, NotConnectedError if it has
        no master now."""
        entry = self.route(topic).get(broker_name)
        if entry is None:
            raise NotFoundError(f"broker {broker_name} has no topic {topic}")
        if entry[1].master_addr is None:
            raise NotConnectedError(f"broker {broker_name} has no master now")
        return entry[1].master_addr

    def reading_address(self, queue: MessageQueue) -> str:
        entry = self.route(queue.topic).get(queue.broker_name)
        if self._read_from == "slave" and entry is not None:
            slaves = [address for number, address in sorted(entry[1].broker_addrs.items()) if number != MASTER_ID]
            if slaves:
                return slaves[0]
        return self.master(queue.topic, queue.broker_name)

    def pulling_address(self, queue: MessageQueue) -> str:
        """As ``reading_address``; where no name server knows the topic there, the master of that broker, which can say
        whether it is gone."""
        try:
            return self.reading_address(queue)
        except NotFoundError:
            broker = self.admin.cluster_info().broker_addr_table.get(queue.broker_name)
            if broker is None or broker.master_addr is None:
                raise
            return broker.master_addr

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        address = self.reading_address(queue)
        first = self.admin.min_offset(address, queue.topic, queue.queue_id)
        return first, max(first, self.admin.max_offset(address, queue.topic, queue.queue_id))

    def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        return self.admin.search_offset(self.reading_address(queue), queue.topic, queue.queue_id, timestamp_ms)

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        address = self.master(queue.topic, queue.broker_name)
        return self.admin.consumer_offset(address, group, queue.topic, queue.queue_id)

    def check_sql92(self, ranges: Sequence[OffsetRange], expression: str) -> None:
        """RefusedError if a broker does not support SQL92, or cannot parse the expression. In a pull such an expression
        would silently match everything."""
        for queue in {(each.queue.topic, each.queue.broker_name): each.queue for each in ranges}.values():
            subscription = subscription_data(queue.topic, expression, version=0, expression_type=SQL92)
            address = self.master(queue.topic, queue.broker_name)
            self.admin.check_client_config(address, self._reader_group, "spark", subscription)


OpenCluster = Callable[[str], LiveCluster]
"""Opens a cluster by its name servers, over existing connections or new ones."""


def checked_sql92(expression: str | None) -> str | None:
    """The expression. UsageError, in Apache's words on one line, if it does not compile: a pull would return all."""
    if expression is not None:
        try:
            compile_sql92(expression)
        except Sql92Error as error:
            raise UsageError("sql92: " + " ".join(str(error).split())) from None
    return expression


def queue_bounds(client: BlockingClient, address: str, queue: MessageQueue) -> tuple[int, int]:
    """The first queue offset that exists, and the one that the next message will get."""
    header = QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
    codes = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
    first, last = (from_ext(client.request(address, code, header).ext, OffsetAnswer).offset for code in codes)
    return max(0, first), max(0, last)
