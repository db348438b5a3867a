"""The dashboard in a context: its name and colour, its restrictions, and switching to another context."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from threading import Event

import pexpect
import pytest

from rmqadmin.core.contexts.context import ContextColor
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.tui.command_line.places import PlaceAsked, open_place
from rmqadmin.tui.memory.cluster import Cluster, ClusterMemory
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.remembered import read_remembered
from rmqadmin.tui.settings import DashboardSettings
from rmqadmin.tui.sources.found import read_askable
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError, UsageError
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.opened import Driver, at_row, clients_of, drive, opened
from tests.rmqadmin.tui.test_terminal import expect_all, started
from tests.support import servers
from tests.support.quick import first_is_quick
from tests.support.servers import Server


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A second cluster, with a topic of its own."""
    args = ("--set", "brokerClusterName=Other", "--set", "brokerName=broker-o")
    with servers.standalone(tmp_path_factory.mktemp("other"), *args) as running:
        with AdminClient(running.namesrv_addr) as admin:
            admin.create_topic(running.broker_addr, TopicConfig(topic_name="a-topic-there"))
        yield running


def color_at(driver: Driver, text: str) -> str:
    """The background colour of a text in the path."""
    line = driver.app.screen.query_one("PathLine").render_line(0)
    at = line.text.index(text)
    return next(
        str(segment.style.bgcolor.name) for segment in line.crop(at, at + 1) if segment.style and segment.style.bgcolor
    )


@pytest.mark.dashboard(context="live", color=ContextColor.RED)
async def test_its_name_is_in_the_second_line_in_its_colour(driver: Driver, world: World) -> None:
    await driver.until(lambda: driver.lines[1].startswith(" live ›"))
    assert color_at(driver, "live") == "#b3261e"
    await driver.press("t")
    await driver.until(lambda: driver.lines[1].startswith(" live ›") and driver.app.way == ["Topics"])
    assert color_at(driver, "live") == "#b3261e"


@pytest.mark.slow
@pytest.mark.dashboard(context="live", protected="live")
async def test_the_name_of_a_protected_context_is_typed_behind_that_of_the_topic(driver: Driver, world: World) -> None:
    await at_row(driver, "t", world.topic, "p")
    await driver.until_shown("keep")
    await driver.press("down")
    await driver.until_shown("RW (6)  R (4)", f"Type {world.topic} to go on")
    await driver.press("enter")
    await driver.enter(world.topic, into="name")
    await driver.until_shown("live is protected. Type live to go on")
    await driver.type(world.topic, into="name")  # the topic's name again, which is wrong here
    await driver.press("enter")
    await driver.until_shown("nothing was changed: that is not the name to type")
    assert world.perm == 6
    await driver.press("ctrl+u")
    await driver.enter("live", into="name")
    await driver.until_shown("✔ done")
    assert world.perm == 4


@pytest.fixture
def opens(world: World, other: Server) -> Callable[[str], DashboardSettings]:
    """Opens ``here``, the world, and ``there``, the other cluster, read-only."""

    def open_context(name: str) -> DashboardSettings:
        found = {"here": world.server, "there": other}.get(name)
        if found is None:
            raise NotFoundError(f"there is no context {name}")
        addr = found.namesrv_addr
        return DashboardSettings(
            addr, clients_of(addr), lambda: 0, context=name, read_only=name == "there", open_context=open_context
        )

    return open_context


@pytest.fixture
def driver(request: pytest.FixtureRequest, world: World) -> AbstractAsyncContextManager[Driver]:
    """As everywhere; a test that takes ``opens`` can open its contexts."""
    mark = request.node.get_closest_marker("dashboard")
    opens = request.getfixturevalue("opens") if "opens" in request.fixturenames else None
    return opened(world.make_client, open_context=opens, **(mark.kwargs if mark else {}))


@pytest.mark.slow
async def test_another_context_takes_its_place_and_back(
    driver: Driver, world: World, other: Server, opens: Callable[[str], DashboardSettings]
) -> None:
    await at_row(driver, "t", world.topic, "enter", "d")
    await driver.until(lambda: driver.app.way == ["Dead letters"])
    await driver.app.open_context("there")
    await driver.until_shown(" there ›", "read-only", "broker-o")
    assert driver.app.way == ["Pulse"]
    assert "broker-a" not in driver.text  # not even as a broker that is gone
    await driver.press("t")
    await driver.until_shown("a-topic-there")
    assert world.topic not in driver.text
    assert driver.app.way == ["Topics"]
    assert "p Perm" not in driver.text
    await driver.app.open_context("here")
    await driver.until_shown(" here ›", "broker-a")
    assert "read-only" not in driver.text
    with driver.app.make_client(read_only=False) as client:
        assert not client.read_only
        assert client.namesrv_addrs == [world.server.namesrv_addr]


@pytest.mark.slow
async def test_a_filter_stays_with_its_cluster(
    driver: Driver, world: World, opens: Callable[[str], DashboardSettings]
) -> None:
    """The list of the other cluster used to be empty, "0 topics, filter ..."."""
    await driver.press("t", "slash")
    await driver.enter(world.topic, into="filter")
    await driver.until_shown(f"filter {world.topic}")
    await driver.until(lambda: bool(read_remembered().filters))
    await driver.app.open_context("there")
    await driver.press("t")
    await driver.until_shown("a-topic-there")
    assert "filter" not in driver.text
    await driver.app.open_context("here")
    await driver.press("t")
    await driver.until_shown(f"filter {world.topic}")


@pytest.mark.slow
async def test_a_minus_sign_is_the_one_before(
    driver: Driver, world: World, opens: Callable[[str], DashboardSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as there were contexts, the line said that there is none of this name."""
    with pytest.raises(UsageError, match="no other context was shown before"):
        await driver.app.open_context("-")
    await driver.app.open_context("there")
    await driver.until_shown(" there ", "broker-o")
    monkeypatch.setattr(ContextStore, "names", lambda self: ["here", "there"])
    for broker_name in ("broker-a", "broker-o"):
        await driver.press("colon")
        await driver.enter("ctx -", into="command")
        await driver.until_shown(broker_name)
    assert driver.app.read_only


@pytest.mark.slow
async def test_one_that_cannot_be_opened_changes_nothing(
    driver: Driver, world: World, opens: Callable[[str], DashboardSettings]
) -> None:
    await at_row(driver, "t", world.topic)
    settings = driver.app.settings
    with pytest.raises(NotFoundError):
        await driver.app.open_context("nowhere")
    assert driver.app.settings is settings
    await driver.until_shown(world.topic)


@pytest.mark.slow
async def test_screens_of_the_old_servers_are_closed_before_the_new_memory_is_made(
    driver: Driver, world: World, opens: Callable[[str], DashboardSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was still open would have put its brokers and topics into it."""
    await at_row(driver, "t", world.topic)
    closed_with, stop = [], Feed.stop

    def noted(feed: Feed) -> None:
        closed_with.append(driver.app.memory)
        stop(feed)

    monkeypatch.setattr(Feed, "stop", noted)
    before = driver.app.memory
    await driver.app.open_context("there")
    assert closed_with
    assert all(memory is before for memory in closed_with)
    assert driver.app.memory is not before


@pytest.mark.slow
def test_a_place_that_was_asked_for_before_is_not_opened_in_another_context(
    world: World, opens: Callable[[str], DashboardSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, goes_on = Event(), Event()

    def slow(admin: AdminClient, memory: ClusterMemory) -> Cluster:
        asked.set()
        goes_on.wait()
        return read_askable(admin, memory)

    monkeypatch.setattr("rmqadmin.tui.command_line.places.read_askable", slow)

    async def test(driver: Driver) -> None:
        await driver.until(driver.app.client_loaded.is_set)
        opening = asyncio.create_task(open_place(driver.app, PlaceAsked("group", world.group)))
        await driver.until(asked.is_set)
        await driver.app.open_context("there")
        goes_on.set()
        await opening
        assert driver.app.way == ["Pulse"]

    drive(world.make_client, test, open_context=opens)


@pytest.mark.slow
async def test_the_last_of_two_contexts_that_were_asked_for_is_shown(
    driver: Driver, world: World, opens: Callable[[str], DashboardSettings]
) -> None:
    await driver.until(driver.app.client_loaded.is_set)
    await asyncio.gather(driver.app.open_context("there"), driver.app.open_context("here"))
    await driver.until_shown(" here ", "broker-a")


# --- from the shell --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unlocked", first_is_quick([False, True]))
def test_in_a_read_only_context_it_is_read_only_unless_unlocked(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unlocked: bool
) -> None:
    for kind in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    ContextStore().add("live", {"namesrv_addr": world.server.namesrv_addr, "read_only": True, "color": "red"})
    program = started(world, tmp_path, "tui", "--context", "live", *(["--unlock"] if unlocked else []))
    program.expect(r"48;2;179;38;30mlive")  # on red
    expect_all(program, "broker-a", *([] if unlocked else ["read-only"]))
    program.send("q")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0, program.before
    assert not unlocked or "read-only" not in (program.before or "")
