"""The line behind ``:`` and the palette: places, reading commands, previews of changes, refusals."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pexpect
import pytest
from textual.css.query import NoMatches
from textual.widgets import Input

from rmqadmin.cli import registry
from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.parsing.command_tree import CommandInfo, describe
from rmqadmin.cli.prompt.candidates import Candidate, LineSoFar, Offer
from rmqadmin.cli.prompt.live_names import WAIT_S
from rmqadmin.cli.registry import Effect
from rmqadmin.tui.command_line.completion import KnownNames, offered
from rmqadmin.tui.command_line.line_screen import CommandLineScreen
from rmqadmin.tui.command_line.output_screen import CommandOutputScreen
from rmqadmin.tui.command_line.palette import line_for
from rmqadmin.tui.command_line.understood import CommandAsked, PlaceAsked, understand
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.screens.topics import TopicsScreen
from rmqadmin.tui.settings import Reach
from rmqadmin.tui.until_closed import until_closed
from rmqproto.errors import NotFoundError, UsageError
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.fixed import GROUP, FixedClient
from tests.rmqadmin.tui.opened import Driver, clients_of, drive, put_cursor
from tests.rmqadmin.tui.test_terminal import expect_all, started

REACH = ["-n", "127.0.0.1:9876"]


def test_what_a_line_means() -> None:
    assert understand("topics", REACH) == PlaceAsked("topics")
    assert understand(" group 'a b' ", REACH) == PlaceAsked("group", "a b")
    assert understand("rmqadmin topicstatus -t x", REACH) == CommandAsked(
        ["topicstatus", *REACH, "-t", "x"], "rmqadmin topicstatus -n 127.0.0.1:9876 -t x", False
    )
    assert understand("group lag billing", ["--context", "prod"]) == CommandAsked(
        ["group", "lag", "--context", "prod", "billing"], "rmqadmin group lag --context prod billing", False
    )
    assert understand("explain 17", REACH) == CommandAsked(["explain", "17"], "rmqadmin explain 17", False)
    assert understand("topicList -n here:1", REACH).words == ["topicList", "-n", "here:1"]  # type: ignore[union-attr]


def test_no_line_can_change_anything() -> None:
    """Whatever the command and its arguments, its client refuses every change, or the command is not run."""
    for name in ("topicList", "deleteTopic", "sendMessage", "updateOrderConf", "check lag", "msg cat", "dlq redrive"):
        entry = registry.find(name)
        assert entry is not None
        asked = understand(f"{name} -t x -p", REACH)
        assert isinstance(asked, CommandAsked)
        reads = entry.effect in (Effect.LOCAL, Effect.READ, Effect.STREAM, Effect.CHECK)
        assert (asked.words[len(name.split())] == "--dry-run") is not reads, name
        assert asked.is_dry_run is not reads, name


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "empty"),
        ("topcis", "Did you mean topics?"),
        ("topicStats", "Did you mean topicStatus?"),
        ("group", "takes one name"),
        ("topics x", "takes no name"),
        ("topicList | wc", "does not work in the dashboard"),
        ("tui", "takes the terminal"),
        ("context use x", "changes settings"),
        ("topicStatus -t 'x", "not closed"),
    ],
)
def test_what_is_no_line_is_said(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        understand(line, REACH)
    assert said in f"{caught.value} {caught.value.hint or ''}"


def test_a_command_reaches_the_same_servers_without_keys_in_its_line() -> None:
    options = CommonOptions(namesrv_addr="a:1", access_key="id", secret_key="key", is_tls=True, timeout_s=2.5)
    words, environment = Call("tui", options, Format.TABLE).reach()
    assert words == ["-n", "a:1"]
    assert environment == {
        "RMQADMIN_CONTEXT": "none", "RMQADMIN_ACCESS_KEY": "id", "RMQADMIN_SECRET_KEY": "key", "RMQADMIN_TLS": "true",
        "RMQADMIN_TIMEOUT": "2.5",
    }  # fmt: skip
    in_context = Call("tui", CommonOptions(context="prod"), Format.TABLE)
    with pytest.raises(NotFoundError):
        in_context.reach()


def test_without_servers_only_what_asks_none_is_run() -> None:
    """This is so while a recording is shown."""
    assert isinstance(understand("explain 17", None), CommandAsked)
    assert understand("topics", None) == PlaceAsked("topics")
    with pytest.raises(UsageError, match="no servers"):
        understand("topicList", None)


def info(name: str) -> CommandInfo:
    entry = registry.find(name)
    assert entry is not None
    return describe(entry)


def test_lines_for_what_is_selected() -> None:
    topic, known = {"TOPIC": "my orders"}, {"CLUSTER": "C"}
    assert line_for(info("topicStatus"), topic, known) == "topicStatus -t 'my orders'"
    assert line_for(info("deleteTopic"), topic, known) == "deleteTopic -t 'my orders'"
    assert line_for(info("consumerProgress"), {"GROUP": "g", "TOPIC": "t"}, known) == "consumerProgress -g g"
    assert line_for(info("dlq show"), {"GROUP": "g"}, known) == "dlq show g"
    assert line_for(info("resetOffsetByTime"), {"GROUP": "g", "TOPIC": "t"}, known) == "resetOffsetByTime -g g -t t -s "
    assert line_for(info("clusterList"), topic, known) is None


def test_lines_that_need_more_than_what_is_selected() -> None:
    """Where a value is missing the line ends with a blank, to type it. No value stands where another kind belongs."""
    queue = {"GROUP": "g", "TOPIC": "t", "BROKER": "b", "QUEUE": "3"}
    letter = {"TOPIC": "%DLQ%g", "GROUP": "g", "ID": "I"}
    broker = {"HOST:PORT": "h:1", "BROKER": "b", "CLUSTER": "C"}
    user = {**broker, "USER": "ann", "User:NAME": "User:ann"}
    member, known = {"GROUP": "g", "CLIENT": "c"}, {"CLUSTER": "C", "CLUSTERS": "C"}
    for name, selected, line in (
        ("queryCq", queue, "queryCq -t t -q 3 -i "),
        ("queryCq", letter, "queryCq -t %DLQ%g -q "),
        ("queryMsgByOffset", queue, "queryMsgByOffset -t t -b b -i 3 -o "),
        ("resetOffset", queue, "resetOffset -g g -t t --to "),
        ("cloneGroupOffset", queue, "cloneGroupOffset -s g -t t -d "),
        ("updateTopic", queue, "updateTopic -t t -c C"),
        ("updateStaticTopic", queue, "updateStaticTopic -t t -c C -qn "),
        ("msg import", queue, None),
        ("dlq redrive", queue, "dlq redrive g"),
        ("dlq redrive", {"TOPIC": "t", "ID": "I"}, "dlq redrive --id I "),
        ("dlq redrive", letter, "dlq redrive --id I g"),
        ("consumerStatus", member, "consumerStatus -g g -i c"),
        ("copyUser", broker, "copyUser -f h:1 -t "),
        ("spark-replay", broker, None),
        ("context add", broker, None),
        ("user edit", broker, "user edit -b h:1 "),
        ("user edit", user, "user edit -b h:1 ann"),
        ("acl can", user, "acl can -b h:1 ann "),
        ("getUser", user, "getUser -u ann -b h:1"),
        ("getAcl", user, "getAcl -s User:ann -b h:1"),
        ("updateBrokerConfig", {**broker, "PROPERTY": "k"}, "updateBrokerConfig -k k -b h:1 -v "),
    ):
        assert line_for(info(name), selected, known) == line, name
    assert line_for(info("updateTopic"), queue, {}) == "updateTopic -t t -c "


def test_every_screen_tells_what_its_row_is_about() -> None:
    queue = {"TOPIC": "flights", "BROKER": "broker-a", "QUEUE": "0"}
    broker = {"HOST:PORT": "192.0.2.10:10911", "BROKER": "broker-a", "CLUSTER": "C"}

    async def test(driver: Driver) -> None:
        def selected() -> dict[str, str]:
            screen = driver.app.screen
            assert isinstance(screen, DashboardScreen)
            return screen.selected()

        async def opened(*keys: str) -> dict[str, str]:
            await driver.press(*keys)
            await driver.until(lambda: bool(selected()))
            return selected()

        await driver.until_shown(GROUP, "broker-a/0")
        assert await opened() == broker
        assert await opened("tab") == {"GROUP": GROUP}
        await driver.press("g")
        await put_cursor(driver, GROUP)
        await driver.press("enter")
        await driver.until_shown("192.0.2.50@1")
        assert selected() == {"GROUP": GROUP, **queue}
        await driver.press("l")
        await driver.until(lambda: driver.app.way[-1].endswith("over time"))
        assert selected() == {"GROUP": GROUP, **queue}
        await driver.press("escape", "tab", "home")
        assert selected() == {"GROUP": GROUP, "CLIENT": "192.0.2.50@1"}
        await driver.press("enter")
        await driver.until(lambda: driver.app.way[-1] == "192.0.2.50@1")
        assert selected() == {"GROUP": GROUP, "CLIENT": "192.0.2.50@1"}
        await driver.press("escape", "b")
        await driver.until_shown("owner before")
        assert {"GROUP": GROUP}.items() <= (await opened()).items()
        await driver.press("t")
        await put_cursor(driver, "flights")
        assert await opened() == {"TOPIC": "flights"}
        await driver.press("enter")
        await driver.until(lambda: selected() == queue)
        await driver.press("c")
        await put_cursor(driver, "broker-a/0")
        await driver.press("i", "home")
        await driver.until(lambda: selected() == broker)
        await driver.press("end")
        await driver.until(lambda: selected().keys() == {*broker, "PROPERTY"})
        await driver.press("escape", "a")
        await driver.until_shown("User:ann")
        await driver.press("home")
        assert selected() == {**broker, "User:NAME": "User:[/red]", "USER": "[/red]"}

    drive(FixedClient, test, size=(120, 40))


async def typed_line(driver: Driver, text: str) -> None:
    await driver.press("colon")
    await driver.until(lambda: isinstance(driver.app.screen, CommandLineScreen) and driver.app.focused is not None)
    driver.app.screen.query_one("#command", Input).value = text


def reach(world: World) -> Reach:
    return Reach(["-n", world.server.namesrv_addr])


def test_to_places_with_names_that_are_there(world: World) -> None:
    async def test(driver: Driver) -> None:
        await typed_line(driver, f"group {world.group[:-1]}")
        await driver.until_shown(f"  {world.group}")
        driver.app.screen.query_one("#command", Input).value = f"group {world.group}x"
        await driver.press("enter")
        await driver.until_shown(f"there is no group {world.group}x", "Did you mean")
        driver.app.screen.query_one("#command", Input).value = f"group {world.group}"
        await driver.press("enter")
        await driver.until_shown("lag 4", f"Groups › {world.group}")
        await typed_line(driver, f"messages {world.topic}")
        await driver.press("enter")
        await driver.until_shown("4 messages of 4", f"Topics › {world.topic}")
        await typed_line(driver, "letters")
        await driver.press("enter")
        await driver.until_shown("with dead letters")
        assert driver.app.way == ["Dead letters"]
        await typed_line(driver, "")
        await driver.press("up", "up")
        assert driver.app.screen.query_one("#command", Input).value == f"messages {world.topic}"
        await driver.press("escape")
        await driver.until(lambda: not isinstance(driver.app.screen, CommandLineScreen))

    drive(world.make_client, test, reach=reach(world))


def test_a_refusal_stays_although_a_completion_is_still_on_its_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_refused, is_over = Event(), Event()

    def late(_text: str, _names: KnownNames) -> Offer:
        is_refused.wait(30)
        is_over.set()
        return Offer(0, [Candidate("late", "")])

    async def test(driver: Driver) -> None:
        await typed_line(driver, "topcis")
        await driver.press("enter")
        await driver.until_shown("Did you mean topics?")
        is_refused.set()
        await driver.until(is_over.is_set)
        await driver.pilot.pause()
        assert "Did you mean topics?" in driver.text

    monkeypatch.setattr("rmqadmin.tui.command_line.line_screen.offered", late)
    drive(world.make_client, test, reach=reach(world))


class SomeNames(KnownNames):
    def __init__(self) -> None:
        self.names = {"context": ["dev", "prod"], "topic": ["producers"], "group": ["lagging"]}

    def of(self, kind: str, line: LineSoFar) -> list[str]:
        return self.names.get(kind, [])


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("ctx prod", ["prod"]),
        ("ctx x", []),
        ("messages prod", ["producers"]),
        ("save prod", []),
        ("group lag", ["lagging", "lag"]),
    ],
)
def test_behind_a_place_stands_no_command(text: str, candidates: list[str]) -> None:
    """``ctx prod`` used to offer producerConnection too. ``group`` also begins commands."""
    assert [one.text for one in offered(text, SomeNames()).candidates] == candidates


def test_a_completion_that_comes_while_the_line_is_closed_is_no_defect(world: World) -> None:
    """The widget was gone, which used to end the dashboard."""

    async def test(driver: Driver) -> None:
        await typed_line(driver, "topics")
        line = driver.app.screen
        assert isinstance(line, CommandLineScreen)
        await driver.press("enter")
        await driver.until(lambda: driver.app.way == ["Topics"] and not line.query("*"))
        await until_closed(line, lambda: line._complete("topics"))
        with pytest.raises(NoMatches):
            await until_closed(driver.app.screen, missing)

    async def missing() -> None:
        raise NoMatches

    drive(world.make_client, test, reach=reach(world))


def test_names_that_nobody_told_are_asked_for_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    makers = [clients_of("127.0.0.1:1"), world.make_client]
    names = KnownNames(lambda: makers.pop(0)(read_only=True))
    monkeypatch.setattr("rmqadmin.cli.prompt.live_names.monotonic", lambda: 1000.0)
    assert names.of("topic", LineSoFar()) == []
    assert names.of("topic", LineSoFar()) == []
    assert len(makers) == 1  # not asked again at once
    monkeypatch.setattr("rmqadmin.cli.prompt.live_names.monotonic", lambda: 1000.0 + WAIT_S)
    assert world.topic in names.of("topic", LineSoFar())


def test_tab_completes_commands_and_live_names(world: World) -> None:
    async def test(driver: Driver) -> None:
        await typed_line(driver, "topicsta")
        await driver.until_shown("topicStatus")
        await driver.press("tab")
        line = driver.app.screen.query_one("#command", Input)
        assert line.value == "topicStatus "
        line.value += f"-t {world.topic[:-1]}"
        await driver.until_shown(f"  {world.topic}")
        await driver.press("tab")
        assert line.value.startswith(f"topicStatus -t {world.topic[:-1]}")

    drive(world.make_client, test, reach=reach(world))


def test_a_command_that_reads_is_run_and_one_that_changes_is_shown_and_copied(world: World) -> None:
    perm = lambda: world.admin.topic_config(world.server.broker_addr, world.topic).perm  # noqa: E731

    async def test(driver: Driver) -> None:
        await typed_line(driver, f"topicStatus -t {world.topic}")
        await driver.press("enter")
        await driver.until_shown("status 0", "broker-a", "rmqadmin topicStatus -n")
        assert "dry run" not in driver.text
        assert driver.app.way == ["Pulse", "topicStatus"]
        await driver.press("escape")
        await driver.until(lambda: driver.app.way == ["Pulse"])
        await typed_line(driver, f"updateTopicPerm -b {world.server.broker_addr} -t {world.topic} -p 4")
        await driver.press("enter")
        await driver.until_shown("A dry run: nothing was changed", "status 0", "perm RW")
        assert perm() == 6
        await driver.press("y")
        await driver.until_shown("copied rmqadmin updateTopicPerm")
        assert driver.app.clipboard == (
            f"rmqadmin updateTopicPerm -n {world.server.namesrv_addr}"
            f" -b {world.server.broker_addr} -t {world.topic} -p 4"
        )

    drive(world.make_client, test, reach=reach(world))


def test_why_a_command_failed_can_be_read_whole(world: World) -> None:
    async def test(driver: Driver) -> None:
        await typed_line(driver, "topicStatus -t nowhere")
        await driver.press("enter")
        await driver.until_shown("status 5", "topic: nowhere (17 TOPIC_NOT_EXIST)")

    drive(world.make_client, test, size=(80, 24), reach=reach(world))


@pytest.mark.slow
def test_a_command_without_end_ends_with_its_screen(world: World) -> None:
    async def test(driver: Driver) -> None:
        await typed_line(driver, f"topicStatus -t {world.topic} --watch 1")
        await driver.press("enter")
        await driver.until_shown("running", "broker-a")
        screen = driver.app.screen
        assert isinstance(screen, CommandOutputScreen)
        run = screen._run
        assert run is not None
        await driver.press("escape")
        await driver.until(lambda: run.status is not None)
        assert run.status in (-15, 130)

    drive(world.make_client, test, reach=reach(world))


@pytest.mark.slow
def test_the_palette_has_the_commands_of_the_selected_row(world: World) -> None:
    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, world.topic)
        await driver.press("ctrl+p")
        await driver.until(lambda: "Search for commands" in driver.text)
        await driver.until_shown(f"topicRoute -t {world.topic}")  # above places and themes, even on 24 lines
        await driver.press(*"topicRoute")
        await driver.until(lambda: "topicRoute -t" in driver.text and "topicStatus" not in driver.text)
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, CommandLineScreen))
        assert driver.app.screen.query_one("#command", Input).value == f"topicRoute -t {world.topic}"
        await driver.press("ctrl+y")
        await driver.until_shown("copied rmqadmin topicRoute")
        await driver.press("enter")
        await driver.until_shown("status 0", "broker-a")

    drive(world.make_client, test, reach=reach(world))


def test_who_types_before_the_palette_knows_its_commands_finds_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands take a second to load at first. Each typed letter ended the search for the one before and the
    loading with it, so the palette stayed empty."""
    is_loaded = Event()

    def lines_for(selected: object, known: object) -> list[tuple[str, str]]:
        is_loaded.wait()
        return [("resetOffset -g arrivals", "Moves it.")]

    monkeypatch.setattr("rmqadmin.tui.command_line.palette.lines_for", lines_for)

    async def test(driver: Driver) -> None:
        await driver.press("g")
        await put_cursor(driver, GROUP)
        try:
            await driver.press("ctrl+p")
            await driver.until_shown("Search for commands")  # used to be hidden until the commands were loaded
            await driver.until(lambda: isinstance(driver.app.focused, Input))
            await driver.press(*"reset")
        finally:
            is_loaded.set()
        await driver.until_shown("resetOffset -g arrivals")

    drive(FixedClient, test)


@pytest.mark.slow
def test_from_the_shell(world: World, tmp_path: Path) -> None:
    program = started(world, tmp_path, "tui", "-n", world.server.namesrv_addr, size=(120, 40))
    program.expect("broker-a")
    program.send(":")
    program.expect("Complete")
    program.send(f"topicStatus -t {world.topic}\r")
    expect_all(program, "status 0", "rmqadmin topicStatus -n")
    program.send("\x1b")
    program.expect("broker-a")
    program.send(":")
    program.expect("Complete")
    program.send("q\r")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0, program.before


def test_the_line_says_how_it_is_run_and_how_earlier_ones_come_back(world: World) -> None:
    async def test(driver: Driver) -> None:
        await driver.press("colon")
        await driver.type("topics", into="command")
        await driver.until_shown("⏎ Run", "↑ Earlier", "esc Close")
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, TopicsScreen))
        await driver.press("colon", "up")
        await driver.until(lambda: driver.app.screen.query_one("#command", Input).value == "topics")

    drive(world.make_client, test)
