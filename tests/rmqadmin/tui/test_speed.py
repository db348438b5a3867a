"""Work that the first frame and each key do not wait for. ``bench.dashboard`` measures how long they take."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.segment import Segment
from rich.style import Style
from textual._context import visible_screen_stack
from textual.app import App
from textual.color import Color
from textual.css import stylesheet
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.geometry import Region, Size
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Input

from rmqadmin.tui import widget_styles
from rmqadmin.tui.app import DashboardApp
from rmqadmin.tui.dialogs.dialog import Dialog, dimmed_style
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.remembered import remember
from rmqadmin.tui.screens.base import SORT_ASKED_AGAIN_MAX
from rmqadmin.tui.settings import DashboardSettings
from rmqadmin.tui.sources import groups
from rmqadmin.tui.sources.topics import OUT_TPS_YOUNG_MS, read_numbers, read_topics
from rmqadmin.tui.widget_styles import STYLED_AT_ONCE, read_again
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.bodies.groups import ConsumerConnection
from rmqproto.bodies.routes import TopicConfig, TopicConfigs
from rmqproto.bodies.statistics import BrokerStatsData, TopicStats
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from tests.rmqadmin.tui.fixed import NOW_MS, FixedClient
from tests.rmqadmin.tui.opened import Driver, drive, put_cursor
from tests.rmqadmin.tui.painted import painted


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry each time the whole style sheet is read again."""
    found: list[int] = []
    reparse = Stylesheet.reparse

    def counted(sheet: Stylesheet) -> None:
        found.append(1)
        reparse(sheet)

    async def counted_for_theme(sheet: Stylesheet, variables: dict[str, str]) -> Stylesheet:
        found.append(1)
        return await read_again(sheet, variables)

    monkeypatch.setattr(Stylesheet, "reparse", counted)
    monkeypatch.setattr(widget_styles, "read_again", counted_for_theme)
    return found


@pytest.mark.parametrize("theme", [None, "solarized-light"])
def test_no_screen_waits_for_the_style_sheet_to_be_read_again(reads: list[int], theme: str | None) -> None:
    """Textual reads it twice for the first screen of each mode. A remembered theme is set before the first screen."""
    if theme is not None:
        remember(lambda remembered: setattr(remembered, "theme", theme))

    async def test(driver: Driver) -> None:
        assert driver.app.theme == (theme or "textual-dark")
        for key, shown in (("c", "V5_5_0"), ("t", "flights"), ("g", "arrivals"), ("d", "1h ago")):
            await driver.press(key)
            await driver.until_shown(shown)
        assert reads == []

    drive(FixedClient, test, now_ms=NOW_MS)


def test_another_theme_is_read_once_and_not_for_each_noun_after_it(reads: list[int]) -> None:
    """Each key of a noun read the style sheet again, and waited 80 to 100 ms."""

    async def test(driver: Driver) -> None:
        await driver.press("c")
        await driver.until_shown("V5_5_0")
        driver.app.theme = "solarized-light"
        await driver.until(lambda: reads == [1])
        for key, shown in (("t", "flights"), ("g", "arrivals"), ("c", "V5_5_0"), ("d", "1h ago"), ("h", "brokers")):
            await driver.press(key)
            await driver.until_shown(shown)
        assert reads == [1]

    drive(FixedClient, test, now_ms=NOW_MS)


@pytest.mark.parametrize(("theme", "count"), [(None, 1), ("textual-dark", 1), ("solarized-light", 2)])
def test_colours_are_made_readable_once_unless_another_theme_was_chosen(
    monkeypatch: pytest.MonkeyPatch, theme: str | None, count: int
) -> None:
    made: list[str] = []
    make = DashboardApp.get_css_variables

    def counted(app: DashboardApp) -> dict[str, str]:
        made.append(app.theme)
        return make(app)

    monkeypatch.setattr(DashboardApp, "get_css_variables", counted)
    remember(lambda remembered: setattr(remembered, "theme", theme))
    app = DashboardApp(DashboardSettings("127.0.0.1:1", no_client, lambda: NOW_MS))
    assert (len(made), made[-1]) == (count, theme or "textual-dark")
    assert app.stylesheet._variables == make(app)


def no_client(*, read_only: bool) -> Any:
    raise AssertionError("nothing is asked")


def test_a_new_screen_is_styled_by_its_mounting_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual resumes a new screen once or twice more, sets the class of its width, and styles each of its widgets
    every time."""
    styled: Counter[str] = Counter()
    find = App.update_styles

    def counted(app: App[None], node: DOMNode, animate: bool = True) -> None:
        styled[type(node).__name__] += 1
        find(app, node, animate=animate)

    monkeypatch.setattr(App, "update_styles", counted)

    async def test(driver: Driver) -> None:
        for key, shown in (
            ("c", "V5_5_0"),
            ("t", "flights"),
            ("enter", "3 queues"),
            ("g", "arrivals"),
            ("t", "3 queues"),
        ):
            await driver.press(key)
            await driver.until_shown(shown)
        names = ("PulseScreen", "BrokersScreen", "TopicsScreen", "QueuesScreen", "GroupsScreen")
        assert {name: styled[name] for name in names if styled[name]} == {}

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_what_is_opened_is_laid_out_and_styled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual tells a screen its size after layout, and then lays it out and draws it again. It also styles a dialog
    twice."""
    again: list[str] = []
    styled: Counter[str] = Counter()
    resize, find = vars(Screen)["_screen_resized"], App.update_styles

    def noted(screen: Screen[Any], size: Size) -> None:
        again.append(type(screen).__name__)
        resize(screen, size)

    def counted(app: App[None], node: DOMNode, animate: bool = True) -> None:
        styled[type(node).__name__] += 1
        find(app, node, animate=animate)

    monkeypatch.setattr(Screen, "_screen_resized", noted)
    monkeypatch.setattr(App, "update_styles", counted)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("flights")
        again.clear()
        await driver.press("question_mark")
        await driver.until_shown("on this screen")
        await driver.press("escape", "colon")
        await driver.until(lambda: bool(driver.app.screen.query("#command")))
        await driver.press("escape", "enter")
        await driver.until_shown("3 queues")
        assert (again, styled["CommandLineScreen"], styled["KeysScreen"]) == ([], 0, 0)
        await driver.press("colon")
        await driver.pilot.resize_terminal(90, 30)
        await driver.until(lambda: {"CommandLineScreen", "QueuesScreen"} <= set(again))

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def cells_of(dialog: Screen[Any]) -> list[tuple[str, Style | None]]:
    """All drawn characters with their styles, including the screen below."""
    visible_screen_stack.set(dialog.app._background_screens)
    strips = dialog._compositor.render_strips()
    return [(character, style) for strip in strips for text, style, _ in strip for character in text]


@pytest.mark.parametrize("color", ["#10203080", "#00000000"])
def test_text_below_a_dialog_is_dimmed_as_textual_does_it(color: str) -> None:
    for style in (Style(color="red", bold=True), Style(bgcolor="#102030", meta={"line": 1}), None):
        (plain,) = BackgroundScreen.process_segments([Segment("a", style)], Color.parse(color))
        assert dimmed_style(style, Color.parse(color)) == (plain.style or Style.null())


def test_the_screen_below_a_dialog_is_drawn_as_textual_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours does without Rich's console, which cuts all lines anew with each key."""
    monkeypatch.setattr("rmqadmin.tui.widgets.status_line.elapsed", lambda _: "0 s")  # the age of what is below

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        await driver.press("space", "question_mark")
        await driver.until_shown("on this screen", "Page down")
        dialog = driver.app.screen
        ours = cells_of(dialog)
        drawn: list[Region] = []

        def theirs(dialog: Dialog[None], crop: Region) -> list[Strip]:
            drawn.append(crop)
            return Screen.render_lines(dialog, crop)

        monkeypatch.setattr(Dialog, "render_lines", theirs)
        dialog.refresh()
        await driver.until(lambda: bool(drawn))
        assert cells_of(dialog) == ours

    drive(FixedClient, test, now_ms=NOW_MS, size=(120, 40))


def test_no_key_waits_for_the_styles_that_kinds_of_widgets_bring_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual reads an input's styles when the first input is shown, and styles a compact one twice."""
    read: list[str] = []
    styled: Counter[str] = Counter()
    parse, find = vars(stylesheet)["parse"], App.update_styles

    def noted(scope: str, *args: Any, **options: Any) -> Any:
        read.append(scope)
        return parse(scope, *args, **options)

    def counted(app: App[None], node: DOMNode, animate: bool = True) -> None:
        styled[type(node).__name__] += 1
        find(app, node, animate=animate)

    monkeypatch.setattr(stylesheet, "parse", noted)
    monkeypatch.setattr(App, "update_styles", counted)

    async def test(driver: Driver) -> None:
        await driver.until(lambda: "VerticalScroll" in read)
        assert "Input" in read
        read.clear()
        await driver.press("s")
        await driver.until_shown("id or key")
        assert len(driver.app.screen.query(Input)) == 3
        assert styled["QuestionInput"] <= 1  # the one that gets the focus
        await driver.press("escape", "t", "colon")
        await driver.until(lambda: bool(driver.app.screen.query("#command")))
        assert read == []

    drive(FixedClient, test, now_ms=NOW_MS)


def test_a_dialog_opened_before_its_styles_are_read_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first frame waits only for its own style sheet. The others are read in later turns, or for a key."""

    async def not_yet(sheet: stylesheet.Stylesheet) -> None:
        pass

    monkeypatch.setattr(widget_styles, "read_later_styles", not_yet)

    def sheets(driver: Driver) -> set[str]:
        return {Path(path).name for path, _ in driver.app.stylesheet.source if path.endswith(".tcss")}

    async def test(driver: Driver) -> None:
        assert sheets(driver) == {"style.tcss"}
        await driver.press("question_mark")
        await driver.until(lambda: bool(driver.app.screen.query(".dialog--box")))
        assert driver.app.screen.query_one(".dialog--box").styles.border_top[0] == "round"
        assert sheets(driver) == {"style.tcss", "screens.tcss", "dialogs.tcss"}

    drive(FixedClient, test, now_ms=NOW_MS)


def test_another_theme_is_seen_on_screens_that_were_opened_before(reads: list[int]) -> None:
    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("336,774")
        await driver.press("c")
        await driver.until_shown("V5_5_0")
        before = driver.app.theme_variables
        driver.app.theme = "solarized-light"
        await driver.until(lambda: driver.app.theme_variables is not before)
        await driver.until(lambda: driver.app.theme_variables["panel"] in grounds(driver))
        await driver.press("t")
        await driver.until_shown("336,774")
        await driver.until(lambda: driver.app.theme_variables["panel"] in grounds(driver))
        assert reads

    drive(FixedClient, test, now_ms=NOW_MS)


def test_a_key_can_be_read_while_another_theme_is_put_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual read its whole style sheet and styled all widgets in one turn of the loop, 50 ms or more."""
    steps: list[str] = []
    parse, update_nodes = vars(stylesheet)["parse"], Stylesheet.update_nodes

    def noted(step: str, count: int) -> None:
        steps.extend([step] * count)
        asyncio.get_running_loop().call_soon(steps.append, "turn")

    def parsed(*args: Any, **options: Any) -> Any:
        noted("read", 1)
        return parse(*args, **options)

    def styled(sheet: Stylesheet, nodes: Iterable[DOMNode], animate: bool = False) -> None:
        nodes = list(nodes)
        noted("style", len(nodes))
        update_nodes(sheet, nodes, animate)

    async def test(driver: Driver) -> None:
        await driver.until_shown("broker-a")
        await driver.press("space")
        monkeypatch.setattr(stylesheet, "parse", parsed)
        monkeypatch.setattr(Stylesheet, "update_nodes", styled)
        before = driver.app.theme_variables
        driver.app.theme = "solarized-light"
        await driver.until(lambda: driver.app.theme_variables is not before)
        await driver.until(lambda: driver.app.theme_variables["panel"] in grounds(driver))
        await driver.until(lambda: steps.count("style") > 2 * STYLED_AT_ONCE)  # the rest comes after the first colours
        assert steps.count("read") > 10
        in_turns = [list(run) for is_turn, run in groupby(steps, lambda step: step == "turn") if not is_turn]
        assert max(run.count("read") for run in in_turns) <= 2  # one of them may be a class that is read beforehand
        assert max(run.count("style") for run in in_turns) <= STYLED_AT_ONCE

    drive(FixedClient, test, now_ms=NOW_MS)


def grounds(driver: Driver) -> set[str]:
    return {ground.hex for _, _, ground in painted(driver)}


class ManyTopics(FixedClient):
    """More topics than one refresh asks for. ``asked`` has an entry for each refresh of a list of topics: how many
    numbers it asked for."""

    asked: ClassVar[list[int]] = []
    perm = 6

    def topic_list(self) -> list[str]:
        return [f"many-{number:03}" for number in range(TOPIC_COUNT)]

    def all_topics(self, broker_addr: str) -> TopicConfigs:
        self._only_a(broker_addr)
        self.asked.append(0)
        return TopicConfigs(
            topic_config_table={name: TopicConfig(topic_name=name, perm=self.perm) for name in self.topic_list()}
        )

    def topic_stats(self, broker_addr: str, topic: str) -> TopicStats:
        self.asked[-1] += 1
        return TopicStats(topic_put_tps=1.0)

    def groups_of_topic(self, broker_addr: str, topic: str) -> list[str]:
        return []


TOPIC_COUNT = 300


def test_rows_of_topics_are_made_again_only_if_servers_say_something_else() -> None:
    """With ten thousand topics, this was most of the dashboard's cost at rest."""
    client, memory = ManyTopics(read_only=True), ClusterMemory(lambda: NOW_MS)
    found = read_topics(client, memory)  # type: ignore[arg-type]
    assert read_topics(client, memory) is found  # type: ignore[arg-type]
    assert len(found.rows) == TOPIC_COUNT
    client.perm = 4
    other = read_topics(client, memory)  # type: ignore[arg-type]
    assert (found.rows["many-000"].perm, other.rows["many-000"].perm) == (6, 4)


def test_the_rate_out_of_a_topic_is_asked_every_ten_seconds() -> None:
    """Brokers count it anew every ten seconds. It was more than half of the requests of a list of topics."""
    clock = [NOW_MS]
    asked: list[str] = []

    class Noting(ManyTopics):
        def groups_of_topic(self, broker_addr: str, topic: str) -> list[str]:
            asked.append(topic)
            return ["readers"]

        def broker_stats(self, broker_addr: str, stats_name: str, stats_key: str) -> BrokerStatsData:
            asked.append(stats_key)
            return super().broker_stats(broker_addr, stats_name, stats_key)

    client, memory = Noting(read_only=True), ClusterMemory(lambda: clock[0])
    rows = {"many-000": read_topics(client, memory).rows["many-000"]}  # type: ignore[arg-type]
    for elapsed_ms, times in ((0, 1), (OUT_TPS_YOUNG_MS, 1), (1, 2), (OUT_TPS_YOUNG_MS, 2)):
        clock[0] += elapsed_ms
        assert read_numbers(client, memory, rows)["many-000"].in_tps == 1.0  # type: ignore[arg-type]
        assert asked == ["many-000", "many-000@readers"] * times


def test_the_clients_of_a_listed_group_are_asked_every_ten_seconds_though_there_are_none() -> None:
    """That was half of the requests of a list of groups."""
    clock = [NOW_MS]
    asked: list[str] = []

    class Noting(FixedClient):
        def consumer_connection(self, broker_addr: str, group: str) -> ConsumerConnection:
            asked.append(group)
            raise RefusedError(ResponseCode.CONSUMER_NOT_ONLINE, "nobody is online")

    client, memory = Noting(read_only=True), ClusterMemory(lambda: clock[0])
    name, facts = next(iter(groups.read_groups(client, memory).rows.items()))  # type: ignore[arg-type]
    for elapsed_ms, times in ((0, 1), (groups.CLIENTS_YOUNG_MS, 1), (1, 2), (groups.CLIENTS_YOUNG_MS, 2)):
        clock[0] += elapsed_ms
        assert groups.read_numbers(client, memory, {name: facts})[name].client_count == 0  # type: ignore[arg-type]
        assert asked == [name] * times
    groups.read_state(client, memory, facts)  # type: ignore[arg-type]
    assert asked == [name] * 3


def test_topics_out_of_view_are_asked_for_less_often_when_all_are_known() -> None:
    """Each refresh asks only for rows in view, unless rows are sorted by their numbers."""
    asked = ManyTopics.asked
    asked.clear()

    async def next_whole_refreshes(driver: Driver) -> list[int]:
        begin = len(asked)
        await driver.until(lambda: len(asked) >= begin + 4)
        return asked[begin : begin + 3]

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("300 topics", "1.0")
        table = driver.app.screen.query_one(RowTable)
        await next_whole_refreshes(driver)
        in_view = len(table.visible_keys())
        assert await next_whole_refreshes(driver) == [in_view] * 3
        await driver.press("I")
        await driver.until(lambda: table.rows.known_count("numbers") == TOPIC_COUNT)
        await next_whole_refreshes(driver)
        last = await next_whole_refreshes(driver)
        assert in_view < max(last) <= in_view + SORT_ASKED_AGAIN_MAX

    drive(ManyTopics, test, now_ms=NOW_MS)


def test_a_screen_that_is_not_shown_asks_nothing() -> None:
    asked = ManyTopics.asked

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("300 topics", "1.0")
        await driver.press("c")
        await driver.until_shown("V5_5_0")
        feed = driver.app.screen.feeds[0]  # type: ignore[attr-defined]
        for _ in range(2):  # requests that were under way have ended
            updated_s = feed.updated_s
            await driver.until(lambda before=updated_s: feed.updated_s != before)
        before = list(asked)
        for _ in range(3):
            updated_s = feed.updated_s
            await driver.until(lambda before=updated_s: feed.updated_s != before)
        assert asked == before
        await driver.press("t")
        await driver.until(lambda: len(asked) > len(before))

    drive(ManyTopics, test, now_ms=NOW_MS)
