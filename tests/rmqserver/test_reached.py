"""Clients reach the broker over whichever address they have reached the nameserver at, and through a mapped port. Each
test uses a real producer and a real consumer, because their connections are what matters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from rmqclient import ConsumeFrom, Message, Producer, PushConsumer
from rmqclient.admin import AdminClient
from tests.rmqclient.collector import Collector, until
from tests.support import servers
from tests.support.forwarder import Forwarder
from tests.support.processes import free_ports
from tests.support.servers import Server

ADDRESSES = ("127.0.0.1", "127.0.0.2")


everywhere = servers.of_module("--listen", "0.0.0.0")
"""A server on all addresses of the machine, including loopback."""


def port_of(address: str) -> str:
    return address.rpartition(":")[2]


def told(namesrv_addr: str, topic: str) -> set[str]:
    """The broker's addresses in the cluster's table and in the topic's route."""
    with AdminClient(namesrv_addr) as admin:
        brokers = [*admin.cluster_info().broker_addr_table.values(), *admin.topic_route(topic).broker_datas]
    return {address for broker in brokers for address in broker.broker_addrs.values()}


def send_and_consume(namesrv_addr: str, topic: str, group: str) -> None:
    async def main() -> None:
        collect = Collector()
        async with Producer(namesrv_addr, "p") as producer:
            await producer.send(Message(topic, b"m"))
        async with PushConsumer(namesrv_addr, group, {topic: "*"}, collect, consume_from=ConsumeFrom.FIRST_OFFSET):
            await until(lambda: collect.bodies == [b"m"])

    trio.run(main)


@pytest.mark.parametrize("address", ADDRESSES)
def test_auto_is_the_address_on_which_each_client_has_come(
    everywhere: Server, address: str, fresh: Callable[[str], str]
) -> None:
    namesrv_addr, topic = f"{address}:{port_of(everywhere.namesrv_addr)}", fresh("Reached")
    send_and_consume(namesrv_addr, topic, fresh("G"))
    assert told(namesrv_addr, topic) == {f"{address}:{port_of(everywhere.broker_addr)}"}


def test_a_server_that_listens_on_one_address_tells_of_that_one(server: Server, fresh: Callable[[str], str]) -> None:
    topic = fresh("Reached")
    send_and_consume(server.namesrv_addr, topic, fresh("G"))
    assert told(server.namesrv_addr, topic) == {server.broker_addr}


def test_what_is_advertised_leads_through_a_mapped_port(tmp_path: Path) -> None:
    """As with a container whose ports are mapped to others outside."""
    namesrv_port, broker_port = free_ports()
    ports = ("--namesrv-port", str(namesrv_port), "--port", str(broker_port))
    with Forwarder("127.0.0.3") as namesrv, Forwarder("127.0.0.3") as broker:
        namesrv.to, broker.to = f"127.0.0.1:{namesrv_port}", f"127.0.0.1:{broker_port}"
        with servers.standalone(tmp_path, "--listen", "0.0.0.0", "--advertise", broker.address, *ports) as server:
            send_and_consume(namesrv.address, "Mapped", "G")
            assert told(namesrv.address, "Mapped") == {broker.address} == {server.broker_addr}
        assert broker.connection_count >= 2
