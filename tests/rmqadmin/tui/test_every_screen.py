"""Common to all screens: the age of the view and its interval, filters, sorting, keys. Nothing is asked behind a
dialog."""

from __future__ import annotations

import re
from threading import Event

import pytest
from textual.widgets import Footer

from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.screens.group import GroupScreen
from rmqadmin.tui.widgets.inputs import FilterInput
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import ClusterInfo
from rmqproto.bodies.statistics import TopicStats
from rmqproto.errors import ConnectError
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.fixed import GROUP, NOW_MS, TOPIC, FixedClient
from tests.rmqadmin.tui.opened import Driver, at_row, drive, put_cursor, put_cursor_at, status
from tests.support import servers
from tests.support.quick import first_is_quick
from tests.support.servers import topic_config


@pytest.mark.slow
@pytest.mark.parametrize("key", first_is_quick("ctgd"))
@pytest.mark.dashboard(interval_s=2.0)
async def test_interval_and_age_are_always_shown(driver: Driver, world: World, key: str) -> None:
    await driver.press(key)
    assert driver.app.current_mode == {"c": "brokers", "t": "topics", "g": "groups", "d": "letters"}[key]
    await driver.until(lambda: bool(re.search(r"every 2 s · \d+ s ago", driver.text)))
    await driver.press("minus")
    await driver.until(lambda: "every 5 s" in driver.text)
    await driver.press("plus", "plus", "plus", "plus", "plus")
    await driver.until(lambda: "every 0.5 s" in driver.text)
    await driver.press("full_stop")
    await driver.until(lambda: "paused" in driver.text)


@pytest.mark.slow
@pytest.mark.dashboard(interval_s=0.05, size=(224, 50))
async def test_nothing_is_asked_behind_a_dialog_and_the_line_says_so(driver: Driver, world: World) -> None:
    await at_row(driver, "t", world.topic)
    screen = driver.app.screen
    assert isinstance(screen, DashboardScreen)
    await driver.press("p")
    await driver.until_shown("nothing would change", "paused")
    await driver.until(lambda: screen.feeds[0].next_s is not None)  # a refresh under way has finished
    updated_s = screen.feeds[0].updated_s
    await driver.pilot.pause(3 * 0.05)
    assert screen.feeds[0].updated_s == updated_s
    await driver.press("escape")
    await driver.until(lambda: screen.feeds[0].updated_s != updated_s)
    assert "paused" not in driver.text


@pytest.mark.slow
def test_an_interval_that_fails_backs_off_and_says_when_it_asks_again() -> None:
    async def test(driver: Driver) -> None:
        await driver.press("c")
        await driver.until(lambda: "cannot connect" in status(driver))
        await driver.until(lambda: bool(re.search(r"again in \d+ s", status(driver))))

    def nowhere(*, read_only: bool) -> FixedClient:
        client = FixedClient(read_only=read_only)
        client.cluster_info = lambda: client.broker_config("192.0.2.99:1")  # type: ignore[method-assign, assignment, return-value]
        return client

    drive(nowhere, test, interval_s=2.0, size=(200, 24))


def test_why_numbers_are_old_is_told_also_while_they_are_asked_for_again() -> None:
    """A broker that hangs takes seconds for each answer, and the reason was gone meanwhile."""
    asked, waits, goes_on = [0], Event(), Event()

    class Hanging(FixedClient):
        def topic_stats(self, broker_addr: str, topic: str) -> TopicStats:
            if topic == TOPIC:
                asked[0] += 1
                if asked[0] > 2:
                    waits.set()
                    goes_on.wait(60.0)
                if asked[0] > 1:
                    raise ConnectError("it hangs", address=broker_addr)
            return super().topic_stats(broker_addr, topic)

    async def test(driver: Driver) -> None:
        try:
            await driver.press("t")
            await driver.until_shown("336,774")
            await driver.until(waits.is_set)
            assert f"{TOPIC}: it hangs" in [one for feed in driver.app.screen.feeds for one in feed.problems]  # type: ignore[attr-defined]
        finally:
            goes_on.set()

    drive(Hanging, test, now_ms=NOW_MS)


def test_an_error_is_read_to_its_end_at_80_columns() -> None:
    def refuses(*, read_only: bool) -> FixedClient:
        def cluster_info() -> ClusterInfo:
            why = (
                "the certificate of the name server is not valid for this address, and not signed by a known authority"
            )
            raise ConnectError(f"cannot connect to 192.0.2.1:9876: {why}", address="192.0.2.1:9876")

        client = FixedClient(read_only=read_only)
        client.cluster_info = cluster_info  # type: ignore[method-assign]
        return client

    async def test(driver: Driver) -> None:
        await driver.press("c")
        await driver.until_shown("cannot connect to 192.0.2.1:9876", "a known authority", "no answer yet", "? Keys")

    drive(refuses, test, interval_s=2.0, size=(80, 24))


@pytest.mark.slow
async def test_the_filter_is_named_and_kept_on_the_way_back(driver: Driver) -> None:
    await driver.press("t", "slash")
    await driver.type("!/^%|sys/", into="filter")
    await driver.until(lambda: "5 of 6 topics, 2 of the system hidden  ·  filter !/^%|sys/" in status(driver))
    await driver.press("enter")
    await put_cursor(driver, "flights")
    await driver.press("enter")
    await driver.until_shown("Topics › flights")
    await driver.press("escape")
    await driver.until(lambda: "5 of 6 topics, 2 of the system hidden  ·  filter !/^%|sys/" in status(driver))
    assert driver.app.screen.query_one(RowTable).cursor_key == "flights"
    await driver.press("slash")
    await driver.type("nowhere", into="filter")
    await driver.until_shown("no row matches the filter")
    await driver.press("escape")
    await driver.until(lambda: "6 topics" in status(driver) and "filter" not in status(driver))
    assert "no row" not in driver.text


@pytest.mark.slow
@pytest.mark.dashboard(size=(234, 30))
async def test_each_of_two_tables_has_a_filter_of_its_own(driver: Driver) -> None:
    await at_row(driver, "g", GROUP, "enter")
    await driver.until_shown("192.0.2.50@1", "192.0.2.51@1")
    screen = driver.app.screen
    assert isinstance(screen, GroupScreen)
    await driver.press("tab", "slash")
    await driver.enter("@1", into="filter")
    await driver.until(lambda: screen.members.shown_count == 2 and screen.offsets.shown_count == 3)
    await driver.press("slash", "escape")
    await driver.until(lambda: screen.members.shown_count == 3)


@pytest.mark.slow
@pytest.mark.dashboard(size=(234, 60))
async def test_keys_of_the_focused_view_are_in_the_footer_and_all_of_them_on_a_sheet(driver: Driver) -> None:
    await at_row(driver, "g", GROUP)
    await driver.until_shown("⏎ Open", "? Keys")
    assert "^r Reset" not in driver.text
    await driver.press("enter")
    await driver.until_shown("^r Reset", "l Plot")
    await driver.press("question_mark")
    await driver.until_shown("Turn round", "Page down", "Faster", "> Sort")
    await driver.press("question_mark")
    await driver.until_shown("^r Reset")
    assert "Page down" not in driver.text


@pytest.mark.slow
@pytest.mark.dashboard(size=(80, 24), now_ms=NOW_MS)
async def test_the_sheet_of_keys_can_be_read_to_its_end_at_80_columns(driver: Driver) -> None:
    """Textual's panel is 30 columns wide and cannot be scrolled by keys, so the last 20 keys were out of reach."""
    await at_row(driver, "t", "flights", "question_mark")
    await driver.until_shown("where the cursor is", "Page down")
    seen = [driver.text]

    def all_seen() -> bool:
        seen.append(driver.text)  # it may still scroll
        wanted = ("^d Delete", "n New", "z System", ": Place", "+ = Faster", "? Keys", "^s Save as SVG", "h Pulse")
        return all(any(key in text for text in seen) for key in wanted)

    await driver.press("end")
    await driver.until(all_seen)
    await driver.press("q")
    await driver.until_shown("336,774", "^d Delete")


@pytest.mark.slow
@pytest.mark.dashboard(size=(80, 24), now_ms=NOW_MS)
async def test_what_is_typed_into_a_line_is_no_key_and_the_line_says_how_to_leave_it(driver: Driver) -> None:
    """The search used to offer / for a filter, which went into the question, and showed no way out of it."""
    await driver.press("s")
    await driver.until(lambda: last_line(driver) == "⏎ Ask tab Next field esc Leave the line")
    await driver.press("escape")
    await driver.until(lambda: "? Keys" in last_line(driver))
    await driver.press("s")
    await driver.until(lambda: "⏎ Ask" in last_line(driver))
    await driver.press("escape", "t")
    await put_cursor(driver, "flights")
    await driver.press("slash")
    await driver.until(lambda: last_line(driver) == "⏎ Keep esc No filter")


@pytest.mark.slow
@pytest.mark.dashboard(size=(80, 24), now_ms=NOW_MS)
async def test_a_dialog_offers_only_keys_that_do_something_now(driver: Driver) -> None:
    await at_row(driver, "t", "flights", "ctrl+d")
    await driver.until_shown("Delete the topic", "cannot connect to 192.0.2.11:10911")
    await driver.until(lambda: last_line(driver) == "⏎ Do it tab Next field esc Close")
    await driver.press("escape", "p")
    await driver.until_shown("keep", "nothing would change")
    await driver.until(lambda: last_line(driver) == "tab Next field esc Close")
    await driver.press("down")
    await driver.until_shown("Type flights to go on; enter goes to this line")
    await driver.press("enter")
    await driver.until(lambda: "enter goes" not in driver.text)
    await driver.type("fl", into="name")
    await driver.until(lambda: last_line(driver) == "⏎ Do it tab Next field esc Close")
    await driver.press("escape", "n")
    await driver.until(lambda: last_line(driver) == "⏎ Show what would change tab Next field esc Close")


def last_line(driver: Driver) -> str:
    return re.sub(" +", " ", driver.text.splitlines()[-1].strip())


@pytest.mark.slow
@pytest.mark.dashboard(keys={"filter": "ctrl+g,ctrl+f", "topics": "G"})
async def test_keys_of_the_user_take_the_place_of_ours_and_are_not_those_of_the_table(driver: Driver) -> None:
    """ctrl+f, which the manual gives as an example, moved the table by a page, and a capital letter sorted it."""
    await at_row(driver, "g", GROUP, "slash")
    assert not driver.app.screen.query(FilterInput)
    await driver.press("ctrl+f")
    await driver.until(lambda: isinstance(driver.app.focused, FilterInput))
    await driver.press("escape", "G")
    await driver.until(lambda: driver.app.current_mode == "topics")


def test_a_key_of_the_user_for_an_action_that_is_not_there_is_told(said: list[str]) -> None:
    """Textual ignores such a key, so the user pressed a key that did nothing."""

    async def test(driver: Driver) -> None:
        await driver.until(lambda: said == ["tui.toml: the key fliter is unknown. Did you mean filter?"])

    keys = {"shell": "f2", "edit": "f3", "fliter": "f4", "stacks": "f5"}
    drive(FixedClient, test, keys=keys)


@pytest.mark.slow
async def test_enter_is_not_offered_where_nothing_is_behind_a_row(driver: Driver) -> None:
    await at_row(driver, "c", "broker-a/0")
    await driver.until_shown("⏎ Open")
    await driver.press("enter")
    await driver.until_shown("brokerVersionDesc")
    assert "Open" not in driver.text


@pytest.mark.slow
def test_groups_sorted_by_lag_ask_also_for_those_out_of_view(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The group that is furthest behind is the last by name, below the end of the screen."""
    with servers.standalone(tmp_path_factory.mktemp("sorted")) as server, AdminClient(server.namesrv_addr) as admin:
        addr = server.broker_addr
        admin.create_topic(addr, topic_config("T"))
        for name in [*(f"g{number:02}" for number in range(40)), "z-last"]:
            admin.create_group(addr, SubscriptionGroupConfig(group_name=name))
        world = World(server, admin, "T", "z-last")
        world.send(b"x")
        admin.update_consumer_offset(addr, "z-last", "T", 0, 0)

        async def test(driver: Driver) -> None:
            await driver.press("g")
            await driver.until_shown("g00", "41 groups")
            assert "z-last" not in driver.text
            await driver.press("greater_than_sign", "greater_than_sign")
            await driver.until(lambda: driver.lines[3].split()[:2] == ["z-last", "1"])
            assert "by lag, falling" in status(driver)
            assert driver.app.screen.query_one(RowTable).cursor_key == "g00", "the cursor stays on its row"

        drive(world.make_client, test)


@pytest.mark.slow
async def test_a_click_opens_a_place_and_presses_a_key(driver: Driver) -> None:
    await driver.until_shown("g Groups")
    for place, shown in (("groups", "consumed/s"), ("pulse", "Furthest behind"), ("groups", "consumed/s")):
        await driver.pilot.click(f"#go-{place}")
        await driver.until_shown(shown)
    line = driver.text.splitlines()[-1]
    await driver.pilot.click(Footer, offset=(line.index("Keys"), 0))
    await driver.until_shown("on this screen")


@pytest.mark.slow
async def test_a_place_counts_what_is_wrong_there_on_every_screen(driver: Driver) -> None:
    await driver.press("t")
    await driver.until_shown("g Groups ▲1", "c Brokers ✖1")


@pytest.mark.slow
@pytest.mark.dashboard(size=(120, 36), now_ms=NOW_MS)
async def test_from_110_columns_on_the_detail_of_the_row_stands_beside_its_list_and_follows_the_cursor(
    driver: Driver,
) -> None:
    """What a finding means and how to mend it was only to be read in a shell."""
    await at_row(driver, "g", GROUP)
    await driver.until_shown(
        "│ arrivals", "share queues out every 20 s", "consumed/s", "192.0.2.77@77       ?", "flights  9,462"
    )
    await put_cursor(driver, "stopped")
    await driver.until_shown("│ stopped", "│ ▲ may not consume")
    assert "share queues out" not in driver.text
    await at_row(driver, "t", "flights")
    await driver.until_shown("broker-a      3     3  RW (6)", "groups behind      lag", "arrivals       9,462")
    await driver.pilot.resize_terminal(109, 36)
    await driver.until(lambda: "│" not in driver.text and "groups behind" not in driver.text)


@pytest.mark.slow
@pytest.mark.dashboard(size=(80, 24), now_ms=NOW_MS)
async def test_the_name_of_a_row_is_copied_or_the_whole_row(driver: Driver) -> None:
    await at_row(driver, "g", GROUP)
    await driver.until_shown("9,462")
    await driver.press("y")
    await driver.until(lambda: driver.app.clipboard == GROUP)
    await driver.until_shown(f"copied {GROUP}")
    await driver.press("Y")
    await driver.until(lambda: driver.app.clipboard.startswith(f"group: {GROUP}\nlag: ≥9,462\n"))
    assert "model: clustering" in driver.app.clipboard, "of which there is no room at 80 x 24"


@pytest.mark.slow
@pytest.mark.dashboard(size=(80, 24), now_ms=NOW_MS)
async def test_of_a_message_the_id_is_copied(driver: Driver) -> None:
    await at_row(driver, "d", GROUP, "enter")
    await driver.until_shown("4 messages of 4")
    await put_cursor_at(driver, 3)
    await driver.press("y")
    await driver.until(lambda: driver.app.clipboard == f"C000020A0001{0:020X}")


@pytest.mark.parametrize(("place", "row", "key"), [("t", TOPIC, "enter"), ("g", GROUP, "l")])
async def test_a_screen_that_is_told_to_show_itself_when_it_has_been_closed(
    driver: Driver, place: str, row: str, key: str
) -> None:
    """What it was to do after its next refresh came when its widgets were gone, and ended the dashboard."""
    await at_row(driver, place, row, key)
    screen = driver.app.screen
    assert isinstance(screen, DashboardScreen)
    await driver.app.go_back()
    screen.show_places()
    screen.show_cut()
    screen.show_frame()
    screen.sampled()


@pytest.mark.slow
@pytest.mark.parametrize("key", first_is_quick("gctd"))
async def test_a_row_that_a_refresh_removes_as_it_is_chosen_opens_all_the_same(driver: Driver, key: str) -> None:
    """The screen hears of the choice after the refresh, and used to end the dashboard."""
    await driver.press(key, "full_stop")
    await driver.until(lambda: bool(driver.app.screen.query_one(RowTable).all_count))
    table = driver.app.screen.query_one(RowTable)
    table.on_data_table_row_selected()
    table.set_rows(())
    await driver.until(lambda: len(driver.app.screen_stack) == 2)
