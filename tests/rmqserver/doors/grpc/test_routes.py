"""Routes over the brokers of a cluster, and the addresses in them."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqserver.doors.grpc.codes import Code
from rmqserver.doors.grpc.messages import value
from tests.rmqserver.doors.grpc.calls import ack, named, receive, send
from tests.support import servers
from tests.support.grpc_client import GrpcClient
from tests.support.servers import Server, topic_config, until

READ_WRITE, READ = value("Permission", "READ_WRITE"), value("Permission", "READ")
FIFO = {"+message.type": "FIFO"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """Two brokers, each with a topic that both have, and one of its own; only the first has the group."""
    with ExitStack() as stack:
        namesrv = stack.enter_context(servers.namesrv(tmp_path_factory.mktemp("namesrv")))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
        made = []
        for name, reads in (("a", 2), ("b", 1)):
            running = servers.broker(tmp_path_factory.mktemp(name), namesrv.namesrv_addr, f"broker-{name}")
            made.append(stack.enter_context(running))
            both = TopicConfig(topic_name="Both", read_queue_nums=reads, write_queue_nums=1, attributes=FIFO)
            admin.create_topic(running.broker_addr, both)
            own = topic_config(f"Only-{name}")
            admin.create_topic(running.broker_addr, own)
            admin.create_group(running.broker_addr, SubscriptionGroupConfig(group_name="Group"))
        until(lambda: len(admin.topic_route("Both").queue_datas) == 2)
        yield made


def queues_in(client: GrpcClient, topic: str) -> list[tuple[str, int, int, list[tuple[str, int]]]]:
    return [
        (queue.broker.name, queue.id, queue.permission, [(each.host, each.port) for each in addresses])
        for queue in client.call("QueryRoute", {"topic": {"name": topic}}).message_queues
        for addresses in [queue.broker.endpoints.addresses]
    ]


def test_a_route_names_the_queues_of_all_brokers_whoever_is_asked(cluster: list[Server]) -> None:
    one, two = ([(host, int(port))] for host, port in (each.broker_addr.split(":") for each in cluster))
    expected = [("broker-a", 0, READ_WRITE, one), ("broker-a", 1, READ, one), ("broker-b", 0, READ_WRITE, two)]
    for broker in cluster:
        with GrpcClient(broker.broker_addr) as client:
            assert queues_in(client, "Both") == expected, "in one order: a message group has its place in it"
            assert queues_in(client, "Only-a") == [("broker-a", 0, READ_WRITE, one)]
            assert queues_in(client, "Only-b") == [("broker-b", 0, READ_WRITE, two)]
            found = client.call("QueryAssignment", {"topic": {"name": "Both"}, "group": {"name": "Group"}})
            brokers = {(each.message_queue.broker.name, each.message_queue.id) for each in found.assignments}
            assert brokers == {("broker-a", -1), ("broker-b", -1)}
            nowhere = client.call("QueryRoute", {"topic": {"name": "Nowhere"}})
            assert nowhere.status.code == Code.TOPIC_NOT_FOUND


def test_types_of_a_topic_that_is_only_elsewhere_are_left_to_its_brokers(cluster: list[Server]) -> None:
    """Clients compare them before they send."""
    with GrpcClient(cluster[0].broker_addr) as client:
        (here,) = client.call("QueryRoute", {"topic": {"name": "Only-a"}}).message_queues
        (elsewhere,) = client.call("QueryRoute", {"topic": {"name": "Only-b"}}).message_queues
    assert list(here.accept_message_types) == [value("MessageType", "NORMAL")]
    assert set(elsewhere.accept_message_types) == set(range(1, 7))


def test_another_broker_s_receipt_settles_nothing_here(cluster: list[Server]) -> None:
    """Both brokers have a message at the same place of the same queue."""
    received = []
    for number, broker in enumerate(cluster):
        with GrpcClient(broker.broker_addr) as client:
            assert send(client, "Both", b"%d" % number, message_group="g").status.code == Code.OK
            (message,) = receive(client, "Both", "Group")
            received.append(message)
    with GrpcClient(cluster[0].broker_addr) as client:
        told = ack(client, "Both", "Group", received[1])
        assert told.entries[0].status.code == Code.INVALID_RECEIPT_HANDLE
        for call, more in (("ChangeInvisibleDuration", {"invisible_duration": {"seconds": 1}}),
                           ("ForwardMessageToDeadLetterQueue", {})):  # fmt: skip
            told = client.call(call, named("Both", "Group", received[1], **more))
            assert told.status.code == Code.INVALID_RECEIPT_HANDLE
        assert ack(client, "Both", "Group", received[0]).entries[0].status.code == Code.OK


def test_a_broker_that_is_alone_is_named_as_the_client_named_it(typed_server: Server) -> None:
    with GrpcClient(typed_server.broker_addr) as client:
        endpoints = {
            "scheme": value("AddressScheme", "DOMAIN_NAME"),
            "addresses": [{"host": "mq.example.org", "port": 443}],
        }
        route = client.call("QueryRoute", {"topic": {"name": "Golden_Normal"}, "endpoints": endpoints})
        assert {each.broker.endpoints.addresses[0].host for each in route.message_queues} == {"mq.example.org"}


def test_a_client_that_names_several_brokers_learns_which_of_them_has_a_queue(cluster: list[Server]) -> None:
    """It may be connected to any of them."""
    addresses = [(host, int(port)) for host, port in (each.broker_addr.split(":") for each in cluster)]
    endpoints = {
        "scheme": value("AddressScheme", "IPv4"),
        "addresses": [{"host": host, "port": port} for host, port in addresses],
    }
    for broker in cluster:
        with GrpcClient(broker.broker_addr) as client:
            route = client.call("QueryRoute", {"topic": {"name": "Both"}, "endpoints": endpoints})
        found = {each.broker.name: each.broker.endpoints.addresses for each in route.message_queues}
        told = [[(each.host, each.port) for each in found[name]] for name in ("broker-a", "broker-b")]
        assert told == [[address] for address in addresses]


def test_addresses_of_ipv6_are_named_as_such(tmp_path: Path) -> None:
    with servers.standalone(tmp_path, "--listen", "::1") as running, AdminClient(running.namesrv_addr) as admin:
        admin.create_topic(running.broker_addr, TopicConfig(topic_name="Six"))
        with GrpcClient(running.broker_addr) as client:
            route = client.call("QueryRoute", {"topic": {"name": "Six"}})
        endpoints = route.message_queues[0].broker.endpoints
        assert endpoints.scheme == value("AddressScheme", "IPv6")
        assert [each.host for each in endpoints.addresses] == ["::1"]
