"""What a doctor has against a master and a slave that run: too few copies, a slave that has more than its master, and
two that take themselves for the master."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqadmin.core.health.facts import read_facts
from rmqadmin.core.health.ha_checks import ha_findings, registered_brokers
from rmqadmin.core.health.health_finding import Grade
from rmqadmin.core.servers.ha_reading import read_ha
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from tests.support import servers
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
        given = [part for setting in settings.items() for part in ("--set", "=".join(setting))]
        return servers.broker(self.directory / store, self.namesrv.namesrv_addr, NAME, *given)

    def until_found(self, *parts: str) -> None:
        """As many findings, each with its part of them."""

        def is_so() -> bool:
            found = read_ha(self.admin, registered_brokers(read_facts(self.admin, None, with_tables=False)))
            said = [
                f"{one.grade} {one.check} {one.subject}: {one.what}"
                for one in ha_findings(found, time.time_ns() // 1_000_000)
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
            pair.until_found(TOO_FEW, f"error masters {NAME}: 2 brokers take themselves for its master")
