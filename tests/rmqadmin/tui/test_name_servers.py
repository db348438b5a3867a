"""A name server that does not answer, and a broker whose write permission was wiped, are wrong although all goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from tests.rmqadmin.tui.opened import Driver, clients_of, drive
from tests.support import servers
from tests.support.servers import Server, until


@dataclass
class Two:
    """Two name servers and a broker that registers with both."""

    first: Server
    second: Server

    @property
    def addrs(self) -> str:
        return f"{self.first.namesrv_addr};{self.second.namesrv_addr}"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with servers.namesrv(tmp_path / "first") as first, servers.namesrv(tmp_path / "second") as second:
        found = Two(first, second)
        with servers.broker(tmp_path / "broker", found.addrs, "broker-a"):
            for addr in (first.namesrv_addr, second.namesrv_addr):
                with AdminClient(addr) as admin:
                    until(lambda admin=admin: "broker-a" in admin.topic_list())
            yield found


@pytest.mark.slow
def test_a_name_server_that_dies_is_wrong_while_another_answers(two: Two) -> None:
    async def test(driver: Driver) -> None:
        await driver.until_shown("all is well")
        two.second.stop()
        await driver.until_shown(two.second.namesrv_addr, f"cannot connect to {two.second.namesrv_addr}")
        await driver.until_shown("broker-a/0")
        await driver.press("enter")
        await driver.until_shown("Name servers", two.first.namesrv_addr)

    drive(clients_of(two.addrs), test, size=(224, 40), interval_s=0.1)


@pytest.mark.slow
def test_a_wiped_write_permission_is_wrong_until_it_is_given_back(two: Two) -> None:
    addr = two.second.namesrv_addr

    async def test(driver: Driver) -> None:
        await driver.until_shown("all is well")
        with AdminClient(two.addrs) as admin:
            admin.wipe_write_perm(addr, "broker-a")
            await driver.until_shown(f"no write permission at {addr}: it was wiped")
            assert two.first.namesrv_addr not in driver.lines[3]
            admin.add_write_perm(addr, "broker-a")
        await driver.until_shown("all is well", "has its write permission again")

    drive(clients_of(two.addrs), test, size=(224, 40), interval_s=0.1)
