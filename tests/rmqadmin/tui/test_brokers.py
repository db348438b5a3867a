"""Clusters and brokers, and one broker's values."""

from __future__ import annotations

from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.opened import Driver, drive, put_cursor


def test_brokers_with_version_and_state(world: World) -> None:
    async def test(driver: Driver) -> None:
        await driver.until_shown("DefaultCluster", "broker-a", "V5_5_0", world.server.broker_addr, "active", "1 broker")

    drive(world.make_client, test)


def test_values_of_a_broker_filtered_by_an_expression(world: World) -> None:
    async def test(driver: Driver) -> None:
        await put_cursor(driver, "broker-a/0")
        await driver.press("i")
        await driver.until_shown("brokerActive", "bootTimestamp")
        await driver.press("slash")
        await driver.type("/^config.*flushDiskType/")
        await driver.until_shown("ASYNC_FLUSH", "1 of ")
        assert "brokerActive" not in driver.text

    drive(world.make_client, test)


def test_down_to_the_topics_of_a_broker(world: World) -> None:
    async def test(driver: Driver) -> None:
        await put_cursor(driver, "broker-a/0")
        await driver.press("enter")
        await driver.until_shown("Cluster › broker-a", world.topic)

    drive(world.make_client, test)


def test_write_permission_is_taken_from_all_routes_and_given_back(world: World) -> None:
    def perm() -> int:
        return world.admin.topic_route(world.topic).queue_datas[0].perm

    async def confirmed(driver: Driver, key: str, preview: str) -> None:
        await driver.press("ctrl+w", key)
        await driver.until_shown(preview, "Type broker-a to go on")
        await driver.press("enter")
        await driver.type("broker-a")
        await driver.press("enter")
        await driver.until_shown("true")
        await driver.press("escape")

    async def test(driver: Driver) -> None:
        await put_cursor(driver, "broker-a/0")
        await confirmed(driver, "w", "wipe")
        assert perm() == 4
        await confirmed(driver, "a", " add ")
        assert perm() == 6

    drive(world.make_client, test)
