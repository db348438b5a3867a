"""Which clients subscribe to which lite topics: LITE_SUBSCRIPTION_CTL (200071) (``LiteSubscriptionRegistryImpl``,
5.5.0). A lite topic is known here by its light queue. What a client subscribes to is forgotten with its connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.bodies.lite import ClientGroup, LiteSubscriptionChange, LiteSubscriptionCtl, OffsetOption
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.fastjson import loads_untrusted
from rmqproto.headers.lite import UnsubscribeLiteHeader
from rmqproto.names import LIGHT_QUEUE_PREFIX, lite_queue_name
from rmqserver.remoting.answer import Refused, Request, success
from rmqserver.store.queues.light import LIGHT_QUEUE_ID, is_light

if TYPE_CHECKING:
    from rmqserver.broker.consuming.pop.orders import Orders
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

BIND_TOPIC, SUB_MODEL, WILDCARD = "lite.bind.topic", "lite.sub.model", "lite.sub.wildcard"
RESET_ON_UNSUBSCRIBE = "lite.sub.reset.offset.unsubscribe"
CLIENTS_MAX = 50_000

FROM_MIN, FROM_MAX = 1, 2
"""Values of an offset option of type POLICY; 0 leaves the group where it is."""


class LiteClient(msgspec.Struct):
    """One client's subscription; ``queues`` in the order of their turn. Times in ms."""

    client_id: str
    group: str
    topic: str
    connection: Connection
    queues: dict[str, None] = {}
    last_access_ms: int = 0


class LiteSubscriptions:
    def __init__(self, parts: BrokerParts, orders: Orders):
        self.by_client: dict[str, LiteClient] = {}
        self._by_queue: dict[str, dict[str, LiteClient]] = {}
        self._config = parts.config
        self._groups = parts.groups
        self._holds = parts.holds
        self._offsets = parts.offsets
        self._store = parts.store
        self._clock_ms = parts.clock_ms
        self._orders = orders
        self.count = 0
        """Lite topics subscribed to, of all clients together."""

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.LITE_SUBSCRIPTION_CTL: self._change}

    def connection_closed(self, connection: Connection) -> None:
        for client in [one for one in self.by_client.values() if one.connection is connection]:
            self._forget(client)

    # --- asking ------------------------------------------------------------------------------------------------------

    def attribute(self, group: str, name: str) -> str:
        """One of a group's attributes; empty for an unknown group."""
        config = self._groups.get(group)
        return config.attributes.get(name, "") if config is not None else ""

    def bound_groups(self) -> dict[str, list[str]]:
        """Lite groups by parent topic."""
        found: dict[str, list[str]] = {}
        for name, config in self._groups.all().items():
            if topic := config.attributes.get(BIND_TOPIC):
                found.setdefault(topic, []).append(name)
        return found

    def subscribers(self, queue: str) -> list[ClientGroup]:
        return [ClientGroup(client_id=one.client_id, group=one.group) for one in self._by_queue.get(queue, {}).values()]

    def of_group(self, group: str) -> Iterator[LiteClient]:
        return (client for client in self.by_client.values() if client.group == group)

    # --- changing ----------------------------------------------------------------------------------------------------

    def _change(self, request: Request[Any], connection: Connection) -> bytes:
        if not request.body:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "Request body is null.")
        changes = loads_untrusted(request.body, LiteSubscriptionCtl).subscription_set
        if not changes:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "LiteSubscriptionCtlRequestBody is empty.")
        for change in changes:
            if change.client_id and change.group and change.topic:
                self.change(change, change.client_id, change.group, change.topic, connection)
        return success(request)

    def change(
        self, change: LiteSubscriptionChange, client_id: str, group: str, topic: str, connection: Connection
    ) -> None:
        """Refused with 604 if the group may not consume, with 2018 for one lite topic too many."""
        names = [lite_queue_name(topic, name) for name in change.lite_topic_set or ()]
        queues = [name for name in dict.fromkeys(names) if is_light(name)]
        if change.action == "COMPLETE_REMOVE":
            if (client := self.by_client.get(client_id)) is not None:
                self._forget(client)
            return
        if change.action == "PARTIAL_REMOVE":
            if (client := self.by_client.get(client_id)) is not None:
                self._remove(client, queues)
            return
        if change.action not in ("PARTIAL_ADD", "COMPLETE_ADD"):
            return
        self._check(group)
        client = self._client(client_id, group, topic, connection)
        if change.action == "COMPLETE_ADD":
            wanted = set(queues)
            self._remove(client, [name for name in client.queues if name not in wanted])
            self._add(client, [name for name in queues if name not in client.queues], None)
        else:
            self._add(client, queues, change.offset_option)
        self._holds.wake(client_key(client_id))  # its pop waits for what it had subscribed to before

    def _check(self, group: str) -> None:
        config = self._groups.get(group)
        if config is None or not config.consume_enable:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "Consumer group is not allowed to consume.")
        if config.attributes.get(WILDCARD):
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "subscribe lite operation is not supported for this group")

    def _client(self, client_id: str, group: str, topic: str, connection: Connection) -> LiteClient:
        client = self.by_client.get(client_id)
        if client is not None and (client.group, client.topic) != (group, topic):
            self._forget(client)
            client = None
        if client is None:
            if len(self.by_client) >= CLIENTS_MAX:
                raise Refused(ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, f"{CLIENTS_MAX} clients subscribe already")
            client = self.by_client[client_id] = LiteClient(client_id, group, topic, connection)
        client.connection = connection
        client.last_access_ms = self._clock_ms()
        return client

    def _add(self, client: LiteClient, queues: Iterable[str], option: OffsetOption | None) -> None:
        is_exclusive = self.attribute(client.group, SUB_MODEL) == "Exclusive"
        for queue in queues:
            if queue not in client.queues:
                if self.count >= self._config.max_lite_subscription_count:
                    text = f"lite subscription quota exceeded {self._config.max_lite_subscription_count}"
                    raise Refused(ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, text)
                client.queues[queue] = None
                self._by_queue.setdefault(queue, {})[client.client_id] = client
                self.count += 1
            if is_exclusive:
                self._exclude_others(client, queue)
            if option is not None:
                self._reset(client.group, queue, option)

    def _exclude_others(self, client: LiteClient, queue: str) -> None:
        for other in list(self._by_queue[queue].values()):
            if other is not client and other.group == client.group:
                self._remove(other, [queue])
                self._tell_gone(other, queue)

    def _tell_gone(self, client: LiteClient, queue: str) -> None:
        lite_topic = queue.removeprefix(f"{LIGHT_QUEUE_PREFIX}${client.topic}$")
        header = UnsubscribeLiteHeader(lite_topic=lite_topic, consumer_group=client.group, client_id=client.client_id)
        client.connection.notify(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, header, b"")

    def _remove(self, client: LiteClient, queues: Iterable[str]) -> None:
        resets = self.attribute(client.group, RESET_ON_UNSUBSCRIBE).lower() == "true"
        for queue in queues:
            if queue not in client.queues:
                continue
            del client.queues[queue]
            self.count -= 1
            clients = self._by_queue[queue]
            del clients[client.client_id]
            if not clients:
                del self._by_queue[queue]
            if resets:
                self._reset(client.group, queue, OffsetOption(value=FROM_MIN))

    def _forget(self, client: LiteClient) -> None:
        self._remove(client, list(client.queues))
        del self.by_client[client.client_id]

    def forget_queue(self, queue: str) -> None:
        """The lite topic is gone: its subscribers are told."""
        for client in list(self._by_queue.get(queue, {}).values()):
            self._remove(client, [queue])
            self._tell_gone(client, queue)

    def _reset(self, group: str, queue: str, option: OffsetOption) -> None:
        """Moves the group in a lite topic."""
        low, high = (each(queue, LIGHT_QUEUE_ID) for each in (self._store.min_offset, self._store.max_offset))
        if option.type == "POLICY":
            wanted = {FROM_MIN: low, FROM_MAX: high}.get(option.value)
        elif option.type == "OFFSET":
            wanted = option.value
        elif option.type == "TAIL_N":
            wanted = high - option.value
        elif option.type == "TIMESTAMP":
            wanted = self._store.offset_for_time(queue, LIGHT_QUEUE_ID, option.value)
        else:
            return
        if wanted is not None:
            self._orders.clear(group, queue, LIGHT_QUEUE_ID)
            self._offsets.commit(group, queue, LIGHT_QUEUE_ID, min(max(wanted, low), high))


def client_key(client_id: str) -> tuple[str, str]:
    """Of the table of held requests: the pop of one client."""
    return "lite", client_id
