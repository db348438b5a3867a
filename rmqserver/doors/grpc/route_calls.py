"""Which queues a topic has, and whom a client asks for them (``RouteActivity``, 5.5.0). The address in the answers is
the one by which this client came: it may have come through a mapped port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqproto.perm import PERM_READ, PERM_WRITE
from rmqproto.topic_message_type import MESSAGE_TYPE
from rmqproto.topic_message_type import TopicMessageType as Type
from rmqserver.doors.grpc.call_checks import check_group, check_topic
from rmqserver.doors.grpc.codes import CallRefused, Code, status
from rmqserver.doors.grpc.messages import CLASSES, value

if TYPE_CHECKING:
    from rmqproto.bodies.routes import TopicConfig
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.doors.grpc.link import GrpcCall

_ALL_QUEUES = -1
_MIXED = (Type.NORMAL, Type.FIFO, Type.DELAY, Type.TRANSACTION)


class RouteCalls:
    def __init__(self, topics: TopicTable, groups: GroupTable, broker_name: str):
        self._topics = topics
        self._groups = groups
        self._broker_name = broker_name

    def topic(self, name: str) -> TopicConfig:
        """Raises CallRefused if there is none."""
        found = self._topics.get(name)
        if found is None:
            text = f"CODE: 17  DESC: No topic route info in name server for the topic: {name}"
            faq = "For more information, please visit the url, https://rocketmq.apache.org/docs/bestPractice/06FAQ"
            raise CallRefused(Code.TOPIC_NOT_FOUND, f"{text}\n{faq}")
        return found

    def query(self, call: GrpcCall, request: Any) -> None:
        check_topic(request.topic.name)
        config = self.topic(request.topic.name)
        answer = CLASSES["QueryRouteResponse"](status=status())
        types = [value("MessageType", each) for each in _types_of(config)]
        for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
            permission = _permission(config, queue_id)
            if permission is None:
                continue
            queue = answer.message_queues.add(id=queue_id, permission=permission, accept_message_types=types)
            self._name(queue, request, call)
        call.answer(answer)

    def assign(self, call: GrpcCall, request: Any) -> None:
        """A push consumer polls all queues at once; in order, each by itself."""
        check_topic(request.topic.name)
        check_group(request.group.name)
        config = self.topic(request.topic.name)
        if not config.perm & PERM_READ or not config.read_queue_nums:
            raise CallRefused(Code.FORBIDDEN, "no readable queue")
        group = self._groups.get(request.group.name)
        is_ordered = group is not None and group.consume_message_orderly
        permission = value("Permission", "READ_WRITE" if config.perm & PERM_WRITE else "READ")
        answer = CLASSES["QueryAssignmentResponse"](status=status())
        for queue_id in range(config.read_queue_nums) if is_ordered else (_ALL_QUEUES,):
            queue = answer.assignments.add().message_queue
            queue.id, queue.permission = queue_id, permission
            self._name(queue, request, call)
        call.answer(answer)

    def _name(self, queue: Any, request: Any, call: GrpcCall) -> None:
        queue.topic.CopyFrom(request.topic)
        queue.broker.name = self._broker_name
        endpoints = queue.broker.endpoints
        if request.endpoints.addresses:
            endpoints.CopyFrom(request.endpoints)
            return
        host, _, port = call.local_addr.rpartition(":")
        endpoints.scheme = value("AddressScheme", "IPv6" if ":" in host else "IPv4")
        endpoints.addresses.add(host=host.strip("[]"), port=int(port))


def expected_type(config: TopicConfig) -> str:
    return config.attributes.get(MESSAGE_TYPE, Type.NORMAL)


def _types_of(config: TopicConfig) -> tuple[str, ...]:
    expected = expected_type(config)
    if expected == Type.MIXED:
        return _MIXED
    return () if expected == Type.UNSPECIFIED else (expected,)


def _permission(config: TopicConfig, queue_id: int) -> int | None:
    """None if the queue can neither be read nor written."""
    reads = bool(config.perm & PERM_READ) and queue_id < config.read_queue_nums
    writes = bool(config.perm & PERM_WRITE) and queue_id < config.write_queue_nums
    if reads and writes:
        return value("Permission", "READ_WRITE")
    return value("Permission", "READ") if reads else value("Permission", "WRITE") if writes else None
