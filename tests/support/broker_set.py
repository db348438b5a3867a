"""Brokers of ours that form a set under a controller."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.replication import ReplicaSet
from rmqproto.errors import RefusedError, RocketMQError
from tests.support import servers
from tests.support.processes import free_ports
from tests.support.servers import Server, all_of, until

BROKER_NAME = "broker-a"
COMMON = {
    "mappedFileSizeCommitLog": "65536", "allAckInSyncStateSet": "true", "syncBrokerMetadataPeriod": "200",
    "brokerHeartbeatInterval": "200", "checkSyncStateSetPeriod": "200", "slaveTimeout": "1000",
    "slaveReadEnable": "true", "haSendHeartbeatInterval": "200", "brokerIP2": "127.0.0.1",
    "forwardToMasterEnable": "false",  # so that only the master takes messages
}  # fmt: skip

PATIENT = {"slaveTimeout": "20000"}
"""For a set that must answer SEND_OK however busy the machine is. Its admin client needs a longer timeout."""

PROBE = b"?"
"""The body of a message that tests whether a broker takes messages."""


def is_settled(admin: AdminClient, controller_addr: str, name: str = BROKER_NAME) -> bool:
    """Whether the controller knows the living brokers and elects: it then complains of nothing but the unknown id 9."""
    try:
        admin.clean_broker_data(controller_addr, name, 0, broker_ids=[9])
    except RefusedError as error:
        return "none of these ids" in error.remark
    return False


class Nameserver(Protocol):
    @property
    def namesrv_addr(self) -> str: ...


@dataclass
class BrokerSet:
    """Brokers of ours under a controller, by number. A broker keeps its port and store over restarts. A broker's number
    is its id at the controller if the brokers were first started in the order of their numbers."""

    directory: Path
    controller_addr: str
    namesrv: Nameserver
    admin: AdminClient
    name: str = BROKER_NAME
    brokers: dict[int, Server] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)

    def start(self, number: int, **more: str) -> Server:
        settings = COMMON | more | {"enableControllerMode": "true", "controllerAddr": self.controller_addr}
        port = self.ports.setdefault(number, free_ports()[1])
        self.brokers[number] = servers.broker(
            self.directory / f"b{number}",
            self.namesrv.namesrv_addr,
            self.name,
            "--port",
            str(port),
            *servers.sets(**settings),
        )
        return self.brokers[number]

    def send(self, number: int, body: bytes) -> SendStatus:
        """Sends to the broker of that number. Returns SEND_OK or another status."""
        queue = MessageQueue("Kept", self.name, 0)
        return self.admin.send_message(self.brokers[number].broker_addr, queue, Message("Kept", body)).status

    def bodies(self, number: int) -> list[bytes]:
        queue = MessageQueue("Kept", self.name, 0)
        return [each.body for each in all_of(self.admin, self.brokers[number].broker_addr, queue)]

    @property
    def known(self) -> ReplicaSet:
        """The set as the controller knows it."""
        return self.admin.replica_sets(self.controller_addr, [self.name]).replicas_info_table[self.name]

    def in_sync_ids(self) -> list[int]:
        return sorted(one.broker_id for one in self.known.in_sync_replicas)

    def in_sync_addrs(self) -> set[str]:
        """Addresses of the replicas that the controller counts as in sync."""
        sets = self.admin.replica_sets(self.controller_addr, [BROKER_NAME]).replicas_info_table.values()
        return {one.broker_address for each in sets for one in each.in_sync_replicas}

    def takes(self, number: int) -> bool:
        """Whether that broker takes messages."""
        try:
            return self.send(number, PROBE) is not None
        except RocketMQError:
            return False

    def controller_is_settled(self) -> bool:
        return is_settled(self.admin, self.controller_addr, self.name)

    def known_addrs(self) -> set[str]:
        """Addresses of all replicas that the controller knows."""
        sets = self.admin.replica_sets(self.controller_addr, [self.name]).replicas_info_table.values()
        return {one.broker_address for each in sets for one in (*each.in_sync_replicas, *each.not_in_sync_replicas)}

    def join(self, *numbers: int, **settings: str) -> None:
        """Starts these brokers, each once those before it are in sync."""
        for number in numbers:
            self.start(number, **settings)
            self.until_all_in_sync()
        until(self.controller_is_settled)

    def until_all_in_sync(self) -> None:
        until(lambda: self.in_sync_addrs() == {server.broker_addr for server in self.brokers.values()})

    def master(self, but: int = 0) -> int:
        """The number of the broker that takes messages."""
        masters: list[int] = []
        until(lambda: bool(masters.extend(one for one in self.brokers if one != but and self.takes(one)) or masters))
        return masters[0]


@contextmanager
def set_under(directory: Path, controller_addr: str) -> Iterator[BrokerSet]:
    """A set without brokers, with a name server of its own. The brokers that the test starts end with it."""
    with servers.namesrv(directory / "namesrv") as namesrv, AdminClient(namesrv.namesrv_addr, timeout_s=60) as admin:
        made = BrokerSet(directory, controller_addr, namesrv, admin)
        try:
            yield made
        finally:
            for server in made.brokers.values():
                server.stop()


@contextmanager
def set_of_three(directory: Path) -> Iterator[BrokerSet]:
    """With a controller and a name server. A message is acknowledged when two brokers have it."""
    with (
        servers.controller(directory / "controller") as controller,
        set_under(directory, controller.controller_addr) as made,
    ):
        for number in (1, 2, 3):
            made.start(number, minInSyncReplicas="2", **PATIENT)
            until(lambda: len(made.known_addrs()) == number)  # noqa: B023
        yield made
