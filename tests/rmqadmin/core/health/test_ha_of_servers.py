"""What doctor finds about running servers: too few copies, a slave that is behind or has more than its master, two
brokers that act as the master, sets without a master, and a set without any broker left."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqadmin.core.health.cluster_checks import cluster_findings
from rmqadmin.core.health.facts import read_facts
from rmqadmin.core.health.finding import Check, Grade
from rmqadmin.core.health.ha_checks import ha_findings, registered_brokers
from rmqadmin.core.servers.ha_sets import read_ha
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from tests.support import servers
from tests.support.broker_set import BrokerSet
from tests.support.forwarder import Forwarder
from tests.support.servers import Server, until

pytestmark = pytest.mark.slow

NAME = "broker-a"
TOO_FEW = f"error in-sync {NAME}: has 1 of the 2 copies"


class Pair:
    def __init__(self, directory: Path, namesrv: Server, admin: AdminClient):
        self.directory = directory
        self.namesrv = namesrv
        self.admin = admin

    def broker(self, store: str, **settings: str) -> Server:
        return servers.broker(self.directory / store, self.namesrv.namesrv_addr, NAME, *servers.sets(**settings))

    def until_found(self, *parts: str, controllers: Sequence[str] = ()) -> None:
        """Waits until there are as many findings as parts, and each part is in one of them."""
        until_found(self.admin, *parts, controllers=controllers)


def until_found(admin: AdminClient, *parts: str, controllers: Sequence[str] = ()) -> None:
    def is_so() -> bool:
        facts = read_facts(admin, None, with_tables=False)
        found = read_ha(admin, registered_brokers(facts), controllers, has_all=True)
        now_ms = time.time_ns() // 1_000_000
        twice = [one for one in cluster_findings(facts) if one.check is Check.BROKER_NAMES]
        said = [
            f"{one.grade} {one.check} {one.subject.name}: {one.what} fix: {one.fix}"
            for one in [*ha_findings(found, now_ms), *twice]
            if one.grade is not Grade.OK
        ]
        return len(said) == len(parts) and all(any(part in each for each in said) for part in parts)

    until(is_so)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr))
        yield Pair(tmp_path, namesrv, admin)


def test_what_is_found_of_a_pair(pair: Pair) -> None:
    with pair.broker("other") as former:
        for _ in range(50):
            pair.admin.send_message(former.broker_addr, MessageQueue("T", NAME, 0), Message("T", bytes(1000)))
    with pair.broker("master", brokerRole="SYNC_MASTER", inSyncReplicas="2"):
        pair.until_found(TOO_FEW)
        with pair.broker("slave", brokerRole="SLAVE", brokerId="1"):
            pair.until_found()
        pair.until_found(TOO_FEW)
        with pair.broker("other", brokerRole="SLAVE", brokerId="1"):
            pair.until_found(TOO_FEW, f"error replica-lag {NAME}/1: its log is")
        with pair.broker("other", brokerRole="SYNC_MASTER", brokerId="1"):
            pair.until_found(TOO_FEW, f"error masters {NAME}: 2 brokers claim to be its master")


def test_a_slave_that_falls_behind(pair: Pair) -> None:
    """The connection between the two breaks just after the slave heard its master."""
    with Forwarder("127.0.0.9") as way:
        port = way.address.rpartition(":")[2]
        settings = {"brokerIP2": "127.0.0.9", "haListenPort": port, "haMaxGapNotInSync": "1000"}
        way.to = f"127.0.0.1:{port}"
        with (
            pair.broker("master", brokerRole="ASYNC_MASTER", **settings) as master,
            pair.broker("slave", brokerRole="SLAVE", brokerId="1"),
        ):
            queue = MessageQueue("T", NAME, 0)
            pair.admin.send_message(master.broker_addr, queue, Message("T", b"copied"))
            pair.until_found()
            way.__exit__()
            for _ in range(5):
                pair.admin.send_message(master.broker_addr, queue, Message("T", bytes(1000)))
            pair.until_found("KiB behind its master, the first of it waits for ")


def test_two_masters_of_one_name_and_id(pair: Pair) -> None:
    """This happens when a slave was made the master and the former master is started again."""
    with pair.broker("one") as one:
        pair.until_found()
        with pair.broker("other") as other:
            addrs = " and ".join(sorted([one.broker_addr, other.broker_addr]))
            pair.until_found(
                f"error broker-names {NAME}/0: there are two brokers of this name and id: {addrs}",
                f"error masters {NAME}: 2 brokers claim to be its master: {addrs}. Messages that one of them "
                "takes are missing at the others fix: Stop all but one of them",
            )
        pair.until_found()


def test_a_set_that_is_too_small_has_nobody_left_and_controllers_that_are_gone(pair: Pair) -> None:
    scans = ("--set", "scanNotActiveBrokerInterval=300")
    with ExitStack() as stack:
        controller = stack.enter_context(servers.controller(pair.directory / "controller", *scans))
        addr = controller.controller_addr
        two = BrokerSet(pair.directory, addr, pair.namesrv, pair.admin)
        settings = {"minInSyncReplicas": "2", "controllerHeartBeatTimeoutMills": "1000"}
        for number in (1, 2):
            stack.callback(two.start(number, **settings).stop)
            until(lambda: len(two.in_sync_addrs()) == number)  # noqa: B023
        until(two.controller_is_settled)
        pair.until_found()
        two.brokers[2].stop(signal.SIGKILL)
        pair.until_found(f"error in-sync {NAME}: takes no messages: 1 in sync, and minInSyncReplicas=2")
        two.brokers[1].stop(signal.SIGKILL)
        lost = f"error in-sync {NAME}: has no master: none that was in sync is alive ({NAME}/1 at "
        pair.until_found(lost, controllers=[addr])
        stack.callback(two.start(2, **settings).stop)  # it was not in sync, and is not registered
        other = stack.enter_context(servers.broker(pair.directory / "other", pair.namesrv.namesrv_addr, "broker-b",
            "--set", "enableControllerMode=true", "--set", f"controllerAddr={addr}"))  # fmt: skip
        pair.until_found(lost)
        assert pair.admin.cluster_info().broker_addr_table.keys() == {"broker-b"}
        controller.stop(signal.SIGKILL)
        pair.until_found("error controllers " + addr + ": no controller answers")
        assert other.stop() == 0
