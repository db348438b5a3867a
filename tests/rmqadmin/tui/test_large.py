"""What is large at 80 x 24: 10,000 topics, a name of 255 characters, 500 queues, 1,000 members, a body over 1 MiB."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from rmqadmin.core.groups import queue_owners
from rmqadmin.core.groups.queue_owners import unequal_clients
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.screens.members import MembersScreen
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqadmin.tui.widgets.tables.window_table import WINDOW
from rmqclient.pull import PullResult
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection, ConsumerConnection, SubscriptionData
from rmqproto.bodies.routes import QueueData, TopicConfig, TopicConfigs, TopicRoute
from rmqproto.bodies.statistics import ConsumerRunningInfo, ProcessQueueInfo, TopicOffset, TopicStats
from rmqproto.codes import VERSION
from rmqproto.message.record import body_crc
from rmqproto.wire.fastjson import ObjectMap
from tests.rmqadmin.tui.fixed import GROUP, NOW_MS, TOPIC, FixedClient
from tests.rmqadmin.tui.opened import Driver, at_row, drive, put_cursor, put_cursor_at

LONG = f"begin{'x' * 247}end"
TOPIC_COUNT, QUEUE_COUNT, MEMBER_COUNT = 10_000, 500, 1_000
SIZE = (80, 24)
BODY = b'{"n": [' + b"1234567, " * 130_000 + b"0]}"


class LargeClient(FixedClient):
    def topic_list(self) -> list[str]:
        return [*super().topic_list(), LONG, *(f"t-{number:05}" for number in range(TOPIC_COUNT))]

    def all_topics(self, broker_addr: str) -> TopicConfigs:
        found = super().all_topics(broker_addr)
        found.topic_config_table |= {name: TopicConfig(topic_name=name) for name in self.topic_list()}
        return found

    def topic_route(self, topic: str) -> TopicRoute:
        route = super().topic_route(TOPIC if topic == LONG or topic.startswith("t-") else topic)
        if topic == TOPIC:
            queues = QueueData(
                broker_name="broker-a", perm=6, read_queue_nums=QUEUE_COUNT, write_queue_nums=QUEUE_COUNT
            )
            route.queue_datas = [queues]
        return route

    def topic_stats(self, broker_addr: str, topic: str) -> TopicStats:
        if topic != TOPIC:
            return super().topic_stats(broker_addr, topic)
        ends = {
            MessageQueue(TOPIC, "broker-a", number): TopicOffset(max_offset=number) for number in range(QUEUE_COUNT)
        }
        return TopicStats(offset_table=ObjectMap(ends))

    def consumer_connection(self, broker_addr: str, group: str) -> ConsumerConnection:
        found = super().consumer_connection(broker_addr, group)
        found.connection_set = [
            ClientConnection(
                client_addr="192.0.2.9:1", client_id=f"member-{number:04}", language="JAVA", version=VERSION
            )
            for number in range(MEMBER_COUNT)
        ]
        return found

    def consumer_running_info(
        self, broker_addr: str, group: str, client_id: str, *, jstack: bool = False
    ) -> ConsumerRunningInfo:
        mine = ObjectMap({MessageQueue(TOPIC, "broker-a", int(client_id[-4:])): ProcessQueueInfo()})
        return ConsumerRunningInfo(mq_table=mine, subscription_set=[SubscriptionData(topic=TOPIC, sub_string="*")])

    def pull_message(self, *args: object, **options: object) -> PullResult:
        found = super().pull_message(*args, **options)  # type: ignore[arg-type]
        larger = [msgspec.structs.replace(one, body=BODY, body_crc=body_crc(BODY)) for one in found.messages]
        return msgspec.structs.replace(found, messages=larger)


async def at_end_and_back(driver: Driver, first: str, last: str, rows: str) -> None:
    """The list is as long as it says, and both its ends are one key away."""
    await driver.until_shown(first, rows)
    await driver.press("end")
    await driver.until_shown(last, rows)
    table = driver.app.screen.query(RowTable).first()
    assert table.row_count <= WINDOW
    await driver.press("home")
    await driver.until_shown(first)


@pytest.mark.slow
@pytest.mark.dashboard(make_client=LargeClient, size=SIZE, now_ms=NOW_MS, interval_s=5.0)
async def test_many_topics_and_queues_and_a_name_of_255_characters(driver: Driver) -> None:
    await driver.press("t", "greater_than_sign")
    await at_end_and_back(driver, "%DLQ%arrivals", "订单", "10,007 topics")
    await put_cursor(driver, LONG)
    await driver.until_shown("begin", "xend", f"topic {LONG[:40]}")
    await put_cursor(driver, TOPIC)
    await driver.press("enter")
    await at_end_and_back(driver, " broker-a      0 ", " broker-a    499 ", "500 queues")


@pytest.mark.slow
def test_the_members_of_a_large_group_are_compared_once_and_asked_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the list of members compared all of them, and so did each queue: a thousand held up every key for a
    minute. On the group's screen, all were asked every four seconds."""
    compared: list[int] = []

    def counting(subscriptions: Mapping[str, Mapping[str, str] | None]) -> list[str]:
        compared.append(len(subscriptions))
        return unequal_clients(subscriptions)

    monkeypatch.setattr(queue_owners, "unequal_clients", counting)
    asked: list[str] = []

    class Counting(LargeClient):
        def consumer_connection(self, broker_addr: str, group: str) -> ConsumerConnection:
            asked.append(group)
            return super().consumer_connection(broker_addr, group)

    async def test(driver: Driver) -> None:
        await at_row(driver, "g", GROUP, "enter")
        await at_end_and_back(driver, " broker-a      0 ", " broker-a    999 ", "1,000 queues")
        await driver.until_shown("1 Queues 1,000", "2 Members 1,000")
        await driver.press("2")
        assert isinstance(driver.app.screen, MembersScreen)
        await at_end_and_back(driver, "member-0000", "member-0999", "1,000 members")
        await driver.until_shown("every 20 s")
        await driver.press("3")
        await driver.until_shown("1,000 queues", "every 20 s")
        assert len(compared) <= len(asked), "once for each answer"

    drive(Counting, test, size=SIZE, now_ms=NOW_MS)


@pytest.mark.slow
@pytest.mark.dashboard(make_client=LargeClient, size=(120, 60), now_ms=NOW_MS, interval_s=5.0)
async def test_of_many_members_the_detail_beside_the_list_has_the_first(driver: Driver) -> None:
    await at_row(driver, "g", GROUP)
    await driver.until_shown("member-0019", "and 980 more")
    assert "member-0020" not in driver.text


@pytest.mark.slow
@pytest.mark.dashboard(make_client=LargeClient, size=SIZE, now_ms=NOW_MS, interval_s=5.0)
async def test_a_large_body_has_no_tree_and_its_text(driver: Driver) -> None:
    await driver.press("d", "enter")
    await put_cursor_at(driver, 0)
    await driver.press("enter")
    await driver.until_shown("1.1 MiB", '{"n": [1234567')
    await driver.press("1")
    await driver.until_shown("too large for a tree")
    assert isinstance(driver.app.screen, DashboardScreen)
