"""Brokers and the name server die while the dashboard is open: nothing vanishes silently, sums say what they lack, and
unknown values are not 0."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.screens.groups import GroupsScreen
from rmqadmin.tui.settings import ClientMaker
from rmqadmin.tui.sources.groups import GroupNumbers, read_groups, read_state
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.rmqadmin.tui.fixed import NOW_MS, FixedClient
from tests.rmqadmin.tui.members import ScriptedMember
from tests.rmqadmin.tui.opened import Driver, at_row, clients_of, drive, put_cursor, row_of, status
from tests.support import servers
from tests.support.quick import first_size_is_quick, in_one_test
from tests.support.servers import Server, topic_config

TOPIC, GROUP, QUEUE_COUNT = "orders", "billing", 2
FAST_S = 0.1


@dataclass
class Pair:
    """Two brokers. Each has QUEUE_COUNT messages of the topic that the group has not consumed, and one dead letter."""

    namesrv: Server
    brokers: dict[str, Server]

    @property
    def make_client(self) -> ClientMaker:
        return clients_of(self.namesrv.namesrv_addr)

    def stop(self, name: str) -> None:
        self.brokers[name].stop()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with servers.namesrv(tmp_path / "namesrv") as namesrv:
        names = ("broker-a", "broker-b")
        brokers = {name: servers.broker(tmp_path / name, namesrv.namesrv_addr, name) for name in names}
        try:
            for name, broker in brokers.items():
                fill(namesrv, broker, name)
            yield Pair(namesrv, brokers)
        finally:
            for broker in brokers.values():
                broker.stop()


def fill(namesrv: Server, broker: Server, name: str) -> None:
    with AdminClient(namesrv.namesrv_addr) as admin:
        addr = broker.broker_addr
        admin.create_topic(addr, topic_config(TOPIC, QUEUE_COUNT))
        admin.create_group(addr, SubscriptionGroupConfig(group_name=GROUP))
        for queue_id in range(QUEUE_COUNT):
            queue = MessageQueue(TOPIC, name, queue_id)
            admin.send_message(addr, queue, Message(TOPIC, b"x"))
            admin.update_consumer_offset(addr, GROUP, TOPIC, queue_id, 0)
        stored = admin.pull_message(addr, MessageQueue(TOPIC, name, 0), 0, max_count=1).messages[0]
        admin.send_message_back(addr, GROUP, stored, delay_level=-1)


@pytest.mark.slow
@pytest.mark.dashboard(size=(224, 40), interval_s=FAST_S)
async def test_a_broker_that_dies_stays_in_the_list_and_sums_say_that_they_lack_it(driver: Driver, pair: Pair) -> None:
    await driver.press("t")
    await driver.until(lambda: "4" in row_of(driver, TOPIC).split()[4:])
    await driver.press("g")
    await driver.until(lambda: row_of(driver, GROUP).split()[1:2] == ["4"])
    await driver.press("d")
    await driver.until(lambda: row_of(driver, GROUP).split()[1:2] == ["2"])
    await driver.press("c")
    await driver.until(lambda: row_of(driver, "broker-b").endswith("active"))

    pair.stop("broker-b")
    await driver.until(lambda: bool(re.search(r"gone \d+( s|m\d+s) ago", row_of(driver, "broker-b"))))
    assert "2 brokers, 1 gone" in status(driver)
    await put_cursor(driver, "broker-b/0")
    await driver.press("l")
    await driver.until_shown("broker-b/0 over time", "the last 1m")
    assert "defect" not in status(driver)
    await driver.press("escape")
    assert row_of(driver, "broker-a").endswith("active")
    await driver.press("t")
    await driver.until(lambda: "≥2" in row_of(driver, TOPIC).split())
    await driver.until(lambda: bool(re.search(r"without broker-b, gone \d+( s|m\d+s) ago", status(driver))))
    assert row_of(driver, TOPIC).split()[4] == "4", "queues are those that it has, not those left"
    await driver.press("z")  # only broker-b has the topic of its own name
    await driver.until(lambda: bool(row_of(driver, "broker-b")))
    await driver.press("g")
    await driver.until(lambda: row_of(driver, GROUP).split()[1:2] == ["≥2"])
    await driver.press("d")
    await driver.until(lambda: row_of(driver, GROUP).split()[1:2] == ["≥1"])
    await driver.press("enter")
    await driver.until_shown("1 message of ≥1", "without broker-b, gone")


@pytest.mark.slow
def test_what_only_a_lost_broker_had_is_missed_on_screens_that_are_opened_later(pair: Pair) -> None:
    """Both brokers have the group GROUP. Each also has a group that consumes only there, one on the broker that stays
    and one on the lost one."""
    with AdminClient(pair.namesrv.namesrv_addr) as admin:
        for name, addr in ((name, one.broker_addr) for name, one in pair.brokers.items()):
            for group in ("here", "lost"):
                admin.create_group(addr, SubscriptionGroupConfig(group_name=group))
            mine = {"broker-a": "here", "broker-b": "lost"}[name]
            admin.create_topic(addr, topic_config(f"{mine}-topic"))
            admin.send_message(addr, MessageQueue(f"{mine}-topic", name, 0), Message(f"{mine}-topic", b"x"))
            admin.update_consumer_offset(addr, mine, f"{mine}-topic", 0, 0)

    async def test(driver: Driver) -> None:
        await driver.until_shown("Furthest behind", "here", "lost")
        sampler = driver.app.sampler
        assert sampler is not None
        await driver.until(lambda: len(sampler._placed) == len(pair.brokers))
        pair.stop("broker-b")
        await driver.until_shown("without broker-b, gone")
        assert re.search(r"here +\S+( s| ms)? +1 ", driver.text), "broker-b never had anything of it"
        assert "has nothing to consume" not in driver.text, "where it had something, nobody can be asked"
        await driver.press("t")
        await driver.until(lambda: "≥2" in row_of(driver, TOPIC).split())
        assert row_of(driver, TOPIC).split()[4] == "4", "queues are those that it has, not those left"
        assert "?" in row_of(driver, "lost-topic").split()
        await put_cursor(driver, "lost-topic")
        await driver.until_shown("✖ broker-b gone")
        await driver.press("g")
        await driver.until(lambda: row_of(driver, GROUP).split()[1:2] == ["≥2"])
        await driver.until(lambda: row_of(driver, "here").split()[1:2] == ["1"])
        await put_cursor(driver, "lost")
        await driver.press("enter")
        await driver.until_shown("unknown: without broker-b, gone")
        assert "consumed nothing" not in driver.text

    drive(pair.make_client, test, size=(224, 40), interval_s=FAST_S)


@pytest.mark.slow
@pytest.mark.dashboard(size=(224, 40), interval_s=FAST_S)
async def test_the_queues_of_a_lost_broker_stay_as_they_were_and_the_totals_leave_them_out(
    driver: Driver, pair: Pair
) -> None:
    await at_row(driver, "g", GROUP, "enter")
    await driver.until_shown("4 queues, lag 4,")
    pair.stop("broker-b")
    await driver.until_shown("4 queues, lag ≥2,", "without broker-b, ")
    shown = [line.split()[1] for line in driver.lines if line.split()[:1] == ["orders"]]
    assert shown == ["broker-a", "broker-a", "broker-b", "broker-b"]
    pair.stop("broker-a")
    await driver.until(lambda: "cannot connect" in status(driver))
    assert "lag ≥2," in status(driver), "what was known, with its age"
    assert "lag 0" not in driver.text
    await driver.press("t")
    await driver.until(lambda: "the name server knows no broker" in status(driver))
    assert "0 topics" not in driver.text


@pytest.mark.slow
def test_a_queue_of_a_lost_broker_keeps_its_numbers_although_a_member_still_has_it(pair: Pair) -> None:
    """They were shown as none."""

    def lags(driver: Driver) -> list[str]:
        return [line.split()[5] for line in driver.lines if line.split()[:2] == [TOPIC, "broker-b"]]

    async def test(driver: Driver) -> None:
        await at_row(driver, "g", GROUP, "enter")
        await driver.until_shown("4 queues, lag 4,", "2 Members 1")
        pair.stop("broker-b")
        await driver.until_shown("lag ≥2,", "without broker-b, ")
        await driver.until(lambda: lags(driver) == ["~1", "~1"])

    queues = [MessageQueue(TOPIC, name, queue_id) for name in pair.brokers for queue_id in range(QUEUE_COUNT)]
    with ScriptedMember(pair.brokers["broker-a"], GROUP, TOPIC, client_id="one", owns=queues):
        drive(pair.make_client, test, size=(224, 40), interval_s=FAST_S)


@pytest.mark.slow
@pytest.mark.dashboard(size=(224, 40), interval_s=FAST_S)
async def test_a_broker_that_comes_back_is_not_gone_any_more_and_one_that_does_not_can_be_forgotten(
    driver: Driver, pair: Pair, tmp_path: Path
) -> None:
    await driver.press("c")
    await driver.until_shown("broker-a", "broker-b")
    pair.stop("broker-b")
    await driver.until_shown("1 gone")
    pair.brokers["broker-b"] = servers.broker(tmp_path / "broker-b", pair.namesrv.namesrv_addr, "broker-b")
    await driver.until(lambda: row_of(driver, "broker-b").endswith("active") and "gone" not in driver.text)
    await put_cursor(driver, "broker-b/0")
    await driver.press("ctrl+d")
    await driver.until_shown("only a broker that is gone can be forgotten")
    pair.stop("broker-b")
    await driver.until_shown("1 gone")
    await driver.press("ctrl+d")
    await driver.until(lambda: not row_of(driver, "broker-b"))


@pytest.mark.slow
@pytest.mark.parametrize("size", first_size_is_quick([(80, 24), (120, 40), (200, 60)]), ids=str)
def test_without_anybody_to_ask_nothing_is_known(size: tuple[int, int]) -> None:
    """The screens used to say "0 groups" and "lag 0 · 0 s old"."""

    async def test(driver: Driver) -> None:
        for key, noun in (("c", "brokers"), ("t", "topics"), ("g", "groups"), ("d", "groups with dead letters")):
            await driver.press(key)
            await driver.until(lambda noun=noun: f"{noun} unknown" in status(driver) and "no answer yet" in driver.text)
            await driver.until(lambda: "cannot connect to 127.0.0.1:1" in status(driver))
            assert not re.search(r"\b0 (topics|groups|brokers|s old)|\n +no ", driver.text)

    drive(clients_of("127.0.0.1:1"), test, size=size, interval_s=FAST_S)


@in_one_test(
    (GroupNumbers(consume_tps=0.0, client_count=0), "- - 0.0 0 -"),
    (GroupNumbers(lag_count=0, consume_tps=0.0, client_count=0), "0 - 0.0 0 -"),
    (GroupNumbers(lag_count=3, consume_tps=0.0, client_count=0), "3 ? 0.0 0 -"),
    (GroupNumbers(error="no answer"), "? ? ? ? ?"),
    (
        GroupNumbers(consume_tps=0.0, client_count=0, lacking=("broker-b",), lag_lacking=("broker-b",)),
        "? ? ≥0.0 ≥0 ?",
    ),
    (GroupNumbers(consume_tps=0.0, client_count=0, lacking=("broker-b",)), "- - 0.0 ≥0 ?"),
)
def test_what_a_group_has_none_of_is_a_dash_and_what_is_not_known_is_unknown(numbers: GroupNumbers, cells: str) -> None:
    names = ("lag_count", "lag_ms", "consume_tps", "client_count", "message_model")
    columns = {column.name: column for column in GroupsScreen().columns()}
    assert " ".join(columns[name].text(numbers, 0) for name in names) == cells


def test_a_group_that_may_be_online_at_a_missing_broker_is_not_called_offline() -> None:
    client, memory = FixedClient(read_only=True), ClusterMemory(lambda: NOW_MS)
    facts = read_groups(client, memory).rows["stopped"]
    assert facts.lacking == ("broker-b",)
    state = read_state(client, memory, facts)
    assert (state.summary(), state.nobody_text()) == ("unknown", "nobody is known to be online")
    alone = read_state(client, memory, msgspec.structs.replace(facts, lacking=()))
    assert (alone.summary(), alone.nobody_text()) == ("offline", "nobody is online")
