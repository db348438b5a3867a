"""The addresses that a server tells, and those at which it is reached."""

from pathlib import Path

import pytest
import trio

from rmqclient import ConsumeFrom, Message, Producer, PushConsumer
from rmqclient.admin import AdminClient
from rmqproto.errors import UsageError
from rmqproto.message.record import host_bytes
from rmqserver.advertise import Advertise, local_host
from tests.rmqclient.collector import Collector, until
from tests.support import servers
from tests.support.forwarder import Forwarder
from tests.support.processes import free_ports
from tests.support.servers import Fresh, Server

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
def test_auto_is_the_address_on_which_each_client_has_come(everywhere: Server, address: str, fresh: Fresh) -> None:
    namesrv_addr, topic = f"{address}:{port_of(everywhere.namesrv_addr)}", fresh("Reached")
    send_and_consume(namesrv_addr, topic, fresh("G"))
    assert told(namesrv_addr, topic) == {f"{address}:{port_of(everywhere.broker_addr)}"}


def test_a_server_that_listens_on_one_address_tells_of_that_one(server: Server, fresh: Fresh) -> None:
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


def test_what_is_asked_for_is_registered_and_stored() -> None:
    advertise = Advertise("0.0.0.0", 1234, "127.0.0.9")
    assert advertise.addr("127.0.0.1") == "127.0.0.9:1234"
    assert advertise.record_host() == host_bytes("127.0.0.9", 1234)


def test_auto_is_the_listener_or_our_end_of_the_connection() -> None:
    assert Advertise("127.0.0.1", 1).addr("10.0.0.1") == "127.0.0.1:1"
    assert Advertise("0.0.0.0", 1).addr("10.0.0.1") == "10.0.0.1:1"
    assert Advertise("::", 1).addr("fd00::1") == "[fd00::1]:1"
    assert Advertise("0.0.0.0", 1).record_host() is None


def test_a_wildcard_and_a_nameserver_on_this_machine_still_give_an_address() -> None:
    """The address depends on the machine. Without a network it is a loopback address, but never a wildcard."""
    host, _, port = Advertise("0.0.0.0", 1).addr("127.0.0.1").rpartition(":")
    assert port == "1"
    assert host not in ("", "0.0.0.0")


def test_a_name_without_address_is_a_usage_error() -> None:
    assert Advertise("127.0.0.1", 1, "localhost").record_host() is not None
    with pytest.raises(UsageError, match=r"no-such-host\.invalid"):
        Advertise("127.0.0.1", 1, "no-such-host.invalid").record_host()


@pytest.mark.parametrize(
    ("listen", "host"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("127.0.0.1", "127.0.0.1"), ("10.0.0.1", "10.0.0.1")]
)
def test_a_process_on_this_machine_reaches_every_listener(listen: str, host: str) -> None:
    assert local_host(listen) == host
