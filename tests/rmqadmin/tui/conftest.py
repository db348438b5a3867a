"""A broker with data to look at, shared by the tests of the dashboard. The names of topics and groups are the test's
own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.css import stylesheet
from textual.css.model import RuleSet
from textual.css.parse import parse
from textual.css.tokenizer import Token
from textual.css.types import CSSLocation
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from rmqadmin.tui.app import DashboardApp
from rmqadmin.tui.settings import ClientMaker
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.rmqadmin.tui.fixed import FixedClient
from tests.rmqadmin.tui.opened import Driver, clients_of, opened, run_eagerly
from tests.support import servers
from tests.support.servers import Fresh, Server, topic_config

QUEUE_COUNT = 4
BROKER = "broker-a"


@dataclass
class World:
    """``topic`` has one message a queue, with the keys ``key-0`` and so on. ``group`` has consumed none of them; the
    first is its dead letter."""

    server: Server
    admin: AdminClient
    topic: str
    group: str

    @property
    def make_client(self) -> ClientMaker:
        return clients_of(self.server.namesrv_addr)

    def fill(self) -> None:
        addr = self.server.broker_addr
        self.admin.create_topic(addr, topic_config(self.topic, QUEUE_COUNT))
        self.admin.create_group(addr, SubscriptionGroupConfig(group_name=self.group))
        for queue_id in range(QUEUE_COUNT):
            self.send(b'{"n": %d}' % queue_id, keys=f"key-{queue_id}", tag="A", queue_id=queue_id)
            self.admin.update_consumer_offset(addr, self.group, self.topic, queue_id, 0)
        self.make_dead_letter(0, 0)

    @property
    def perm(self) -> int:
        """The permissions of the topic."""
        return self.admin.topic_config(self.server.broker_addr, self.topic).perm

    def send(self, body: bytes, *, keys: str = "", tag: str | None = None, queue_id: int = 0) -> None:
        message = Message(self.topic, body, tags=tag, keys=keys)
        self.admin.send_message(self.server.broker_addr, MessageQueue(self.topic, BROKER, queue_id), message)

    def make_dead_letter(self, queue_id: int, queue_offset: int) -> None:
        queue = MessageQueue(self.topic, BROKER, queue_id)
        addr = self.server.broker_addr
        stored = self.admin.pull_message(addr, queue, queue_offset, max_count=1).messages[0]
        self.admin.send_message_back(addr, self.group, stored, delay_level=-1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server only for the dashboard: leftovers of other tests would fill its screens."""
    with servers.standalone(tmp_path_factory.mktemp("dashboard")) as running:
        yield running


@pytest.fixture
def world(server: Server, fresh: Fresh) -> Iterator[World]:
    """What a test makes is gone after it: later tests find their rows on the first screenful."""
    topic, group = fresh("a-orders"), fresh("a-billing")
    with AdminClient(server.namesrv_addr) as admin:
        addr = server.broker_addr
        topics, groups = set(admin.topic_list()), set(admin.all_groups(addr).subscription_group_table)
        made = World(server, admin, topic, group)
        made.fill()
        yield made
        for name in set(admin.topic_list()) - topics:
            admin.delete_topic_in_broker(addr, name)
            admin.delete_topic_in_namesrv(server.namesrv_addr, name)
        for name in set(admin.all_groups(addr).subscription_group_table) - groups:
            admin.delete_group(addr, name, clean_offset=True)


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Driver]:
    """A dashboard, in tests that are coroutines: of ``world`` or ``pair`` if the test takes that, else of
    ``FixedClient``. ``@pytest.mark.dashboard`` gives another client and what else ``opened`` takes."""
    mark = request.node.get_closest_marker("dashboard")
    taken = next((name for name in ("world", "pair") if name in request.fixturenames), None)
    clients = FixedClient if taken is None else request.getfixturevalue(taken).make_client
    return opened(**{"make_client": clients, **(mark.kwargs if mark else {})})


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine, while those of its fixtures that are asynchronous contexts are open."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    fixtures = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for name, value in fixtures.items():
                if isinstance(value, AbstractAsyncContextManager):
                    fixtures[name] = await stack.enter_async_context(value)
            await test(**fixtures)

    run_eagerly(run())
    return True


@pytest.fixture(autouse=True)
def looks_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pulse asks for all groups as soon as it may, however long the last time took. After a read of three seconds
    on a busy machine it would wait a minute."""
    monkeypatch.setattr("rmqadmin.tui.sampler.GROUPS_BUSY_RATIO", math.inf)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts of notifications, unwrapped. On the screen each is there only for seconds, with wrapped lines."""
    found: list[str] = []
    say = DashboardApp.say

    def noted(app: DashboardApp, text: str, *, is_error: bool = False) -> None:
        found.append(text)
        say(app, text, is_error=is_error)

    monkeypatch.setattr(DashboardApp, "say", noted)
    return found


@pytest.fixture(autouse=True)
def unpainted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the quick tests, only what a test reads is painted, not each frame for a terminal that is not there: that is
    much of their CPU. ``make test-all`` and CI do it."""
    if "not slow" not in request.config.option.markexpr:
        return
    paint = Widget.render_lines

    def blank(widget: Widget, crop: Region) -> list[Strip]:
        return [Strip.blank(crop.width)] * crop.height

    def painting(looks: Callable[..., Any]) -> Callable[..., Any]:
        def look(*args: Any, **how: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Widget, "render_lines", paint)
                return looks(*args, **how)

        return look

    monkeypatch.setattr(Widget, "render_lines", blank)
    monkeypatch.setattr(App, "export_screenshot", painting(App.export_screenshot))
    monkeypatch.setattr(Screen, "get_style_at", painting(Screen.get_style_at))


@pytest.fixture(scope="session", autouse=True)
def parsed_once() -> Iterator[None]:
    """The widgets' styles are parsed once in a process, not again for each dashboard and each of its screens."""
    parsed: dict[tuple[object, ...], list[RuleSet]] = {}
    variables: tuple[object, object] = (None, None)

    def parse_rules(
        scope: str,
        css: str,
        read_from: CSSLocation,
        *,
        variable_tokens: dict[str, list[Token]] | None = None,
        **how: Any,
    ) -> list[RuleSet]:
        nonlocal variables
        if variables[0] is not variable_tokens:
            values = {name: tuple(one.value for one in tokens) for name, tokens in (variable_tokens or {}).items()}
            variables = variable_tokens, frozenset(values.items())
        key = (scope, css, read_from, variables[1], *how.items())
        if key not in parsed:
            parsed[key] = list(parse(scope, css, read_from, variable_tokens=variable_tokens, **how))
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stylesheet, "parse", parse_rules)
        yield


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of undo files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"
