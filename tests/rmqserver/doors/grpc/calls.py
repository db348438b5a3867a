"""Calls that several tests make."""

import itertools
from collections.abc import Callable
from typing import Any

from rmqserver.doors.grpc.codes import Code
from rmqserver.doors.grpc.messages import CLASSES, value
from tests.support.grpc_client import GrpcClient, Stream

Connect = Callable[..., GrpcClient]
TopicAndGroup = Callable[..., tuple[str, str]]
"""What the fixtures are called for."""

_ids = itertools.count(1)


def message_to(topic: str, body: bytes, user_properties: dict[str, str] | None = None, **system: Any) -> Any:
    system.setdefault("message_id", f"01{next(_ids):032X}")
    return CLASSES["Message"](
        topic={"name": topic}, body=body, user_properties=user_properties or {}, system_properties=system
    )


def send(client: GrpcClient, topic: str, body: bytes, **more: Any) -> Any:
    return client.call("SendMessage", {"messages": [message_to(topic, body, **more)]})


def commit(client: GrpcClient, topic: str, entry: Any, how: str = "COMMIT") -> Any:
    request = {
        "topic": {"name": topic}, "message_id": entry.message_id, "transaction_id": entry.transaction_id,
        "resolution": value("TransactionResolution", how), "source": value("TransactionSource", "SOURCE_CLIENT"),
    }  # fmt: skip
    return client.call("EndTransaction", request)


def receive_request(topic: str, group: str, *, wait_s: int = 20, invisible_s: int = 60, **more: Any) -> Any:
    return CLASSES["ReceiveMessageRequest"](
        group={"name": group}, message_queue={"topic": {"name": topic}}, batch_size=32,
        invisible_duration={"seconds": invisible_s}, long_polling_timeout={"seconds": wait_s}, **more,
    )  # fmt: skip


def receive(client: GrpcClient, topic: str, group: str, **more: Any) -> list[Any]:
    """The messages of one receive; waits for some."""
    answers = client.stream("ReceiveMessage", receive_request(topic, group, **more))
    assert answers[0].status.code in (Code.OK, Code.MESSAGE_NOT_FOUND), answers[0]
    return [answer.message for answer in answers if answer.HasField("message")]


def named(topic: str, group: str, message: Any = None, **more: Any) -> dict[str, Any]:
    """The fields of a request about a topic and a group, and about a message that was received."""
    system = message.system_properties if message is not None else None
    about = {"message_id": system.message_id, "receipt_handle": system.receipt_handle} if system is not None else {}
    return {"group": {"name": group}, "topic": {"name": topic}, **about, **more}


def ack(client: GrpcClient, topic: str, group: str, *messages: Any, **more: str) -> Any:
    systems = [each.system_properties for each in messages]
    entries = [{"message_id": each.message_id, "receipt_handle": each.receipt_handle, **more} for each in systems]
    return client.call("AckMessage", named(topic, group, entries=entries))


def producer_settings(*topics: str) -> Any:
    settings = CLASSES["Settings"](client_type=value("ClientType", "PRODUCER"))
    settings.publishing.SetInParent()
    for topic in topics:
        settings.publishing.topics.add(name=topic)
    return CLASSES["TelemetryCommand"](settings=settings)


def consumer_settings(group: str, *topics: str, kind: str = "PUSH_CONSUMER", expression: str = "*") -> Any:
    settings = CLASSES["Settings"](client_type=value("ClientType", kind))
    settings.subscription.group.name = group
    for topic in topics:
        entry = settings.subscription.subscriptions.add()
        entry.topic.name = topic
        entry.expression.expression, entry.expression.type = expression, value("FilterType", "TAG")
    return CLASSES["TelemetryCommand"](settings=settings)


def tell_settings(client: GrpcClient, command: Any) -> tuple[Stream, Any]:
    """The telemetry stream, and the settings that the broker answered."""
    stream = client.open("Telemetry", deadline="")
    stream.send(command)
    return stream, next(stream).settings


def be_producer(connect: Connect, client_id: str, *topics: str) -> tuple[GrpcClient, Stream]:
    client = connect(client_id)
    return client, tell_settings(client, producer_settings(*topics))[0]


def be_consumer(connect: Connect, client_id: str, group: str, *topics: str, **more: str) -> tuple[GrpcClient, Stream]:
    client = connect(client_id)
    return client, tell_settings(client, consumer_settings(group, *topics, **more))[0]
