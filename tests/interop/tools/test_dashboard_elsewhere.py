"""The dashboard as a program on real clusters: switching clusters in one session, and in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pexpect
import pytest

from rmqadmin.core.contexts.context_store import ContextStore
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from tests.rmqadmin.tui.browser.served import TIMEOUT_S, Served, serving
from tests.rmqadmin.tui.test_terminal import expect_all, in_terminal
from tests.support import servers

from ..cluster import BROKER_NAME, Cluster

pytestmark = pytest.mark.interop

OTHER = "broker-o"


def test_from_the_cluster_to_another_and_back(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: Callable[[str], str]
) -> None:
    """The other one is ours, and its context is read-only."""
    for kind in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    for name in ("NAMESRV_ADDR", "RMQADMIN_NAMESRV"):
        monkeypatch.delenv(name, raising=False)
    topic = made_topic(cluster, fresh)
    with servers.standalone(tmp_path / "other", "--set", f"brokerName={OTHER}") as other:
        ContextStore().add("here", {"namesrv_addr": cluster.namesrv_addr})
        ContextStore().add("there", {"namesrv_addr": other.namesrv_addr, "read_only": True, "color": "red"})
        program = in_terminal(tmp_path, "tui", "--context", "here", "--interval", "0.5")
        expect_all(program, "here", f"{BROKER_NAME}/0")
        go(program, "ctx there")
        expect_all(program, "48;2;179;38;30m", "there", "read-only", f"{OTHER}/0")
        go(program, "ctx here")
        expect_all(program, "here", f"{BROKER_NAME}/0")
        go(program, f"topic {topic}")
        expect_all(program, "Topics", topic, "2 queues, 0 messages")
        program.send("q")
        program.expect(pexpect.EOF)
        program.close()
        assert program.exitstatus == 0, program.before


def go(program: pexpect.spawn[str], place: str) -> None:
    program.send(":")
    program.expect("Complete")
    program.send(f"{place}\r")


def made_topic(cluster: Cluster, fresh: Callable[[str], str]) -> str:
    topic = fresh("a-DashboardElsewhere")
    with AdminClient(cluster.namesrv_addr) as admin:
        config = TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2)
        admin.create_topic(cluster.broker_addr, config)
    return topic


def test_in_a_browser(cluster: Cluster, tmp_path: Path, fresh: Callable[[str], str]) -> None:
    """Speaks HTTP and a websocket as a page does. Chromium itself tests our cluster."""
    topic = made_topic(cluster, fresh)

    async def browse(served: Served) -> None:
        timeout, url = aiohttp.ClientTimeout(TIMEOUT_S), served.url.replace("?", "ws?") + "&width=140&height=30"
        async with aiohttp.ClientSession(timeout=timeout) as browser, browser.ws_connect(url) as page:
            await until_painted(page, "read-only", f"{BROKER_NAME}/0")
            await page.send_json(["stdin", ":"])
            await until_painted(page, "Complete")
            await page.send_json(["stdin", f"topic {topic}\r"])
            await until_painted(page, topic, "2 queues, 0 messages")
            await page.send_json(["stdin", "c"])
            await until_painted(page, cluster.broker_addr, "active")

    with serving(cluster.namesrv_addr, tmp_path) as served:
        asyncio.run(browse(served))
        assert served.end() == 0


async def until_painted(page: aiohttp.ClientWebSocketResponse, *texts: str) -> None:
    painted = b""
    async with asyncio.timeout(TIMEOUT_S):
        while not all(text.encode() in painted for text in texts):
            painted += await page.receive_bytes()
