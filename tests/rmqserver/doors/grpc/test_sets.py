"""Clients of gRPC at a set under a controller: at its slave, over a handover, and after a kill."""

import itertools
import signal
from pathlib import Path
from typing import Any, Self

import h2.exceptions
import pytest

from rmqproto.bodies.base import MessageQueue
from rmqserver.doors.grpc.codes import Code
from tests.rmqserver.doors.grpc.calls import ack, consumer_settings, receive, send, tell_settings
from tests.support.broker_set import BROKER_NAME, BrokerSet, set_of_three
from tests.support.grpc_client import GrpcClient, GrpcError
from tests.support.servers import all_of, until
from tests.support.two_in_sync import is_master, two_in_sync

pytestmark = pytest.mark.slow

TOPIC, GROUP = "Kept", "Group"


def asked_for(client: GrpcClient, language: str) -> list[str]:
    """The addresses that a route names."""
    found = client.call("QueryRoute", {"topic": {"name": TOPIC}}, **{"x-mq-language": language})
    (addresses,) = {
        tuple(f"{each.host}:{each.port}" for each in queue.broker.endpoints.addresses) for queue in found.message_queues
    }
    return list(addresses)


class Going:
    """A client that goes on as the libraries do: it comes by another connection when one has ended, to each of its
    addresses in turn."""

    def __init__(self, *addresses: str):
        self._addresses = itertools.cycle(addresses)
        self.client: GrpcClient | None = None
        self.sent: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        if self.client is not None:
            self.client.close()
        self.client = None

    def tries(self, call: Any) -> Any:
        """None if the call has failed."""
        try:
            if self.client is None:
                self.client = GrpcClient(next(self._addresses), "going")
            return call(self.client)
        except (EOFError, OSError, GrpcError, h2.exceptions.ProtocolError):  # the last: after a GOAWAY
            self.leave()
            return None

    def sends(self) -> bool:
        body = b"%d" % len(self.sent)
        answer = self.tries(lambda client: send(client, TOPIC, body))
        if answer is not None and answer.status.code == Code.OK:
            self.sent.append(body)
        return answer is not None

    def until_sent(self, count: int) -> None:
        until(lambda: self.sends() and len(self.sent) >= count)


def test_a_slave_passes_clients_on_and_routes_begin_with_the_master(tmp_path: Path) -> None:
    with two_in_sync(tmp_path) as (_, two):
        master, slave = two.brokers[1].broker_addr, two.brokers[2].broker_addr
        for addr in (master, slave):
            with GrpcClient(addr) as client:
                until(lambda: asked_for(client, "JAVA") == [master, slave])
                assert asked_for(client, "HTTP") == [master], "Node's client reads one address"
        with GrpcClient(slave) as client:
            stream, settings = tell_settings(client, consumer_settings(GROUP, TOPIC))
            assert settings.subscription.group.name == GROUP
            members = two.admin.consumer_connection(master, GROUP).connection_set
            own = "{}:{}".format(*client.socket.getsockname())
            assert [each.client_addr for each in members] == [own], "not the slave's"
            assert send(client, TOPIC, b"through").status.code == Code.OK
            messages = receive(client, TOPIC, GROUP)
            assert b"through" in {each.body for each in messages}
            assert ack(client, TOPIC, GROUP, *messages).status.code == Code.OK
            stream.cancel()
        assert b"through" in stored(two, 1)
        with GrpcClient(slave, before=b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n") as client:
            with pytest.raises(GrpcError, match="its master serves"):  # two that take each other for the master
                send(client, TOPIC, b"on and on")
            assert asked_for(client, "HTTP") == [master]
        two.brokers[1].stop()
        with GrpcClient(slave) as client, pytest.raises((EOFError, OSError)):
            send(client, TOPIC, b"to nobody")


def test_a_master_with_too_few_in_sync_stores_nothing_for_a_call(tmp_path: Path) -> None:
    with two_in_sync(tmp_path) as (_, two), GrpcClient(two.brokers[1].broker_addr) as client:
        assert send(client, TOPIC, b"before").status.code == Code.OK
        two.admin.update_broker_config(two.brokers[1].broker_addr, {"minInSyncReplicas": "3"})
        for _ in range(2):
            assert send(client, TOPIC, b"lost").status.message == "in-sync replicas not enough"
        two.admin.update_broker_config(two.brokers[1].broker_addr, {"minInSyncReplicas": "1"})
        assert send(client, TOPIC, b"behind").status.code == Code.OK
        assert stored(two, 1) >= {b"before", b"behind"}
        assert b"lost" not in stored(two, 1)


def test_a_handover_ends_streams_and_no_acknowledged_message_is_missing(tmp_path: Path) -> None:
    with two_in_sync(tmp_path) as (controller, two), Going(two.brokers[1].broker_addr) as going:
        going.until_sent(20)
        with GrpcClient(two.brokers[1].broker_addr, "consumer") as consumer:
            stream, _ = tell_settings(consumer, consumer_settings(GROUP, TOPIC))
            controller.elect(2)
            assert list(stream) == []
        until(lambda: is_master(two, 2))
        going.until_sent(40)
        until_stored(two, 2, going.sent)
        got = receive_all(going, len(going.sent))
        assert set(going.sent) <= got
        controller.elect(1)
        until(lambda: is_master(two, 1))
        going.until_sent(60)
        until_stored(two, 1, going.sent)


def test_a_killed_master_costs_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Slaves that pass nothing on refuse all but routes."""
    with set_of_three(tmp_path) as three:
        three.until_all_in_sync()
        master = three.master()
        with Going(*(each.broker_addr for each in three.brokers.values())) as going:
            going.until_sent(20)
            three.brokers[master].stop(signal.SIGKILL)
            going.until_sent(40)
        until_stored(three, three.master(but=master), going.sent)


def until_stored(two: BrokerSet, number: int, bodies: list[bytes]) -> None:
    """A broker that was elected just now shows a message once its set has confirmed it again."""
    until(lambda: set(bodies) <= stored(two, number))


def stored(two: BrokerSet, number: int) -> set[bytes]:
    addr, queues = two.brokers[number].broker_addr, [MessageQueue(TOPIC, BROKER_NAME, each) for each in range(4)]
    return {message.body for queue in queues for message in all_of(two.admin, addr, queue)}


def receive_all(going: Going, count: int) -> set[bytes]:
    got: set[bytes] = set()

    def some(client: GrpcClient) -> bool:
        messages = receive(client, TOPIC, GROUP, wait_s=5)
        got.update(message.body for message in messages)
        return not messages or ack(client, TOPIC, GROUP, *messages).status.code == Code.OK

    until(lambda: bool(going.tries(some)) and len(got) >= count)
    return got
