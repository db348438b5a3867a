"""Clusters and brokers, and the values of one broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqclient.admin import AdminClient
from rmqproto.bodies.acl import UserInfo
from rmqproto.bodies.routes import BrokerData, ClusterInfo
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.fixed import ADDRS, FixedClient
from tests.rmqadmin.tui.opened import Driver, at_row, clients_of, drive
from tests.support import servers
from tests.support.quick import first_is_quick


@pytest.mark.slow
async def test_brokers_with_version_and_state(driver: Driver, world: World) -> None:
    await driver.press("c")
    await driver.until_shown("DefaultCluster", "broker-a", "V5_5_0", world.server.broker_addr, "active", "1 broker")


class SetClient(FixedClient):
    """A master of Apache's 5.5.0 with its slave, and a broker of 4.9."""

    def cluster_info(self) -> ClusterInfo:
        brokers = {"broker-a": {0: "a:1", 2: "a:2"}, "broker-c": {0: "c:1"}}
        table = {name: BrokerData(cluster="C", broker_name=name, broker_addrs=one) for name, one in brokers.items()}
        return ClusterInfo(broker_addr_table=table, cluster_addr_table={"C": list(table)})

    def broker_runtime_info(self, broker_addr: str) -> dict[str, str]:
        info = super().broker_runtime_info(ADDRS["broker-a"])
        del info["brokerActive"]
        return info if broker_addr == "c:1" else {**info, "brokerActive": str(broker_addr == "a:1").lower()}


@pytest.mark.slow
@pytest.mark.dashboard(make_client=SetClient)
async def test_a_slave_is_not_wrong_because_it_does_not_do_the_duties_of_a_master(driver: Driver) -> None:
    await driver.press("c")
    ends = [["active"], ["slave"], ["answers"]]
    await driver.until(lambda: [line.split()[-1:] for line in driver.lines[3:6]] == ends)
    await driver.press("h")
    await driver.until_shown("broker-a/2", "80.1%")
    assert "not active" not in driver.text


@pytest.mark.slow
async def test_values_of_a_broker_filtered_by_an_expression(driver: Driver, world: World) -> None:
    await at_row(driver, "c", "broker-a/0", "enter")
    await driver.until_shown("getTotalTps")
    await driver.press("2")
    await driver.until_shown("accountStatsEnable")
    await driver.press("slash")
    await driver.type("/^flushDiskType.*ASYNC/", into="filter")
    await driver.until_shown("ASYNC_FLUSH", "1 of ")
    assert "accountStatsEnable" not in driver.text


@pytest.mark.slow
@pytest.mark.dashboard(size=(200, 60))
async def test_values_are_told_with_their_units_and_sorted_as_numbers(driver: Driver, world: World) -> None:
    """Times used to be milliseconds since 1970, and a column of numbers and text could not be sorted."""
    await at_row(driver, "c", "broker-a/0", "enter")
    await driver.until(lambda: bool(re.search(r"earliestMessageTimeStamp +(now|\d+[smh] ago)", driver.text)))
    assert re.search(r"commitLogDiskRatio +\d+\.\d%", driver.text)
    assert re.search(r"getTotalTps +[\d,]+\.\d [\d,]+\.\d [\d,]+\.\d", driver.text)
    await driver.press(*["greater_than_sign"] * 3)
    await driver.until_shown("by value, rising")
    table = driver.app.screen.query_one(RowTable)
    values = [table.part(line.key).value for line in table.model.shown]
    numbers = [value for value in values if not isinstance(value, str)]
    assert numbers
    assert values[: len(numbers)] == sorted(numbers)
    await driver.press("2", "slash")
    await driver.type("flushDiskType", into="filter")
    await driver.until_shown("ASYNC_FLUSH", "when a send is answered")


@pytest.mark.slow
async def test_down_to_the_topics_of_a_broker(driver: Driver, world: World) -> None:
    await at_row(driver, "c", "broker-a/0", "3")
    await driver.until_shown("Brokers › broker-a", "newest")
    await driver.press("slash")  # other tests' topics are there too, more than fit on the screen
    await driver.type(world.topic, into="filter")
    await driver.until_shown("1 of ")


@pytest.mark.slow
async def test_a_broker_without_users_says_so(driver: Driver, world: World) -> None:
    await at_row(driver, "c", "broker-a/0", "p")
    await driver.until_shown("Brokers › Access to broker-a 0", "0 entries, ACL 1.0 off")


@pytest.mark.slow
async def test_a_broker_that_does_not_know_users_says_so(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache's brokers up to 5.3.0 answer like this."""

    def refuse(self: FixedClient, broker_addr: str) -> list[UserInfo]:
        raise RefusedError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 3005 not supported")

    monkeypatch.setattr(FixedClient, "users", refuse)
    await at_row(driver, "c", "broker-a/0", "p")
    await driver.until_shown("Access to", "lists no users and no ACL")


@pytest.mark.slow
@pytest.mark.dashboard(interval_s=2.0)
async def test_a_refusal_to_list_users_is_no_empty_list(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may not list users must not read the refusal as "nobody may do anything"."""

    def refuse(self: FixedClient, broker_addr: str) -> list[UserInfo]:
        raise RefusedError(ResponseCode.NO_PERMISSION, "User:ann has no permission to access Cluster:C")

    monkeypatch.setattr(FixedClient, "users", refuse)
    await at_row(driver, "c", "broker-a/0", "p")
    await driver.until_shown("User:ann has no permission to access Cluster:C", "again in")


@pytest.mark.slow
@pytest.mark.parametrize(
    "provider", first_is_quick(["", "org.apache.rocketmq.auth.authentication.provider.LocalAuthentication"])
)
@pytest.mark.dashboard(interval_s=2.0)
async def test_a_broker_that_keeps_no_users_and_one_that_fails_to_say(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    """Apache's 5.5.0 answers like this without an authenticationMetadataProvider, and the dashboard kept asking in
    vain."""

    def fail(self: FixedClient, broker_addr: str) -> list[UserInfo]:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, "An system error occurred, please try again later.")

    monkeypatch.setattr(FixedClient, "users", fail)
    config = {"authenticationMetadataProvider": provider} if provider else {}
    monkeypatch.setattr(FixedClient, "broker_config", lambda self, broker_addr: config)
    await at_row(driver, "c", "broker-a/0", "p")
    if provider:
        await driver.until_shown("An system error occurred", "again in")
    else:
        await driver.until_shown("keeps no users (authenticationMetadataProvider is not set)", "User:ann")


@pytest.mark.slow
def test_write_permission_is_taken_from_all_routes_and_given_back(tmp_path: Path) -> None:
    """On a broker of its own, whose topics stay as they are: a name server gives the permission back when it is told of
    other topics than before, and a broker may tell it so at any moment after a test has made one."""

    async def confirmed(driver: Driver, keys: list[str], preview: str, done: str) -> None:
        await driver.press("ctrl+e", *keys)
        await driver.until_shown(preview, "Type broker-a to go on")
        await driver.press("enter")
        await driver.enter("broker-a", into="name")
        await driver.until_shown("yes", done)
        await driver.press("escape")

    with servers.standalone(tmp_path) as server, AdminClient(server.namesrv_addr) as admin:

        def perm() -> int:
            return admin.topic_route("SELF_TEST_TOPIC").queue_datas[0].perm

        async def test(driver: Driver) -> None:
            await at_row(driver, "c", "broker-a/0")
            await confirmed(driver, [], "wipe", "to undo this: rmqadmin addWritePerm -b broker-a")
            assert perm() == 4
            await confirmed(driver, ["down"], " add ", "to undo this: rmqadmin wipeWritePerm")
            assert perm() == 6

        drive(clients_of(server.namesrv_addr), test)
