"""POP consumers on our own server: shares, failures, and messages that are given back."""

from collections import Counter

import anyio
import pytest

from rmqclient.admin import AdminClient
from rmqclient.consumers.pop_consumer import PopConsumer
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.listener import ConsumeStatus, Listener, later, suspend
from rmqclient.message import ReceivedMessage
from tests.rmqclient.collector import Collector, send_numbers, until
from tests.support.servers import Fresh, Server, create_topic

pytestmark = pytest.mark.anyio

COUNT = 100


def popping(server: Server, group: str, topic: str, listener: Listener, **settings: object) -> PopConsumer:
    return PopConsumer(
        server.namesrv_addr, group, {topic: "*"}, listener, consume_from=ConsumeFrom.FIRST_OFFSET, set_mode=True,
        **settings,  # type: ignore[arg-type]
    )  # fmt: skip


async def test_members_share_every_queue_and_each_message_goes_to_one(server: Server, topic: str, group: str) -> None:
    """There are more members than queues, and each gets some of the messages."""
    collectors = [Collector() for _ in range(3)]
    one, two, three = (popping(server, group, topic, each, max_in_flight=4) for each in collectors)
    async with one, two, three:
        for member in (one, two, three):
            (queue,) = await member.wait_assigned()
            assert queue.queue_id == -1
        bodies = await send_numbers(server, topic, range(COUNT))
        await until(lambda: sum(len(each.bodies) for each in collectors) >= COUNT)
    assert Counter(body for each in collectors for body in each.bodies) == Counter(bodies)
    assert all(each.bodies for each in collectors)
    with AdminClient(server.namesrv_addr) as admin:
        (stats,) = admin.consume_stats(server.broker_addr, group, topic).offset_table.values()
        assert stats.consumer_offset == COUNT


async def test_members_take_over_shares_of_queues(server: Server, group: str, fresh: Fresh) -> None:
    """Each member shares its queues with one other. With two members, both pop from all queues."""
    topic = create_topic(server, fresh("PopTopic"), 6)

    def member() -> PopConsumer:
        return popping(server, group, topic, Collector(), share_queue_num=1)

    def counts(*members: PopConsumer) -> list[int]:
        return [len(member.assignment) for member in members]

    async with member() as one, member() as two:
        await until(lambda: counts(one, two) == [1, 1])
        async with member() as three:
            await until(lambda: counts(one, two, three) == [4, 4, 4])
        await until(lambda: counts(one, two) == [1, 1])


@pytest.mark.slow
async def test_what_fails_or_is_given_back_comes_again(
    server: Server, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqclient.consuming.group_member.FINISH_TIMEOUT_S", 0.01)
    seen: list[tuple[bytes, str, int]] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus | None:
        seen.append((message.body, message.topic, message.reconsume_times))
        if message.body == b"0" and len(seen) == 1:
            return suspend(0.01)
        return await anyio.sleep_forever() if len(seen) == 2 else None

    await send_numbers(server, topic, range(3))
    async with popping(server, group, topic, listener, concurrency=1):
        await until(lambda: len(seen) == 2)
    async with popping(server, group, topic, listener):
        await until(lambda: len(seen) == 5)
    assert seen[:2] == [(b"0", topic, 0), (b"1", topic, 0)]
    assert sorted(seen[2:]) == [(b"0", topic, 0), (b"1", topic, 1), (b"2", topic, 0)]


@pytest.mark.slow
async def test_what_failed_while_the_group_still_pulled_is_not_forgotten(
    server: Server, topic: str, group: str
) -> None:
    """The message comes again from the plain retry topic, which is never popped."""
    await send_numbers(server, topic, range(1))
    failing, collect = Collector(lambda message: later(1)), Collector()
    async with PushConsumer(server.namesrv_addr, group, {topic: "*"}, failing, consume_from=ConsumeFrom.FIRST_OFFSET):
        await until(lambda: failing.bodies == [b"0"])
    async with popping(server, group, topic, collect):
        await until(lambda: collect.bodies == [b"0"])
