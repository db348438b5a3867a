"""The line behind ``:``, which opens places, and the palette, which runs commands for the selected row."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pexpect
import pytest
from textual.widgets import Input

from rmqadmin.cli import registry
from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.parsing.command_tree import CommandInfo, describe
from rmqadmin.cli.prompt.live_names import WAIT_S
from rmqadmin.cli.registry import CHANGING, Effect
from rmqadmin.tui.command_line import output_screen
from rmqadmin.tui.command_line.line_screen import CommandLineScreen, KnownNames, offered
from rmqadmin.tui.command_line.output_screen import CommandOutputScreen
from rmqadmin.tui.command_line.palette import commands_for
from rmqadmin.tui.command_line.places import PlaceAsked, understand
from rmqadmin.tui.command_line.row_command import RowCommand, row_command
from rmqadmin.tui.dialogs.change import ChangeDialog
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.settings import Reach
from rmqproto.errors import NotFoundError, UsageError
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.fixed import GROUP, TOPIC, FixedClient
from tests.rmqadmin.tui.opened import Driver, at_row, clients_of, drive
from tests.rmqadmin.tui.test_terminal import expect_all, started
from tests.support.quick import in_one_test

REACH = ["-n", "127.0.0.1:9876"]


def test_what_a_line_means() -> None:
    assert understand("topics") == PlaceAsked("topics")
    assert understand(" Group billing ") == PlaceAsked("group", "billing")
    assert understand("save two words.csv") == PlaceAsked("save", "two words.csv")


@in_one_test(
    ("", "empty"),
    ("topcis", "Did you mean topics?"),
    ("resetOffset", "the palette (ctrl+p) and by `rmqadmin shell`"),
    ("group", "group is followed by a group"),
    ("group lag billing", None),
    ("topics x", "topics is followed by nothing"),
)
def test_what_is_no_place_is_said(line: str, said: str | None) -> None:
    if said is None:
        assert understand(line) == PlaceAsked("group", "lag billing")  # no group of this name is there
        return
    with pytest.raises(UsageError) as caught:
        understand(line)
    assert said in f"{caught.value} {caught.value.hint or ''}"


def test_no_command_of_the_palette_can_change_anything() -> None:
    """Whatever the command, its client refuses every change, or the command is not offered."""
    selected = dict.fromkeys(("TOPIC", "GROUP", "HOST:PORT", "ID", "USER", "QUEUE", "BROKER", "CLIENT"), "x")
    effects = {}
    for command in commands_for(selected, {"CLUSTER": "C", "CLUSTERS": "C"}):
        entry = registry.find(command.name)
        assert entry is not None
        effects[command.name] = entry.effect
        words, name = command.run_words(REACH), command.name.split()
        assert (words[len(name)] == "--dry-run") is (entry.effect in CHANGING), command.name
        assert "--dry-run" not in command.line(REACH)
    assert {Effect.READ, Effect.CHANGE, Effect.DESTROY, Effect.PROBE} <= set(effects.values())
    assert {"deleteTopic", "sendMessage", "dlq redrive", "topicStatus"} <= effects.keys()
    assert not {Effect.SCREEN, Effect.SETTINGS} & set(effects.values())


def test_a_command_reaches_the_same_servers_without_keys_in_its_line() -> None:
    options = CommonOptions(namesrv_addr="a:1", access_key="id", secret_key="key", tls=True, timeout_s=2.5)
    words, environment = Call("tui", options).reach()
    assert words == ["-n", "a:1"]
    assert environment == {
        "RMQADMIN_CONTEXT": "none", "RMQADMIN_ACCESS_KEY": "id", "RMQADMIN_SECRET_KEY": "key", "RMQADMIN_TLS": "true",
        "RMQADMIN_TIMEOUT": "2.5",
    }  # fmt: skip
    in_context = Call("tui", CommonOptions(context="prod"))
    with pytest.raises(NotFoundError):
        in_context.reach()
    command = row_command(info("topicStatus"), {"TOPIC": "my orders"}, {})
    assert command is not None
    assert command.line(REACH) == "rmqadmin topicStatus -n 127.0.0.1:9876 -t 'my orders'"
    assert command.run_words(REACH) == ["topicStatus", *REACH, "-t", "my orders"]


def info(name: str) -> CommandInfo:
    entry = registry.find(name)
    assert entry is not None
    return describe(entry)


def line_for(command: CommandInfo, selected: dict[str, str], known: dict[str, str]) -> str | None:
    found = row_command(command, selected, known)
    return None if found is None else found.text


def test_lines_for_what_is_selected() -> None:
    topic, known = {"TOPIC": "my orders"}, {"CLUSTER": "C"}
    assert line_for(info("topicStatus"), topic, known) == "topicStatus -t 'my orders'"
    assert line_for(info("deleteTopic"), topic, known) == "deleteTopic -t 'my orders'"
    assert line_for(info("consumerProgress"), {"GROUP": "g", "TOPIC": "t"}, known) == "consumerProgress -g g"
    assert line_for(info("dlq show"), {"GROUP": "g"}, known) == "dlq show g"
    assert (
        line_for(info("resetOffsetByTime"), {"GROUP": "g", "TOPIC": "t"}, known) == "resetOffsetByTime -g g -t t -s …"
    )
    assert line_for(info("clusterList"), topic, known) is None


def test_lines_that_need_more_than_what_is_selected() -> None:
    """The line ends with what must be added. No value stands where another kind belongs."""
    queue = {"GROUP": "g", "TOPIC": "t", "BROKER": "b", "QUEUE": "3"}
    letter = {"TOPIC": "%DLQ%g", "GROUP": "g", "ID": "I"}
    broker = {"HOST:PORT": "h:1", "BROKER": "b", "CLUSTER": "C"}
    user = {**broker, "USER": "ann", "User:NAME": "User:ann"}
    member, known = {"GROUP": "g", "CLIENT": "c"}, {"CLUSTER": "C", "CLUSTERS": "C"}
    for name, selected, line in (
        ("queryCq", queue, "queryCq -t t -q 3 -i …"),
        ("queryCq", letter, "queryCq -t %DLQ%g -q …"),
        ("queryMsgByOffset", queue, "queryMsgByOffset -t t -b b -i 3 -o …"),
        ("resetOffset", queue, "resetOffset -g g -t t --to …"),
        ("cloneGroupOffset", queue, "cloneGroupOffset -s g -t t -d …"),
        ("updateTopic", queue, "updateTopic -t t -c C"),
        ("updateStaticTopic", queue, "updateStaticTopic -t t -c C -qn …"),
        ("msg import", queue, None),
        ("dlq redrive", queue, "dlq redrive g"),
        ("dlq redrive", {"TOPIC": "t", "ID": "I"}, "dlq redrive --id I GROUP …"),
        ("dlq redrive", letter, "dlq redrive --id I g"),
        ("consumerStatus", member, "consumerStatus -g g -i c"),
        ("copyUser", broker, "copyUser -f h:1 -t …"),
        ("spark-replay", broker, None),
        ("context add", broker, None),
        ("user edit", broker, "user edit -b h:1 USER …"),
        ("user edit", user, "user edit -b h:1 ann"),
        ("acl can", user, "acl can -b h:1 ann ACTION …"),
        ("getUser", user, "getUser -u ann -b h:1"),
        ("getAcl", user, "getAcl -s User:ann -b h:1"),
        ("updateBrokerConfig", {**broker, "PROPERTY": "k"}, "updateBrokerConfig -k k -b h:1 -v …"),
    ):
        assert line_for(info(name), selected, known) == line, name
    assert line_for(info("updateTopic"), queue, {}) == "updateTopic -t t -c …"


@pytest.mark.slow
@pytest.mark.dashboard(size=(120, 40))
async def test_every_screen_tells_what_its_row_is_about(driver: Driver) -> None:
    queue = {"TOPIC": "flights", "BROKER": "broker-a", "QUEUE": "0"}
    broker = {"HOST:PORT": "192.0.2.10:10911", "BROKER": "broker-a", "CLUSTER": "C"}

    def selected() -> dict[str, str]:
        screen = driver.app.screen
        assert isinstance(screen, DashboardScreen)
        return screen.selected()

    async def opened(*keys: str) -> dict[str, str]:
        await driver.press(*keys)
        await driver.until(lambda: bool(selected()))
        return selected()

    await driver.until_shown(GROUP, "broker-a/0")
    driver.app.screen.query_one("#brokers").focus()
    await driver.until(lambda: selected() == broker)
    await driver.press("tab")
    await driver.until(lambda: selected() == {"GROUP": GROUP})
    await at_row(driver, "g", GROUP, "enter")
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
    await driver.press("escape", "3")
    await driver.until_shown("owner before")
    assert {"GROUP": GROUP}.items() <= (await opened()).items()
    await at_row(driver, "t", "flights")
    assert await opened() == {"TOPIC": "flights"}
    await driver.press("enter")
    await driver.until(lambda: selected() == queue)
    await at_row(driver, "c", "broker-a/0", "enter", "home")
    await driver.until(lambda: selected() == broker)
    await driver.press("2")
    await driver.until_shown("SYNC_FLUSH")
    await driver.press("end")
    await driver.until(lambda: selected().keys() == {*broker, "PROPERTY"})
    await driver.press("escape", "p")
    await driver.until_shown("User:ann")
    await driver.press("home")
    assert selected() == {**broker, "User:NAME": "User:[/red]", "USER": "[/red]"}


async def typed_line(driver: Driver, text: str) -> None:
    await driver.press("colon")
    await driver.until(lambda: isinstance(driver.app.screen, CommandLineScreen) and driver.app.focused is not None)
    driver.app.screen.query_one("#command", Input).value = text


def reach(world: World) -> Reach:
    return Reach(["-n", world.server.namesrv_addr])


@pytest.mark.slow
async def test_to_places_with_names_that_are_there(driver: Driver, world: World) -> None:
    await typed_line(driver, f"group {world.group[:-1]}")
    await driver.until_shown(f" group {world.group}")
    line = driver.app.screen.query_one("#command", Input)
    line.value = f"group {world.group}x"
    await driver.press("enter")
    await driver.until_shown(f"there is no group {world.group}x", "Did you mean")
    line.value = f"group {world.group}"
    await driver.press("enter")
    await driver.until_shown("lag 4", f"Groups › {world.group}")
    await typed_line(driver, f"messages {world.topic}")
    await driver.press("enter")
    await driver.until_shown("4 messages of 4", f"Topics › {world.topic}")
    await typed_line(driver, "letters")
    await driver.press("enter")
    await driver.until_shown("with dead letters")
    assert driver.app.way == ["Dead letters"]
    await driver.press("colon")
    await driver.until_shown("⏎ Go", "tab Complete", "esc Close")
    await driver.press("escape")
    await driver.until(lambda: not isinstance(driver.app.screen, CommandLineScreen))


@pytest.mark.slow
async def test_tab_completes_words_and_live_names(driver: Driver, world: World) -> None:
    names = KnownNames(lambda: world.make_client(read_only=True))
    await driver.press("colon")
    await driver.type("mes", into="command")
    await driver.until(lambda: driver.text.count("messages") == 3)  # two of them are the offer, one the suggestion
    await driver.press("tab")
    line = driver.app.screen.query_one("#command", Input)
    await driver.until(lambda: line.value == "messages ")
    await driver.type(world.topic[:-1], into="command")
    await driver.until(lambda: driver.text.count(f"messages {world.topic[:-1]}") > len(offered(line.value, names)))
    await driver.press("tab")
    await driver.until(lambda: line.value in [text for text, _ in offered("messages ", names)])


def test_a_suggestion_that_comes_while_the_line_is_closed_is_no_defect(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The widget was gone, which used to end the dashboard."""
    is_closed, is_over = Event(), Event()

    def late(_text: str, _names: KnownNames) -> list[tuple[str, str]]:
        is_closed.wait(30)
        is_over.set()
        return [("topics", "")]

    async def test(driver: Driver) -> None:
        await typed_line(driver, "topics")
        await driver.press("enter")
        await driver.until(lambda: driver.app.way == ["Topics"])
        is_closed.set()
        await driver.until(is_over.is_set)
        await driver.until_shown(world.topic)

    monkeypatch.setattr("rmqadmin.tui.command_line.line_screen.offered", late)
    drive(world.make_client, test)


class SomeNames(KnownNames):
    def __init__(self) -> None:
        self.names = {"context": ["dev", "prod"], "topic": ["%RETRY%prod", "producers"], "group": ["lagging"]}

    def of(self, kind: str) -> list[str]:
        return self.names.get(kind, [])


@in_one_test(
    ("Top", ["topics", "topic "]),
    ("ctx prod", ["ctx prod"]),
    ("messages ", ["messages producers"]),
    ("messages %", ["messages %RETRY%prod"]),
    ("save prod", []),
    ("topics x", []),
    ("nowhere x", []),
)
def test_what_may_follow(text: str, lines: list[str]) -> None:
    assert [line for line, _ in offered(text, SomeNames())] == lines


def test_names_that_nobody_told_are_asked_for_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    makers = [clients_of("127.0.0.1:1"), world.make_client]
    names = KnownNames(lambda: makers.pop(0)(read_only=True))
    monkeypatch.setattr("rmqadmin.cli.prompt.live_names.monotonic", lambda: 1000.0)
    assert names.of("topic") == []
    assert names.of("topic") == []
    assert len(makers) == 1  # not asked again at once
    monkeypatch.setattr("rmqadmin.cli.prompt.live_names.monotonic", lambda: 1000.0 + WAIT_S)
    assert world.topic in names.of("topic")


def command_of(name: str, *args: str, is_dry_run: bool = False) -> RowCommand:
    return RowCommand(name, "", list(args), "", is_dry_run)


def test_a_command_that_reads_is_run_and_one_that_changes_is_shown_and_copied(world: World) -> None:
    async def test(driver: Driver) -> None:
        await driver.app.push_screen(CommandOutputScreen(command_of("topicStatus", "-t", world.topic)))
        await driver.until_shown("status 0", "broker-a", "rmqadmin topicStatus -n")
        assert "dry run" not in driver.text
        assert driver.app.way == ["Pulse", "topicStatus"]
        await driver.press("escape")
        await driver.until(lambda: driver.app.way == ["Pulse"])
        args = ["-b", world.server.broker_addr, "-t", world.topic, "-p", "4"]
        await driver.app.push_screen(CommandOutputScreen(command_of("updateTopicPerm", *args, is_dry_run=True)))
        await driver.until_shown("A dry run: nothing was changed", "status 0", "perm RW")
        assert world.perm == 6
        await driver.press("ctrl+y")
        await driver.until_shown("copied rmqadmin updateTopicPerm")
        assert driver.app.clipboard == (
            f"rmqadmin updateTopicPerm -n {world.server.namesrv_addr}"
            f" -b {world.server.broker_addr} -t {world.topic} -p 4"
        )

    drive(world.make_client, test, reach=reach(world))


def test_why_a_command_failed_can_be_read_whole(world: World) -> None:
    async def test(driver: Driver) -> None:
        await driver.app.push_screen(CommandOutputScreen(command_of("topicStatus", "-t", "nowhere")))
        await driver.until_shown("status 5", "topic: nowhere (17 TOPIC_NOT_EXIST)")

    drive(world.make_client, test, size=(80, 24), reach=reach(world))


@pytest.mark.slow
@pytest.mark.parametrize("leave", ["escape", "q"])
def test_a_command_without_end_ends_with_its_screen_or_at_a_limit(
    world: World, monkeypatch: pytest.MonkeyPatch, leave: str
) -> None:
    async def test(driver: Driver) -> None:
        screen = CommandOutputScreen(command_of("topicStatus", "-t", world.topic, "--watch", "1"))
        await driver.app.push_screen(screen)
        await driver.until_shown("running", "broker-a")
        run = screen._program
        assert run is not None
        runs.append(run)
        await driver.press(leave)
        if leave == "escape":
            monkeypatch.setattr(output_screen, "OUTPUT_MAX_BYTES", 100)
            await driver.app.push_screen(CommandOutputScreen(command_of("topicStatus", "-t", world.topic)))
            await driver.until_shown("stopped after")

    runs: list[output_screen.ProgramRun] = []
    drive(world.make_client, test, reach=reach(world))
    assert [run.wait() in (-15, 130) for run in runs] == [True]


@pytest.mark.slow
def test_the_palette_runs_the_commands_of_the_selected_row(world: World) -> None:
    async def found(driver: Driver, text: str) -> None:
        await driver.press("ctrl+p")
        await driver.until(lambda: "Search for commands" in driver.text)
        await driver.until_shown(f"topicRoute -t {world.topic}")  # above places and themes, even on 24 lines
        await driver.press(*text)
        await driver.until(lambda: f"{text} -t" in driver.text and "topicStatus" not in driver.text)
        await driver.press("enter")

    async def test(driver: Driver) -> None:
        await at_row(driver, "t", world.topic)
        await found(driver, "topicRoute")
        await driver.until_shown("status 0", "broker-a", f"rmqadmin topicRoute -n {world.server.namesrv_addr}")
        await driver.press("escape")
        await found(driver, "sendMessage")
        await driver.until_shown(f"sendMessage -n {world.server.namesrv_addr} -t", "in a shell, add -p")

    drive(world.make_client, test, reach=reach(world))


@pytest.mark.slow
def test_who_types_before_the_palette_knows_its_commands_finds_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands take a second to load at first. Each typed letter ended the search for the one before and the
    loading with it, so the palette stayed empty."""
    is_loaded = Event()

    def load(selected: object, known: object) -> list[RowCommand]:
        is_loaded.wait()
        return [command_of("resetOffset", "-g", "arrivals")]

    monkeypatch.setattr("rmqadmin.tui.command_line.palette.commands_for", load)

    async def test(driver: Driver) -> None:
        await at_row(driver, "g", GROUP)
        try:
            await driver.press("ctrl+p")
            await driver.until_shown("Search for commands")  # used to be hidden until the commands were loaded
            await driver.until(lambda: isinstance(driver.app.focused, Input))
            await driver.press(*"reset")
        finally:
            is_loaded.set()
        await driver.until_shown("resetOffset -g arrivals")

    drive(FixedClient, test, reach=Reach(REACH))


async def test_from_a_dialog_the_palette_does_not_open(driver: Driver) -> None:
    """It led to other places, and closed a dialog whose change was running: nobody saw the outcome."""
    await at_row(driver, "t", TOPIC, "ctrl+d")
    await driver.until_shown("Delete the topic")
    await driver.press("ctrl+p")
    assert isinstance(driver.app.screen, ChangeDialog)


@pytest.mark.slow
def test_from_the_shell(world: World, tmp_path: Path) -> None:
    program = started(world, tmp_path, "tui", "-n", world.server.namesrv_addr, size=(120, 40))
    program.expect("broker-a")
    program.send(":")
    program.expect("Complete")
    program.send(f"messages {world.topic}\r")
    expect_all(program, "4 messages of 4")
    program.send(":")
    program.expect("Complete")
    program.send("q\r")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0, program.before
