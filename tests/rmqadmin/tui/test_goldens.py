"""Every screen as text, with fixed data: ``tests/golden/tui``, and as the pictures of docs/tui.md. Write both anew with
RMQADMIN_WRITE_GOLDENS=1, and read the difference of the texts before it is committed."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rmqadmin.tui.app import picture_of
from rmqadmin.tui.settings import ClientMaker
from tests.rmqadmin.tui.fixed import DLQ, GROUP, NOW_MS, TOPIC, FixedClient
from tests.rmqadmin.tui.opened import Driver, drive, put_cursor, put_cursor_at, without_ages

GOLDEN_DIR = Path(__file__).parents[2] / "golden/tui"
PICTURE_DIR = Path(__file__).parents[3] / "docs/pictures"
PICTURED = ("cluster", "topics", "group", "reset", "dead_letters", "dead_letter_messages", "message_json")
SIZE = (150, 22)
make_client: ClientMaker = FixedClient

Steps = Callable[[Driver], Awaitable[None]]


pytestmark = pytest.mark.usefixtures("utc")


async def cluster(driver: Driver) -> None:
    await driver.until_shown("V5_5_0", "cannot connect")


async def broker(driver: Driver) -> None:
    await put_cursor(driver, "broker-a/0")
    await driver.press("i")
    await driver.until_shown("SYNC_FLUSH")


async def access(driver: Driver) -> None:
    await put_cursor(driver, "broker-a/0")
    await driver.press("a")
    await driver.until_shown("User:root", "4 entries")


async def topics(driver: Driver) -> None:
    await driver.press("t")
    await driver.until_shown("336,774", "3.5")
    await put_cursor(driver, "closed")


async def queues(driver: Driver) -> None:
    await topics(driver)
    await put_cursor(driver, TOPIC)
    await driver.press("enter")
    await driver.until_shown("112,258", "336,774 messages")


async def permissions(driver: Driver) -> None:
    await topics(driver)
    await driver.press("p")
    await driver.until_shown("keep")
    await driver.press("w")
    await driver.until_shown("perm R (4) -> RW (6)", "to go on")


async def groups(driver: Driver) -> None:
    await driver.press("g")
    await driver.until_shown("unequal subscriptions", "offline")


async def group(driver: Driver) -> None:
    await driver.press("g")
    await put_cursor(driver, GROUP)
    await driver.press("enter")
    await driver.until_shown("owned twice", "does not answer")


async def reset(driver: Driver) -> None:
    await group(driver)
    await driver.press("ctrl+r")
    await driver.type("begin", into="to")
    await driver.press("enter")
    await driver.until_shown("old offset", "to go on")


async def dead_letters(driver: Driver) -> None:
    await driver.press("d")
    await driver.until_shown("1h00m")


async def dead_letter_messages(driver: Driver) -> None:
    await dead_letters(driver)
    await driver.press("enter")
    await driver.until_shown("4 messages of 4")


async def message_json(driver: Driver) -> None:
    await dead_letter_messages(driver)
    await put_cursor_at(driver, 3)
    await driver.press("enter")
    await driver.until_shown("route {2}")


async def message_text(driver: Driver) -> None:
    await dead_letter_messages(driver)
    await put_cursor_at(driver, 2)
    await driver.press("enter")
    await driver.until_shown("not JSON")


async def message_hex(driver: Driver) -> None:
    await message_text(driver)
    await driver.press("3")
    await driver.until_shown("00000010")


async def message_properties(driver: Driver) -> None:
    await message_text(driver)
    await driver.press("4")
    await driver.until_shown("ORIGIN_MESSAGE_ID")


async def message_record(driver: Driver) -> None:
    await message_text(driver)
    await driver.press("5")
    await driver.until_shown("body CRC")


async def message_trace(driver: Driver) -> None:
    await message_text(driver)
    await driver.press("7")
    await driver.until_shown("flights-out", "failed, retry 2")


async def client(driver: Driver) -> None:
    await group(driver)
    offsets = driver.app.focused
    await driver.press("tab")
    await driver.until(lambda: driver.app.focused is not offsets)
    await put_cursor_at(driver, 1)
    await driver.press("enter")
    await driver.until_shown("UA || [/red]", "commits")


async def sorted_by_lag(driver: Driver) -> None:
    await groups(driver)
    await driver.press("greater_than_sign", "greater_than_sign")
    await driver.until_shown("by lag, falling")


async def search(driver: Driver) -> None:
    await driver.press("s")
    await driver.type(DLQ, into="topic")
    await driver.press("enter")
    await driver.type("[/red]", into="wanted")
    await driver.press("enter")
    await driver.until_shown("1 message of")


async def filtered(driver: Driver) -> None:
    await topics(driver)
    await driver.press("slash")
    await driver.type("!/^%|sys/", into="filter")
    await driver.until_shown("5 of 8 topics")


SCREENS: list[Steps] = [
    cluster, broker, access, topics, queues, permissions, groups, group, reset, dead_letters, dead_letter_messages,
    message_json, message_text, message_hex, message_properties, message_record, message_trace, client, sorted_by_lag,
    search, filtered,
]  # fmt: skip


@pytest.mark.parametrize("steps", SCREENS, ids=lambda steps: steps.__name__)
def test_screen(steps: Steps) -> None:
    async def test(driver: Driver) -> None:
        await steps(driver)
        if writes() and steps.__name__ in PICTURED:
            picture_path(steps.__name__).write_text(picture_of(driver.app))
        await compare(steps.__name__, driver)

    drive(make_client, test, size=SIZE, now_ms=NOW_MS, interval_s=2.0)


def test_read_only() -> None:
    async def test(driver: Driver) -> None:
        await topics(driver)
        await compare("read_only", driver)

    drive(make_client, test, size=SIZE, now_ms=NOW_MS, interval_s=2.0, read_only=True)


@pytest.mark.parametrize("name", PICTURED)
def test_a_picture_of_the_manual_shows_the_screen_as_it_is(name: str) -> None:
    picture = "".join(ElementTree.fromstring(picture_path(name).read_text()).itertext())
    golden = (GOLDEN_DIR / f"{name}.txt").read_text()
    assert without_blanks(golden) in without_blanks(picture)


def without_blanks(text: str) -> str:
    return re.sub(r"\d+sold|Nsold|\s", "", "".join(text.split()))


def picture_path(name: str) -> Path:
    return PICTURE_DIR / f"tui-{name.replace('_', '-')}.svg"


def writes() -> bool:
    return bool(os.environ.get("RMQADMIN_WRITE_GOLDENS"))


async def compare(name: str, driver: Driver) -> None:
    """The screen becomes the golden one: it may still be asking, and lines may still be on their way."""
    path = GOLDEN_DIR / f"{name}.txt"
    if writes():
        path.parent.mkdir(exist_ok=True)
        path.write_text(without_ages(driver.text))
    golden = path.read_text()
    with contextlib.suppress(AssertionError):  # what follows shows the difference
        await driver.until(lambda: without_ages(driver.text) == golden)
    assert without_ages(driver.text) == golden
