"""The opening screen over real brokers: is all well, what is wrong, what has changed, and one key to the cause."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqadmin.tui.app_base import AWAY_AFTER_MS
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.memory.pulse_memory import PulseMemory
from rmqadmin.tui.screens.brokers import BrokerScreen
from rmqadmin.tui.screens.group import GroupScreen
from rmqadmin.tui.screens.pulse import PulseScreen
from rmqadmin.tui.screens.topics import QueuesScreen
from rmqadmin.tui.settings import ClientMaker
from rmqadmin.tui.sources import pulse as pulse_source
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.fixed import GROUP as GROUP_BEHIND
from tests.rmqadmin.tui.fixed import NOW_MS, FixedClient
from tests.rmqadmin.tui.members import ScriptedMember
from tests.rmqadmin.tui.opened import Driver, clients_of, drive, line_of
from tests.support import servers
from tests.support.quick import first_is_quick, first_size_is_quick
from tests.support.servers import Fresh, Server, topic_config

TOPIC, GROUP = "orders", "billing"
FAST_S, SHORT_WAIT_S = 0.1, 0.5
pytestmark = pytest.mark.usefixtures("utc")
SIZES = [(80, 24), (120, 40), (200, 60)]


class Two:
    """Two brokers with a topic of one queue each, of which nothing has been consumed yet."""

    def __init__(self, folder: Path):
        self.namesrv = servers.namesrv(folder / "namesrv")
        addr = self.namesrv.namesrv_addr
        self.brokers = {name: servers.broker(folder / name, addr, name) for name in ("broker-a", "broker-b")}
        self.admin = AdminClient(addr)
        for broker in self.brokers.values():
            self.admin.create_topic(broker.broker_addr, topic_config(TOPIC))
            self.admin.create_group(broker.broker_addr, SubscriptionGroupConfig(group_name=GROUP))

    @property
    def make_client(self) -> ClientMaker:
        return clients_of(self.namesrv.namesrv_addr)

    @property
    def first(self) -> Server:
        return self.brokers["broker-a"]

    def send(self, count: int) -> None:
        queue = MessageQueue(TOPIC, "broker-a", 0)
        for _ in range(count):
            self.admin.send_message(self.first.broker_addr, queue, Message(TOPIC, b"x"))

    def commit(self, queue_offset: int) -> None:
        self.admin.update_consumer_offset(self.first.broker_addr, GROUP, TOPIC, 0, queue_offset)

    def make_dead_letter(self) -> None:
        queue, addr = MessageQueue(TOPIC, "broker-a", 0), self.first.broker_addr
        stored = self.admin.pull_message(addr, queue, 0, max_count=1).messages[0]
        self.admin.send_message_back(addr, GROUP, stored, delay_level=-1)

    def close(self) -> None:
        self.admin.close()
        for server in (*self.brokers.values(), self.namesrv):
            server.stop()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path)
    yield made
    made.close()


def pulse_of(driver: Driver) -> PulseMemory:
    assert driver.app.sampler is not None
    return driver.app.sampler.pulse


def screen_of(driver: Driver) -> PulseScreen:
    screen = driver.app.screen
    assert isinstance(screen, PulseScreen)
    return screen


@pytest.mark.slow
def test_from_all_is_well_to_what_is_wrong_and_to_its_cause(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqadmin.tui.sampler.GROUPS_MIN_S", FAST_S)

    async def test(driver: Driver) -> None:
        await driver.until_shown("✔ all is well: 2 brokers, 1 group, no dead letters")
        await driver.until_shown("no group is behind", "nothing has changed")
        two.send(3)
        two.commit(0)
        await driver.until(lambda: bool(re.search(r"billing +\d+ (ms|s) +3 ", driver.text)))
        with ScriptedMember(two.first, GROUP, TOPIC, client_id="one", owns=[]):
            await driver.until_shown("nobody consumes 2 queues, where messages wait", "member one joined")
        two.make_dead_letter()
        await driver.until_shown("1 new dead letter")
        two.admin.create_topic(two.first.broker_addr, TopicConfig(topic_name="brand-new"))
        await driver.until(lambda: bool(line_of(driver, "brand-new", "topic is new")))
        two.brokers["broker-b"].stop()
        await driver.until(lambda: bool(re.search(r"broker-b/0 +gone \d+( s|m\d+s) ago", driver.text)))
        await driver.until(lambda: bool(line_of(driver, "broker-b/0", "is gone")))
        await driver.until_shown("without broker-b, gone")
        assert re.search(r"billing +\S+( s| ms)? +3 ", driver.text), "broker-b never had anything of it"
        await to_the_causes(driver)

    drive(two.make_client, test, size=(120, 40), interval_s=FAST_S)


async def to_the_causes(driver: Driver) -> None:
    """Presses Enter on a line of each part, then goes back."""
    pulse = screen_of(driver)
    causes = [
        (pulse.brokers, "broker-a/0", BrokerScreen, "getTotalTps"),
        (pulse.worst, GROUP, GroupScreen, "Members"),
        (pulse.troubles, "broker/broker-b/0/reachable", BrokerScreen, "cannot connect"),
    ]
    change = next(key for key in pulse.changes.row_keys() if "topic is new" in pulse.changes.part(key).change.text)
    for table, key, screen, text in [*causes, (pulse.changes, change, QueuesScreen, "brand-new")]:
        table.focus()
        table.move_to(key)
        await driver.until(lambda table=table, key=key: driver.app.focused is table and table.cursor_key == key)
        await driver.press("enter")
        await driver.until(lambda screen=screen: isinstance(driver.app.screen, screen))
        await driver.until_shown(text)
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen is pulse)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unseen_min_s", first_is_quick([FAST_S, 3600.0]), ids=["while it is silent", "when it answers again"]
)
def test_a_broker_that_was_silent_for_a_while_does_not_keep_the_pulse_from_being_taken(
    two: Two, monkeypatch: pytest.MonkeyPatch, unseen_min_s: float
) -> None:
    """The sampler used to wait five seconds for one broker and take that for the work of a large cluster. It then
    showed sums without the broker for 100 s more, while that answered again."""
    monkeypatch.setattr("rmqadmin.tui.sampler.GROUPS_MIN_S", FAST_S)
    monkeypatch.setattr("rmqadmin.tui.sampler.GROUPS_BUSY_RATIO", 1e-9)
    monkeypatch.setattr("rmqadmin.tui.sampler.UNSEEN_GROUPS_MIN_S", unseen_min_s)
    two.send(3)
    two.commit(0)
    os.kill(two.brokers["broker-b"].pid, signal.SIGSTOP)

    def make_client(*, read_only: bool) -> DashboardClient:
        return DashboardClient(two.namesrv.namesrv_addr, None, SHORT_WAIT_S, read_only=read_only)

    async def test(driver: Driver) -> None:
        await driver.until(lambda: bool(re.search(r"billing +≥\d+ (ms|s) +≥3 ", driver.text)))
        assert driver.app.sampler is not None
        read_s = driver.app.sampler.groups_s
        if unseen_min_s == FAST_S:
            await driver.until(lambda: driver.app.sampler is not None and driver.app.sampler.groups_s > read_s)
        os.kill(two.brokers["broker-b"].pid, signal.SIGCONT)
        await driver.until(lambda: bool(re.search(r"billing +\d+ (ms|s) +3 ", driver.text)))

    try:
        drive(make_client, test, size=(120, 40), interval_s=FAST_S)
    finally:
        os.kill(two.brokers["broker-b"].pid, signal.SIGCONT)


def test_a_broker_whose_first_answer_comes_after_groups_lacked_it_has_them_read_again(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not seen silent, so nothing asked for the groups again until their next regular reading."""
    monkeypatch.setattr("rmqadmin.tui.sampler.GROUPS_MIN_S", 3600.0)
    is_back, read = threading.Event(), pulse_source.read_brokers

    def read_brokers(admin: AdminClient, memory: ClusterMemory) -> object:
        assert is_back.wait(60)
        return read(admin, memory)

    monkeypatch.setattr(pulse_source, "read_brokers", read_brokers)
    two.send(3)
    two.commit(0)
    os.kill(two.brokers["broker-b"].pid, signal.SIGSTOP)

    def make_client(*, read_only: bool) -> DashboardClient:
        return DashboardClient(two.namesrv.namesrv_addr, None, SHORT_WAIT_S, read_only=read_only)

    async def test(driver: Driver) -> None:
        await driver.until_shown("≥3 ")
        os.kill(two.brokers["broker-b"].pid, signal.SIGCONT)
        is_back.set()
        await driver.until(lambda: bool(re.search(r"billing +\d+ (ms|s) +3 ", driver.text)))

    try:
        drive(make_client, test, size=(120, 40), interval_s=FAST_S)
    finally:
        is_back.set()
        os.kill(two.brokers["broker-b"].pid, signal.SIGCONT)


def names_told(driver: Driver) -> set[str]:
    return {change.subject.name for change in pulse_of(driver).log.newest_first() if change.subject is not None}


@pytest.mark.slow
def test_what_changed_on_another_screen_and_while_nobody_pressed_a_key_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, fresh: Fresh
) -> None:
    monkeypatch.setattr("rmqadmin.tui.sampler.UNSEEN_GROUPS_MIN_S", FAST_S)
    now_ms = [NOW_MS]
    topic, group = fresh("late"), fresh("later")

    async def test(driver: Driver) -> None:
        await driver.until(lambda: driver.app.sampler is not None and pulse_of(driver).is_complete)
        await driver.press("t")
        await driver.until_shown(" topics, ")  # with topics of many tests, this one's may be out of view
        now_ms[0] += AWAY_AFTER_MS + 1000
        world.admin.create_topic(world.server.broker_addr, TopicConfig(topic_name=topic))
        world.admin.create_group(world.server.broker_addr, SubscriptionGroupConfig(group_name=group))
        await driver.until(lambda: {topic, group} <= names_told(driver))
        await driver.press("h")
        await driver.until(lambda: bool(line_of(driver, topic, "topic is new")))
        await driver.until(lambda: bool(line_of(driver, group, "group is new")))
        await driver.until(lambda: re.search(r"[2-9] changes since 00:00:00", driver.text) is not None)

    drive(world.make_client, test, size=(120, 40), interval_s=FAST_S, clock=lambda: now_ms[0])


@pytest.mark.parametrize("size", first_size_is_quick(SIZES), ids=str)
def test_without_a_name_server_it_says_that_nothing_is_known(size: tuple[int, int]) -> None:
    async def test(driver: Driver) -> None:
        await driver.until_shown("cannot connect to 127.0.0.1:1", "no answer yet")
        await driver.until(lambda: driver.text.count(" unknown\n") + driver.text.count(" unknown ") >= 2)
        assert "all is well" not in driver.text
        assert "nothing wrong" not in driver.text

    drive(clients_of("127.0.0.1:1"), test, size=size, interval_s=FAST_S)


@pytest.mark.slow
@pytest.mark.dashboard(size=(80, 24), interval_s=FAST_S)
async def test_tab_goes_to_the_next_part(driver: Driver) -> None:
    pulse = screen_of(driver)
    await driver.until(lambda: pulse.troubles.has_focus and pulse.brokers.all_count == 2)
    await driver.press("tab")
    await driver.until(lambda: pulse.brokers.has_focus)
    await driver.press("tab")
    await driver.until(lambda: pulse.changes.has_focus)


@pytest.mark.slow
@pytest.mark.dashboard(size=(80, 24), interval_s=FAST_S)
async def test_the_newest_change_is_in_view_however_many_there_are(driver: Driver) -> None:
    """The log used to keep the line of its first row, like a table that is being read. At 80 x 24, changes after the
    first five came in above the visible part."""
    await driver.until_shown(GROUP_BEHIND, "nothing has changed")
    for number in range(30):
        pulse_of(driver).log.add(NOW_MS + number, None, f"change {number} of 30")
        screen_of(driver).show_pulse()
        await driver.until_shown(f"change {number} of 30")
    changes = screen_of(driver).changes
    changes.focus()
    await driver.until(lambda: changes.has_focus)
    key = changes.cursor_key
    pulse_of(driver).log.add(NOW_MS, None, "while somebody reads")
    screen_of(driver).show_pulse()
    assert changes.cursor_key == key


@pytest.mark.slow
@pytest.mark.dashboard(size=(80, 24), interval_s=FAST_S)
async def test_a_pause_holds_it_on_this_screen_only(driver: Driver) -> None:
    await driver.until_shown(GROUP_BEHIND)
    sampler = driver.app.sampler
    assert sampler is not None
    await driver.press("full_stop")
    await driver.until_shown("paused")
    feed = sampler.shown_feeds[0]
    await driver.until(lambda: feed.next_s is not None)
    read_s = sampler.brokers_s
    await driver.press("r")
    await driver.until(lambda: sampler.brokers_s > read_s and feed.next_s is not None)
    read_s = sampler.brokers_s
    await driver.pilot.pause(2 * FAST_S)
    assert sampler.brokers_s == read_s
    await driver.press("t")
    await driver.until(lambda: sampler.brokers_s > read_s)


def test_that_nobody_is_behind_is_said_of_the_last_answer(tmp_path: Path) -> None:
    with servers.standalone(tmp_path / "server") as server:

        async def test(driver: Driver) -> None:
            await driver.until_shown("no group is behind", "no dead letters", "all is well")
            server.stop()
            await driver.until_shown("✖ ", "cannot connect", "no group is behind when last asked")

        drive(clients_of(server.namesrv_addr), test, interval_s=FAST_S)


@pytest.mark.parametrize("size", first_size_is_quick(SIZES), ids=str)
def test_parts_keep_their_places_while_rows_come_and_go(size: tuple[int, int]) -> None:
    """The last part has what is left, which is a line less while something has to be said below it."""

    async def test(driver: Driver) -> None:
        pulse = screen_of(driver)

        def places() -> list[object]:
            fixed = [part.region for part in (pulse.troubles, pulse.plots, pulse.brokers)]
            return [*fixed, pulse.changes.region.offset]

        await driver.until(lambda: pulse.troubles.all_count >= 1 and pulse.changes.region.height > 0)
        before, (one, *_) = places(), [pulse.troubles.part(key) for key in pulse.troubles.row_keys()]
        for count in (20, 0):
            pulse.troubles.set_rows((str(at), one) for at in range(count))
            await driver.pilot.pause()
            assert places() == before

    drive(FixedClient, test, size=size, interval_s=FAST_S)
