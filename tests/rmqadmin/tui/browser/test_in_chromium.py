"""The dashboard in a real browser: opened with the token, checked, its picture saved, left. RMQADMIN_WRITE_GOLDENS=1
make browser also writes the manual's picture."""

from __future__ import annotations

import asyncio
import os
import struct
import zlib
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.rmqadmin.tui.browser.chromium import Page, browsing
from tests.rmqadmin.tui.browser.served import TIMEOUT_S, Served, serving
from tests.rmqadmin.tui.conftest import QUEUE_COUNT, World
from tests.support import servers
from tests.support.servers import topic_config

pytestmark = pytest.mark.browser

SIZE = (1160, 560)
PICTURE = Path(__file__).parents[4] / "docs/pictures/tui-browser.png"
MESSAGES = [
    b'{"flight": %d, "carrier": "%s", "from": "EWR", "to": "%s", "delay_min": %d}'
    % (1545 + 7 * at, carrier, to, 3 * at)
    for at, (carrier, to) in enumerate([(b"UA", b"IAH"), (b"AA", b"MIA"), (b"B6", b"BQN"), (b"DL", b"ATL")] * 4)
]


def test_from_the_token_to_a_dead_letter(tmp_path: Path) -> None:
    with servers.standalone(tmp_path / "store") as server, AdminClient(server.namesrv_addr) as admin:
        flights(World(server, admin, "flights", "arrivals"))
        with serving(server.namesrv_addr, tmp_path) as served:
            asyncio.run(look(served, tmp_path))
            assert served.end() == 0


def flights(world: World) -> None:
    addr = world.server.broker_addr
    world.admin.create_topic(addr, topic_config(world.topic, QUEUE_COUNT))
    world.admin.create_group(addr, SubscriptionGroupConfig(group_name=world.group))
    for at, body in enumerate(MESSAGES):
        world.send(body, keys=f"N{39463 + at}", tag="late", queue_id=at % QUEUE_COUNT)
    for queue_id in range(QUEUE_COUNT):
        world.admin.update_consumer_offset(addr, world.group, world.topic, queue_id, queue_id)
        world.make_dead_letter(queue_id, 0)


async def look(served: Served, folder: Path) -> None:
    async with browsing(folder / "profile", SIZE) as page:
        await page.open(served.url)
        await page.until_painted("read-only", "arrivals", "broker-a")
        assert await page.value("location.href") == served.address, "nobody reads the token over a shoulder"
        assert await page.value("document.cookie") == "", "no script sees it"
        await page.press("d")
        await page.until_painted("1 group with dead letters")
        await page.press("Enter")
        await page.until_painted("N39463", "late")
        await asyncio.sleep(0.5)  # what was painted becomes pixels
        look_at(await page.picture())
        await keep_picture_of_screen(page, folder)
        await page.press("q")
        await page.until("document.body.classList.contains('-closed')")
        async with asyncio.timeout(TIMEOUT_S):
            while served.dashboards():  # the page learns of the end before the program has ended
                await asyncio.sleep(0.05)
        assert [url for url in page.asked if not url.startswith((served.address, "data:"))] == []
        assert page.errors == []


def look_at(picture: bytes) -> None:
    """Checks that the picture is not blank: lines of text make many different lines of pixels. Also writes the manual's
    picture if that is asked for."""
    parts, at = b"", 8
    while at < len(picture):
        (size_bytes,) = struct.unpack_from(">I", picture, at)
        kind = picture[at + 4 : at + 8]
        parts += picture[at + 8 : at + 8 + size_bytes] if kind == b"IDAT" else b""
        at += 12 + size_bytes
    pixels = zlib.decompress(parts)
    line_bytes = len(pixels) // SIZE[1]
    lines = {pixels[start : start + line_bytes] for start in range(0, len(pixels), line_bytes)}
    assert len(lines) > 60
    if os.environ.get("RMQADMIN_WRITE_GOLDENS"):
        PICTURE.write_bytes(picture)


async def keep_picture_of_screen(page: Page, folder: Path) -> None:
    """ctrl+s downloads the picture to the browser, and writes no file where rmqadmin runs."""
    kept = folder / "kept"
    await page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(kept))
    await page.press("s", control=True)
    async with asyncio.timeout(TIMEOUT_S):
        while not (found := list(kept.glob("*.svg"))) or not found[0].read_text().rstrip().endswith("</svg>"):
            await asyncio.sleep(0.05)
    assert "N39463" in found[0].read_text()
    assert not list(folder.glob("*.svg"))
