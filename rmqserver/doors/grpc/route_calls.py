"""Which queues a topic has, and whom a client asks for them (``RouteActivity``, 5.5.0): those of this broker, and those
of the cluster's other brokers, as a nameserver knows them.

Each of our brokers takes gRPC clients on its own port. One that is alone is named by the address by which the client
came: it may have come through a mapped port. A broker of a set is named by its master's address, and where the client's
library takes several addresses in their order, the slaves' follow: they pass it on when another is the master.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqproto.allocate import POP_ALL_QUEUES
from rmqproto.codes import MESSAGE_TYPE, PERM_READ, PERM_WRITE
from rmqproto.codes import TopicMessageType as Type
from rmqserver.doors.grpc.call_checks import check_topic, checked_names
from rmqserver.doors.grpc.codes import OK, Code, refuse_if
from rmqserver.doors.grpc.messages import CLASSES, value
from rmqserver.doors.way_to_master import may_pass_connections

if TYPE_CHECKING:
    from rmqproto.bodies.routes import TopicConfig, TopicRoute
    from rmqserver.broker.broker import Broker
    from rmqserver.doors.grpc.link import GrpcCall

_DOMAIN_NAME = value("AddressScheme", "DOMAIN_NAME")
_MIXED = (Type.NORMAL, Type.FIFO, Type.DELAY, Type.TRANSACTION)
_ANY = (*_MIXED, Type.PRIORITY, Type.LITE)
"""For a topic that this broker does not have: clients compare types before they send, and its brokers check them."""
_TAKE_SEVERAL = (b"JAVA", b"GO", b"CPP", b"DOTNET")
"""Languages whose clients use the addresses in their order. Node's cannot read more than one, Python's sorts them."""


class _Queues(NamedTuple):
    """A topic's queues on one broker. Without addresses, the client goes on asking where it came."""

    broker_name: str
    perm: int
    read_nums: int
    write_nums: int
    addresses: list[str]


class RouteCalls:
    def __init__(self, broker: Broker):
        self._config = broker.config
        self._topics = broker.topics
        self._groups = broker.groups
        self._ask_route = broker.ask_route
        self._is_slave = broker.slave is not None
        self._do_slaves_pass_on = may_pass_connections(broker)

    def query(self, call: GrpcCall, request: Any) -> None:
        check_topic(request.topic.name)
        self._find(call, request, self._answer_query)

    def _answer_query(self, call: GrpcCall, request: Any, found: list[_Queues]) -> None:
        answer = CLASSES["QueryRouteResponse"](status=OK)
        config = self._topics.get(request.topic.name)
        types = [value("MessageType", each) for each in (_types_of(config) if config is not None else _ANY)]
        for queues in found:
            for queue_id in range(max(queues.read_nums, queues.write_nums)):
                permission = _permission(queues, queue_id)
                if permission is None:
                    continue
                queue = answer.message_queues.add(id=queue_id, permission=permission, accept_message_types=types)
                _name(queue, queues, request, call)
        call.answer(answer)

    def assign(self, call: GrpcCall, request: Any) -> None:
        """A push consumer polls all queues of a broker at once; in order, each by itself."""
        checked_names(request.topic, request.group)
        self._find(call, request, self._answer_assign)

    def _answer_assign(self, call: GrpcCall, request: Any, found: list[_Queues]) -> None:
        readable = [each for each in found if each.perm & PERM_READ and each.read_nums]
        refuse_if(not readable, Code.FORBIDDEN, "no readable queue")
        group = self._groups.get(request.group.name)
        is_ordered = group is not None and group.consume_message_orderly
        answer = CLASSES["QueryAssignmentResponse"](status=OK)
        for queues in readable:
            for queue_id in range(queues.read_nums) if is_ordered else (POP_ALL_QUEUES,):
                queue = answer.assignments.add().message_queue
                queue.id = queue_id
                queue.permission = value("Permission", "READ_WRITE" if queues.perm & PERM_WRITE else "READ")
                _name(queue, queues, request, call)
        call.answer(answer)

    # --- what there is -----------------------------------------------------------------------------------------------

    def _find(self, call: GrpcCall, request: Any, then: Callable[[GrpcCall, Any, list[_Queues]], None]) -> None:
        """Goes on with the queues of all brokers. CallRefused if there is no such topic."""
        topic = request.topic.name
        takes_several = self._do_slaves_pass_on and call.metadata.get(b"x-mq-language") in _TAKE_SEVERAL

        def go_on(route: TopicRoute | None) -> None:
            found = self._queues(self._topics.get(topic), route, takes_several)
            text = f"CODE: 17  DESC: No topic route info in name server for the topic: {topic}"
            faq = "For more information, please visit the url, https://rocketmq.apache.org/docs/bestPractice/06FAQ"
            refuse_if(not found, Code.TOPIC_NOT_FOUND, f"{text}\n{faq}")
            then(call, request, found)

        self._ask_route(topic, lambda route: call.guarded(partial(go_on, route)))

    def _queues(self, own: TopicConfig | None, route: TopicRoute | None, takes_several: bool) -> list[_Queues]:
        """By their brokers' names, whoever is asked: a client finds the queue of a message group by its place among
        all. This broker knows its own queues best: a nameserver may not have heard of them yet."""
        brokers = {data.broker_name: data.broker_addrs for data in route.broker_datas} if route is not None else {}
        own_name, found = self._config.broker_name, []
        if own is not None:
            members = brokers.get(own_name, {})
            is_alone = not self._is_slave and len(members) < 2
            addresses = [] if is_alone else _addresses(members, takes_several)
            perm = own.perm & self._config.broker_permission
            found.append(_Queues(own_name, perm, own.read_queue_nums, own.write_queue_nums, addresses))
        for data in route.queue_datas if route is not None else ():
            addresses = _addresses(brokers.get(data.broker_name, {}), takes_several)
            if addresses and (data.broker_name != own_name or (self._is_slave and own is None)):
                found.append(
                    _Queues(data.broker_name, data.perm, data.read_queue_nums, data.write_queue_nums, addresses)
                )
        return sorted(found)


def _addresses(members: Mapping[int, str], takes_several: bool) -> list[str]:
    """The master's first."""
    addresses = [addr for _, addr in sorted(members.items())]
    return addresses if takes_several else addresses[:1]


def _name(queue: Any, queues: _Queues, request: Any, call: GrpcCall) -> None:
    queue.topic.CopyFrom(request.topic)
    queue.broker.name = queues.broker_name
    endpoints = queue.broker.endpoints
    if not queues.addresses and request.endpoints.addresses:
        endpoints.CopyFrom(request.endpoints)
        came_by = [each for each in endpoints.addresses if f"{each.host}:{each.port}" == call.local_addr]
        if came_by:  # the others may lead to other brokers
            del endpoints.addresses[:]
            endpoints.addresses.extend(came_by[:1])
        return
    for addr in queues.addresses or [call.local_addr]:
        host, _, port = addr.rpartition(":")
        host = host.strip("[]")
        scheme = _scheme_of(host)
        if not endpoints.scheme or endpoints.scheme == scheme != _DOMAIN_NAME:  # all of one kind; a name stands alone
            endpoints.scheme = scheme
            endpoints.addresses.add(host=host, port=int(port))


def _scheme_of(host: str) -> int:
    try:
        return value("AddressScheme", f"IPv{ipaddress.ip_address(host).version}")
    except ValueError:
        return _DOMAIN_NAME


def expected_type(config: TopicConfig) -> str:
    return config.attributes.get(MESSAGE_TYPE, Type.NORMAL)


def _types_of(config: TopicConfig) -> tuple[str, ...]:
    expected = expected_type(config)
    if expected == Type.MIXED:
        return _MIXED
    return () if expected == Type.UNSPECIFIED else (expected,)


def _permission(queues: _Queues, queue_id: int) -> int | None:
    """None if the queue can neither be read nor written."""
    words = (("READ", PERM_READ, queues.read_nums), ("WRITE", PERM_WRITE, queues.write_nums))
    can = "_".join(word for word, perm, count in words if queues.perm & perm and queue_id < count)
    return value("Permission", can) if can else None
