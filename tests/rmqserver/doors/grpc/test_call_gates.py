"""Limits and injected faults hit calls as they hit requests of the remoting protocol."""

import time
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqserver.doors.grpc.codes import Code
from rmqserver.doors.grpc.grpc_service import GrpcService
from rmqserver.doors.grpc.link import CallKind
from rmqserver.doors.grpc.messages import CLASSES, SERVICE
from tests.rmqserver.doors.grpc.calls import Connect, be_consumer, receive, receive_request, send
from tests.support import servers
from tests.support.grpc_client import GrpcClient, clients_of
from tests.support.servers import Fresh, Server, topic_config

server = servers.of_module("--test-requests", "on")


@pytest.fixture
def admin(server: Server) -> Iterator[AdminClient]:
    with AdminClient(server.namesrv_addr) as client:
        yield client
        client.set_faults(server.broker_addr, ())


@pytest.fixture
def topic(server: Server, admin: AdminClient, fresh: Fresh) -> str:
    name = fresh("Gates")
    admin.create_topic(server.broker_addr, topic_config(name))
    admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name="GateGroup"))
    return name


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    with clients_of(server.broker_addr) as connect:
        yield connect


@pytest.fixture
def client(connect: Connect) -> GrpcClient:
    return connect()


def test_every_call_but_telemetry_is_some_request() -> None:
    service = GrpcService(Mock(), Mock())
    for name in CLASSES:
        if name.endswith("Request"):
            kind = service.kind_of(f"/{SERVICE}/{name.removesuffix('Request')}".encode())
            assert isinstance(kind, CallKind)
            assert kind.code is not None


def test_sends_and_receives_past_the_rate_of_a_topic_are_too_many_requests(
    server: Server, admin: AdminClient, topic: str, client: GrpcClient
) -> None:
    rates = {"maxSendRatePerTopic": f"{topic}=2", "maxPullRatePerTopic": f"{topic}=1"}
    admin.update_broker_config(server.broker_addr, rates)
    try:
        codes = [send(client, topic, b"body").status.code for _ in range(20)]
        assert codes[0] == Code.OK
        assert Code.TOO_MANY_REQUESTS in codes
        asked = [client.stream("ReceiveMessage", receive_request(topic, "GateGroup"))[0].status for _ in range(5)]
        refused = [each for each in asked if each.code == Code.TOO_MANY_REQUESTS]
        assert "maxPullRatePerTopic" in refused[0].message
    finally:
        admin.update_broker_config(server.broker_addr, dict.fromkeys(rates, "0"))
    assert send(client, topic, b"body").status.code == Code.OK


def test_calls_that_wait_count_as_in_flight_and_telemetry_does_not(
    server: Server, admin: AdminClient, topic: str, connect: Connect
) -> None:
    admin.update_broker_config(server.broker_addr, {"maxRequestsInFlightPerConnection": "2"})
    try:
        client, _ = be_consumer(connect, "in-flight", "GateGroup", topic)
        polls = [client.open("ReceiveMessage") for _ in range(3)]
        for poll in polls:
            poll.send(receive_request(topic, "GateGroup"), is_last=True)
        assert next(polls[2]).status.code == Code.TOO_MANY_REQUESTS
        polls[0].cancel()
        assert send(client, topic, b"body").status.code == Code.OK
        assert next(polls[1]).status.code == Code.OK, "the poll has the message"
    finally:
        admin.update_broker_config(server.broker_addr, {"maxRequestsInFlightPerConnection": "0"})


def test_an_error_has_the_code_that_it_has_in_an_answer_of_the_broker(
    server: Server, admin: AdminClient, topic: str, client: GrpcClient
) -> None:
    rules = [f"SEND_MESSAGE:error=SYSTEM_BUSY:remark=full:count=1:topic={topic}", "ACK_MESSAGE:error=4321:count=1"]
    admin.set_faults(server.broker_addr, rules)
    refused = send(client, topic, b"body").status
    assert (refused.code, refused.message) == (Code.TOO_MANY_REQUESTS, "full")
    ack = {"topic": {"name": topic}, "group": {"name": "GateGroup"}}
    assert client.call("AckMessage", ack).status.code == Code.INTERNAL_SERVER_ERROR
    assert send(client, topic, b"body").status.code == Code.OK
    assert [state.hits for state in admin.faults(server.broker_addr)] == [1, 1]


def test_a_delayed_call_is_done_when_its_time_has_come(
    server: Server, admin: AdminClient, topic: str, client: GrpcClient
) -> None:
    admin.set_faults(server.broker_addr, ["SEND_MESSAGE:delay=50ms:count=1"])
    started_s = time.monotonic()
    assert send(client, topic, b"body").entries[0].offset == 0
    assert time.monotonic() - started_s >= 0.05


def test_a_lost_call_is_not_done_and_a_lost_answer_is_not_told(
    server: Server, admin: AdminClient, topic: str, client: GrpcClient
) -> None:
    admin.set_faults(server.broker_addr, ["SEND_MESSAGE:drop:count=1", "SEND_MESSAGE:lose-answer:count=1"])
    request = CLASSES["SendMessageRequest"](messages=[{"topic": {"name": topic}, "body": b"lost",
                                                       "system_properties": {"message_id": "01AB"}}])  # fmt: skip
    for _ in range(2):
        client.open("SendMessage").send(request, is_last=True)
    assert send(client, topic, b"told").entries[0].offset == 1, "the second was stored"
    assert not [event for event in client.events if hasattr(event, "headers")], "neither was answered"
    assert [message.body for message in receive(client, topic, "GateGroup")] == [b"lost", b"told"]


def test_a_disconnected_client_has_lost_what_it_asked(
    server: Server, admin: AdminClient, topic: str, connect: Connect
) -> None:
    admin.set_faults(server.broker_addr, ["SEND_MESSAGE:disconnect:count=1"])
    with pytest.raises((EOFError, ConnectionError)):
        send(connect(), topic, b"body")
    assert send(connect(), topic, b"body").entries[0].offset == 0
