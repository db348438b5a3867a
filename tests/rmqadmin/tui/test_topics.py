"""Topics, queues and messages of a real broker, and permissions changed from the dashboard."""

from __future__ import annotations

import gc
import socket
from pathlib import Path

import msgspec
import pytest
from textual.widgets import Input

from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.dialogs.change import ChangeDialog
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.sources import topics
from rmqadmin.tui.until_closed import begin, until_closed, while_open
from rmqadmin.tui.widgets.detail import Detail
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, ClusterInfo
from tests.rmqadmin.tui.conftest import BROKER, QUEUE_COUNT, World
from tests.rmqadmin.tui.forms import undo_text
from tests.rmqadmin.tui.opened import Driver, at_row, drive, put_cursor, row_of
from tests.support.servers import Fresh, topic_config, until


async def at_topic(driver: Driver, world: World) -> None:
    await at_row(driver, "t", world.topic)


async def test_topics_show_marks_queues_and_how_much_they_hold(driver: Driver, world: World) -> None:
    await at_topic(driver, world)
    await driver.until(lambda: row_of(driver, world.topic).split()[1:7] == ["-", "RW", "(6)", "4", "1", "4"])


@pytest.mark.slow
async def test_down_from_a_topic_to_a_message_and_back_with_cursor_and_filter(driver: Driver, world: World) -> None:
    await driver.press("t", "slash")
    await driver.enter(world.topic, into="filter")
    await put_cursor(driver, world.topic)
    await driver.press("enter")
    await driver.until_shown(f"Topics › {world.topic}", f"{QUEUE_COUNT} queues, 4 messages")
    await put_cursor(driver, "broker-a/2")
    await driver.press("enter")
    await driver.until_shown("broker-a queue 2", "key-2")
    await driver.press("enter")
    await driver.until_shown("› key-2", "▼ {1}", "n 2")
    await driver.press("escape", "escape", "escape")
    await driver.until_shown("1 of ", world.topic)
    assert driver.app.way == ["Topics"]


async def test_only_a_topic_whose_messages_no_group_reads_is_marked(driver: Driver, world: World, fresh: Fresh) -> None:
    addr, left, empty = world.server.broker_addr, fresh("a-left"), fresh("a-empty")
    for topic in (left, empty):
        world.admin.create_topic(addr, topic_config(topic, 1))
    world.admin.send_message(addr, MessageQueue(left, BROKER, 0), Message(left, b"x"))
    await driver.press("t")
    await driver.until(lambda: row_of(driver, left).endswith("no group reads it"))
    await driver.until(lambda: row_of(driver, empty).split()[1:7] == ["-", "RW", "(6)", "1", "1", "0"])
    assert [line for line in driver.lines if "no group" in line] == [row_of(driver, left)]


@pytest.mark.slow
def test_queues_that_consumers_do_not_read_are_marked_and_shown(world: World) -> None:
    """The dashboard showed a raw refusal 29 in place of their messages."""
    addr = world.server.broker_addr
    config = world.admin.topic_config(addr, world.topic)

    def give(reads: int) -> None:
        world.admin.create_topic(addr, msgspec.structs.replace(config, read_queue_nums=reads, attributes={}))

    async def test(driver: Driver) -> None:
        await at_topic(driver, world)
        await driver.until_shown("1 read, 4 write")
        await driver.press("enter")
        await driver.until_shown(f"Topics › {world.topic}", "unread")
        await put_cursor(driver, "broker-a/2")
        await driver.press("enter")
        await driver.until_shown("broker-a queue 2", "key-2")
        assert "illegal" not in driver.text

    give(1)
    try:
        drive(world.make_client, test)
    finally:
        give(QUEUE_COUNT)


@pytest.mark.parametrize("writes", [1, QUEUE_COUNT])
def test_unread_messages_are_counted_also_where_brokers_do_not_list_their_queues(world: World, writes: int) -> None:
    """The screens compared the numbers of read and write queues."""
    addr = world.server.broker_addr
    config = world.admin.topic_config(addr, world.topic)
    memory = ClusterMemory(lambda: 0)

    def give(reads: int, writes: int) -> None:
        asked = msgspec.structs.replace(config, read_queue_nums=reads, write_queue_nums=writes, attributes={})
        world.admin.create_topic(addr, asked)

    def unread() -> tuple[int | None, list[bool | None]]:
        facts = topics.read_topics(world.admin, memory).rows[world.topic]
        numbers = topics.read_numbers(world.admin, memory, {world.topic: facts})[world.topic]
        queues = topics.read_queues(world.admin, memory, world.topic).found.rows.values()
        return numbers.unread_count, [row.unread for row in queues]

    assert unread() == (0, [None] * QUEUE_COUNT)
    give(1, writes)
    try:
        until(lambda: world.admin.topic_route(world.topic).queue_datas[0].read_queue_nums == 1)
        assert unread() == (writes - 1, [None, True, True, True])
    finally:
        give(QUEUE_COUNT, QUEUE_COUNT)


@pytest.mark.slow
def test_a_broker_that_is_silent_until_the_time_is_up_leaves_the_topics_of_the_others(world: World) -> None:
    """With a long time-out of the user's, for example."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addr = f"127.0.0.1:{silent.getsockname()[1]}"

        class TwoBrokers(DashboardClient):
            def cluster_info(self) -> ClusterInfo:
                found = super().cluster_info()
                found.broker_addr_table["broker-b"] = BrokerData(broker_name="broker-b", broker_addrs={0: addr})
                return found

        with TwoBrokers(world.server.namesrv_addr, None, 60.0, read_only=True) as client:
            client.begin(1.0)
            found = topics.read_topics(client, ClusterMemory(lambda: 0))
    assert world.topic in found.rows
    assert list(found.lacks) == ["broker-b"]


@pytest.mark.slow
async def test_messages_of_all_queues_come_newest_first(driver: Driver, world: World) -> None:
    await at_topic(driver, world)
    await driver.press("enter", "m")
    await driver.until_shown("4 messages of 4")
    found = [line for line in driver.lines if "key-" in line]
    assert [line.split("key-")[1][0] for line in found] == ["3", "2", "1", "0"]


async def test_a_permission_is_previewed_confirmed_by_name_and_changed(
    driver: Driver, world: World, state_home: Path
) -> None:
    """This dialog used not to show the undo command, though the dialog of the whole topic did."""
    await at_topic(driver, world)
    await driver.press("p")
    await driver.until_shown("nothing would change")
    await driver.press("down")
    await driver.until_shown("RW (6)  R (4)", f"Type {world.topic} to go on")
    assert world.perm == 6
    await driver.press("enter")
    await driver.enter(world.topic, into="name")
    await driver.until_shown("✔ done", "to undo this: rmqadmin apply -f")
    assert world.perm == 4
    assert "perm: 6" in undo_text(state_home, "updateTopicPerm")
    await driver.press("escape")
    await driver.until(lambda: "R (4)" in row_of(driver, world.topic))


@pytest.mark.slow
async def test_a_name_can_be_typed_only_under_the_preview_of_what_will_be_done(driver: Driver, world: World) -> None:
    """If a mark changed while the name was there, the change would be carried out without having been shown."""
    await at_topic(driver, world)
    await driver.press("p")
    await driver.until_shown("nothing would change")
    dialog = driver.app.screen
    assert isinstance(dialog, ChangeDialog)
    dialog.preview()
    assert not dialog.query_one("#name", Input).display


async def test_a_detail_that_is_on_no_screen_any_more_ends_nothing(driver: Driver, world: World) -> None:
    """A screen that closes loses its widgets before its workers end, which may show something in them."""
    await at_row(driver, "t", world.topic, "enter")
    await driver.until_shown(f"Topics › {world.topic}")
    closed = driver.app.screen
    await driver.press("escape")
    await driver.until(lambda: driver.app.screen is not closed)
    with while_open(closed):
        assert not Detail(id="detail").is_open
        raise AssertionError("a widget without a screen says so")


async def test_work_that_is_called_off_before_it_begins_is_no_coroutine_that_nobody_awaits(driver: Driver) -> None:
    done = []

    async def work(number: int) -> None:
        done.append(number)

    for number in range(3):
        begin(driver.app.screen, until_closed, driver.app.screen, work, number, group="test", exclusive=True)
    await driver.until(lambda: bool(done))
    assert done == [2]
    gc.collect()
