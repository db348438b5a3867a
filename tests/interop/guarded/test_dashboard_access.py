"""The dashboard's access forms, on clusters of Apache's and ours that check users and rights. Requests signed as the
changed user then show which of them the broker accepts."""

from pathlib import Path

import pytest

from rmqadmin.tui.dashboard_client import DashboardClient
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.acl import UserAccount
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.wire.credentials import Credentials
from tests.rmqadmin.tui.forms import close, confirm, preview_grant, preview_user, set_field
from tests.rmqadmin.tui.opened import Driver, drive, put_cursor
from tests.support.auth_walk import ROOT
from tests.support.servers import topic_config

from ..cluster import BROKER_NAME, SYSTEMS, Cluster
from .test_auth import GUARDED

pytestmark = pytest.mark.interop

TOPIC = "Guarded"
APP = Credentials("app", "app-secret")
SIZE = (120, 40)


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the place of undo files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_a_user_is_made_granted_a_topic_disabled_and_deleted(name: str, tmp_path: Path) -> None:
    settings = {key: value for key, value in GUARDED.items() if key != "autoCreateTopicEnable"}
    with SYSTEMS[name](tmp_path / name, settings) as system, AdminClient(system.namesrv_addr, ROOT) as admin:
        admin.create_topic(system.broker_addr, topic_config(TOPIC))

        async def test(driver: Driver) -> None:
            await forms(driver, system, admin)
            await lost(driver, system)

        drive(lambda *, read_only: signing(system, read_only), test, size=SIZE)


def signing(system: Cluster, read_only: bool) -> DashboardClient:
    return DashboardClient(system.namesrv_addr, ROOT, 5.0, read_only=read_only)


async def forms(driver: Driver, system: Cluster, admin: AdminClient) -> None:
    addr, user = system.broker_addr, APP.access_key
    await driver.press("c")
    await put_cursor(driver, f"{BROKER_NAME}/0")
    await driver.press("p")
    await driver.until_shown(f"User:{ROOT.access_key}", "Super")
    assert refusal(system) is not None, "there is no such user yet"

    await preview_user(driver, user, APP.secret_key)
    assert account(admin, addr) is None, "a preview makes nobody"
    await confirm(driver, "")
    await driver.until_shown(f"to undo this: rmqadmin deleteUser -b {addr}")
    assert (made := account(admin, addr)) is not None
    assert made.user_type == "Normal"
    assert refusal(system) == ResponseCode.NO_PERMISSION, "known, but nothing was granted"
    await close(driver)

    await preview_grant(driver, user, "Pub", f"Topic:{TOPIC}")
    assert refusal(system) == ResponseCode.NO_PERMISSION
    await confirm(driver, f"User:{user}")
    await driver.until_shown("✔ done")
    assert refusal(system) is None
    await close(driver)
    await driver.until_shown(f"Topic:{TOPIC}", "Pub")

    await put_cursor(driver, f"User:{user}/0")
    await driver.press("e")
    await set_field(driver, "status", "disable")
    await driver.until_shown("user_status", f"Type {user} to go on")
    await confirm(driver, user)
    await driver.until_shown("to undo this: rmqadmin updateUser")
    assert refusal(system) is not None, "who is disabled may do nothing"
    await close(driver)

    await put_cursor(driver, f"User:{user}/0")
    await driver.press("e")
    await set_field(driver, "status", "enable")
    await confirm(driver, user)
    await driver.until_shown("to undo this: rmqadmin updateUser")
    assert refusal(system) is None, "the password is the one from before"
    await close(driver)

    await put_cursor(driver, f"User:{user}/0")
    await driver.press("ctrl+x")
    await confirm(driver, f"User:{user}")
    await driver.until_shown("✔ done")
    assert refusal(system) == ResponseCode.NO_PERMISSION
    await close(driver)

    await put_cursor(driver, f"User:{user}/0")
    await driver.press("ctrl+d")
    await confirm(driver, user)
    await driver.until_shown("✔ done")
    assert account(admin, addr) is None
    assert refusal(system) is not None


async def lost(driver: Driver, system: Cluster) -> None:
    """Without a broker to ask, known values stay, and values that were not asked for before are unknown."""
    await close(driver)
    await driver.press("escape")
    await driver.until_shown(system.broker_addr, "active")
    system.kill()
    await driver.until_shown(system.broker_addr, "cannot connect")
    for key, noun in (("t", "topics"), ("g", "groups"), ("d", "groups with dead letters")):
        await driver.press(key)
        await driver.until_shown(f"{noun} unknown", "no answer yet", "cannot connect")
    await driver.press("h")
    await driver.until_shown("broken", "cannot connect to")  # one thing or two: a look may fall between the two kills


def account(admin: AdminClient, addr: str) -> UserAccount | None:
    return admin.account(addr, APP.access_key)


def refusal(system: Cluster) -> int | None:
    """The code with which the broker refuses a message of the user; None if it accepts it."""
    with AdminClient(system.namesrv_addr, APP) as client:
        try:
            client.send_message(system.broker_addr, MessageQueue(TOPIC, BROKER_NAME, 0), Message(TOPIC, b"x"))
        except RefusedError as error:
            return error.code
    return None
