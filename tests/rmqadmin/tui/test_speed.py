"""What is not asked, and not made again, at each refresh."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from rmqadmin.tui.app_base import THAWED_AFTER_S, collect_at_rest
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.screens.table_screen import SORT_ASKED_AGAIN_MAX
from rmqadmin.tui.screens.topics import TopicsScreen
from rmqadmin.tui.sources import groups
from rmqadmin.tui.sources.topics import OUT_TPS_YOUNG_MS, read_numbers, read_topics
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqadmin.tui.widgets.tables.rows import Line
from rmqproto.bodies.groups import ConsumerConnection
from rmqproto.bodies.routes import TopicConfig, TopicConfigs
from rmqproto.bodies.statistics import BrokerStatsData, TopicStats
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from tests.rmqadmin.tui.fixed import NOW_MS, FixedClient
from tests.rmqadmin.tui.opened import Driver, drive, put_cursor_at


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


def test_only_rows_that_may_have_another_state_are_judged() -> None:
    """Each refresh judged ten thousand topics three times, a third of the dashboard's cost at rest."""

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("300 topics", "1.0")
        screen, judged = driver.app.screen, list[str]()
        assert isinstance(screen, TopicsScreen)

        class Noting(dict[str, Line]):
            def get(self, key: str, default: Any = None) -> Any:
                judged.append(key)
                return super().get(key, default)

        screen.table.model.lines = Noting(screen.table.model.lines)
        screen.judge()
        assert judged == []
        screen.judge(["many-007"])
        assert set(judged) == {"many-007"}

    drive(ManyTopics, test, now_ms=NOW_MS, interval_s=60.0)


def test_the_sheet_of_keys_is_one_text() -> None:
    """A widget for each key took longer than any other key of the dashboard."""

    async def test(driver: Driver) -> None:
        await driver.press("question_mark")
        await driver.until_shown("everywhere", "Pulse")
        assert len(driver.app.screen.query("#keys *")) == 1

    drive(FixedClient, test, now_ms=NOW_MS)


class Circle:
    """Garbage as soon as nobody else has it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def frozen() -> Iterator[None]:
    thresholds = gc.get_threshold()
    collect_at_rest()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.mark.usefixtures("frozen")
def test_garbage_is_collected_while_no_key_waits() -> None:
    """A full collection holds up the dashboard for longer than any key does, even while a recording is held and its
    clock stands still."""
    circles = [Circle()]
    is_there = weakref.ref(circles[0])

    async def test(driver: Driver) -> None:
        await driver.press("t")
        old = [Circle()]
        garbage = weakref.ref(old[0])
        for _ in range(20):  # so many collections of young garbage, and Python would make a full one
            gc.collect(1)
        old.clear()
        driver.app._touched_s = time.monotonic()  # now, however long all this took
        driver.app._collect()
        assert garbage() is not None, "the user is at work"
        await driver.until(lambda: garbage() is None)
        circles.clear()
        gc.collect()
        assert is_there() is not None, "it is frozen"
        driver.app._touched_s -= THAWED_AFTER_S
        await driver.until(lambda: is_there() is None)

    drive(FixedClient, test, now_ms=NOW_MS)


def test_what_a_user_walks_through_is_not_kept() -> None:
    """A screen that is closed, and keys of a footer that are others now, are known to nobody."""

    async def test(driver: Driver) -> None:
        await driver.until_shown("Wrong")
        for _ in range(3):
            await driver.press("t")
            await put_cursor_at(driver, 0)
            await driver.press("enter", "slash", "escape", "escape", "h")
        gc.collect()
        made: list[Any] = [
            one for one in gc.get_objects() if isinstance(one, RowTable) or type(one).__name__ == "FooterKey"
        ]
        gone = [one for one in made if not one.is_attached]
        assert len(gone) < 20, f"those of the last screen may still be on their way: {gone}"

    drive(FixedClient, test, now_ms=NOW_MS)


@pytest.mark.slow
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
        await driver.press(*["greater_than_sign"] * 7)
        await driver.until_shown("by in/s")
        await driver.until(lambda: table.model.known_count("numbers") == TOPIC_COUNT)
        await next_whole_refreshes(driver)
        last = await next_whole_refreshes(driver)
        assert in_view < max(last) <= in_view + SORT_ASKED_AGAIN_MAX

    drive(ManyTopics, test, now_ms=NOW_MS)


@pytest.mark.slow
@pytest.mark.dashboard(make_client=ManyTopics, now_ms=NOW_MS)
async def test_a_screen_that_is_not_shown_asks_nothing(driver: Driver) -> None:
    asked = ManyTopics.asked
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
