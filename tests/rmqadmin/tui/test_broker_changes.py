"""A broker's property, its users and their rights, changed from the dashboard."""

from __future__ import annotations

import pytest

from rmqadmin.core.access.acls import delete_acl_in_broker, plan_acl, wished_acl
from rmqadmin.core.access.users import plan_user
from rmqadmin.core.changes import KEEP, Step
from rmqproto.access.resources import PolicyDecision
from rmqproto.bodies.acl import UserAccount
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.forms import close, confirm, fill, preview_grant, preview_user, set_field
from tests.rmqadmin.tui.opened import Driver, at_row, drive, put_cursor

SMALL = (80, 24)


@pytest.mark.slow
def test_a_property_is_changed_and_read_back(world: World) -> None:
    addr, key = world.server.broker_addr, "transactionCheckMax"
    before = world.admin.broker_config(addr)[key]

    async def test(driver: Driver) -> None:
        await at_row(driver, "c", "broker-a/0", "enter", "2")
        await put_cursor(driver, key)
        await driver.press("e")
        await driver.until_shown("times that a producer is asked")
        await fill(driver, "value", "many")
        await driver.until_shown(before, "many", f"Type {key} to go on")
        await confirm(driver, key)
        await driver.until_shown("does not take 'many'")
        assert world.admin.broker_config(addr)[key] == before
        await fill(driver, "value", "7")
        await confirm(driver, key)
        await driver.until_shown("to undo this: rmqadmin updateBrokerConfig", f"{key} -v {before}")
        assert world.admin.broker_config(addr)[key] == "7"
        await driver.press("u")
        await driver.until_shown(f"Undo: Property {key}", f"Type {key} to go on")
        await confirm(driver, key)
        await driver.until_shown("✔ done")
        assert world.admin.broker_config(addr)[key] == before

    try:
        drive(world.make_client, test, size=SMALL)
    finally:
        world.admin.update_broker_config(addr, {key: before})


def test_what_a_broker_will_refuse_is_foretold_and_can_be_tried(world: World) -> None:
    async def test(driver: Driver) -> None:
        await at_row(driver, "c", "broker-a/0", "enter", "2")
        await put_cursor(driver, "configBlackList")
        await driver.press("e")
        await fill(driver, "value", "x")
        await driver.until_shown("most likely this will not work", "black list", "Type configBlackList to go on")
        await confirm(driver, "configBlackList")
        await driver.until_shown("refused by", "black list")
        assert "most likely" not in driver.text

    drive(world.make_client, test, size=(120, 36))


def test_a_grant_and_its_end_have_a_way_back(world: World) -> None:
    """The dialog used not to show the undo command, though one command is enough."""
    addr, user, topic = world.server.broker_addr, f"u-{world.group}", f"Topic:{world.topic}"
    where = ["-b", addr, "-s", f"User:{user}", "-r", topic]
    world.admin.create_user(addr, UserAccount(username=user, password="s3cret-word"))
    wished = wished_acl(f"User:{user}", topic, "Pub,Sub", PolicyDecision.ALLOW, "10.0.0.0/8")
    granted = plan_acl(world.admin, addr, wished, world.admin.update_acl)
    assert granted.undo == [["deleteAcl", *where]]
    granted.act()
    back = ["updateAcl", *where, "-a", "Pub,Sub", "-d", "Allow", "-i", "10.0.0.0/8"]
    assert delete_acl_in_broker(world.admin, addr, f"User:{user}", topic).undo == [back]
    other = wished_acl(f"User:{user}", topic, "All", PolicyDecision.DENY, None)
    assert plan_acl(world.admin, addr, other, world.admin.update_acl).undo == [back]
    before = world.admin.acl(addr, f"User:{user}")
    for change in (
        plan_acl(world.admin, addr, other, world.admin.update_acl),
        delete_acl_in_broker(world.admin, addr, f"User:{user}", topic),
    ):
        change.act()
        assert world.admin.acl(addr, f"User:{user}") != before
        take_back(world, change)
        assert world.admin.acl(addr, f"User:{user}") == before
    take_back(world, granted)
    assert delete_acl_in_broker(world.admin, addr, f"User:{user}", topic).action == KEEP
    disabled = plan_user(world.admin, addr, UserAccount(username=user, user_status="disable"))
    disabled.act()
    take_back(world, disabled)
    assert (found := world.admin.account(addr, user)) is not None
    assert found.user_status == "enable"
    world.admin.delete_user(addr, user)


def take_back(world: World, step: Step) -> None:
    assert step.plan_back is not None
    for back in step.plan_back(world.admin):
        back.act()


@pytest.mark.slow
def test_a_grant_of_several_resources_says_how_each_is_taken_back(world: World) -> None:
    addr, user = world.server.broker_addr, f"s-{world.group}"
    resources = [f"Topic:{world.topic}", f"Group:{world.group}"]
    world.admin.create_user(addr, UserAccount(username=user, password="s3cret-word", user_type="Normal"))

    async def test(driver: Driver) -> None:
        await at_row(driver, "c", "broker-a/0", "p")
        await preview_grant(driver, user, "Pub,Sub", ",".join(resources))
        await confirm(driver, f"User:{user}")
        await driver.until_shown("to undo this:")
        said = "".join(line.strip("│ ") + " " for line in driver.text.splitlines())
        for resource in resources:
            assert f"rmqadmin deleteAcl -b {addr} -s User:{user} -r {resource}" in said

    try:
        drive(world.make_client, test, size=SMALL)
    finally:
        world.admin.delete_user(addr, user)


@pytest.mark.slow
def test_a_user_is_made_granted_something_disabled_and_deleted(world: World) -> None:
    addr, user = world.server.broker_addr, f"u-{world.group}"

    def account() -> UserAccount | None:
        return world.admin.account(addr, user)

    async def test(driver: Driver) -> None:
        await at_row(driver, "c", "broker-a/0", "p")
        await driver.until_shown("0 entries")
        await preview_user(driver, user, "s3cret-word")
        await confirm(driver, "")
        await driver.until_shown(f"to undo this: rmqadmin deleteUser -b {addr}")
        assert (made := account()) is not None
        assert (made.user_type, made.password) == ("Normal", "s3cret-word")
        await close(driver)

        await preview_grant(driver, user, "Pub,Sub", f"Topic:{world.topic}")
        await confirm(driver, f"User:{user}")
        await driver.until_shown("✔ done", "to undo this: rmqadmin deleteAcl")
        await close(driver)
        await driver.until_shown("Pub, Sub")

        await driver.press("e")
        await set_field(driver, "status", "disable")
        await driver.until_shown("user_status", f"Type {user} to go on")
        await confirm(driver, user)
        await driver.until_shown("to undo this: rmqadmin updateUser")
        assert (changed := account()) is not None
        assert (changed.user_status, changed.password) == ("disable", "s3cret-word")
        await close(driver)

        await driver.press("ctrl+x")
        await confirm(driver, f"User:{user}")
        await driver.until_shown("✔ done", "to undo this: rmqadmin updateAcl")
        await close(driver)
        await driver.until_shown("nothing granted")
        await driver.press("ctrl+d")
        await confirm(driver, user)
        await driver.until_shown("✔ done")
        assert account() is None

    try:
        drive(world.make_client, test, size=SMALL)
    finally:
        if account() is not None:
            world.admin.delete_user(addr, user)
