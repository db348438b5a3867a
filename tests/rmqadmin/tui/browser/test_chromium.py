"""How the browser tests wait, tested without a browser."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, cast

import pytest
from aiohttp import ClientWebSocketResponse

from tests.rmqadmin.tui.browser import chromium
from tests.rmqadmin.tui.browser.chromium import Page


class Painting:
    """A page that paints the time without end."""

    async def receive_json(self, timeout: float) -> dict[str, Any]:
        await asyncio.sleep(0)
        payload = base64.b64encode(b"12:00:00").decode()
        response = {"opcode": 2, "payloadData": payload}
        return {"method": "Network.webSocketFrameReceived", "params": {"response": response}}


def test_what_is_never_painted_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "TIMEOUT_S", 0.05)
    page = Page(cast(ClientWebSocketResponse, Painting()))
    asyncio.run(page.until_painted("12:00"))
    with pytest.raises(AssertionError, match=r"not painted: \['dead letters'\]; but '12:00:00"):
        asyncio.run(page.until_painted("12:00", "dead letters"))
