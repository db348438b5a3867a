"""Listeners that get lists: ``consume_message_batch_max_size``."""

from collections.abc import Callable

import anyio
import pytest

from rmqclient import (
    SUCCESS,
    ConsumeStatus,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    later,
    suspend,
)
from rmqclient.admin import AdminClient
from rmqproto.errors import UsageError
from tests.rmqclient.collector import from_first, until
from tests.support.servers import Fresh, Server, create_topic

pytestmark = pytest.mark.anyio

COUNT = 40


class Lists:
    """Keeps the bodies of each list, and says for the list what ``say`` returns, given its number."""

    def __init__(self, say: Callable[[int], ConsumeStatus | None] = lambda number: None):
        self.say = say
        self.lists: list[list[bytes]] = []
        self.queues: list[int] = []

    async def __call__(self, messages: list[ReceivedMessage]) -> ConsumeStatus | None:
        self.lists.append([message.body for message in messages])
        self.queues.append(len({message.queue for message in messages}))
        return self.say(len(self.lists))

    @property
    def bodies(self) -> list[bytes]:
        return [body for each in self.lists for body in each]


@pytest.fixture
async def topic(server: Server, fresh: Fresh) -> str:
    name = fresh("BatchTopic")
    create_topic(server, name, 2)
    async with Producer(server.namesrv_addr, "p") as producer:
        for number in range(COUNT):
            await producer.send(Message(name, b"%d" % number, sharding_key="ab"[number % 2]))
    return name


def consumer(server: Server, group: str, topic: str, lists: Lists, **options: object) -> PushConsumer:
    return from_first(server, group, topic, lists, consume_message_batch_max_size=8, **options)  # type: ignore[arg-type]


def committed(server: Server, group: str, topic: str) -> int:
    with AdminClient(server.namesrv_addr) as admin:
        stats = admin.consume_stats(server.broker_addr, group, topic)
    return sum(each.consumer_offset for each in stats.offset_table.values())


@pytest.mark.parametrize("orderly", [False, True])
async def test_lists_are_of_one_queue_and_as_large_as_wanted(
    server: Server, topic: str, fresh: Fresh, orderly: bool
) -> None:
    group, lists = fresh("G"), Lists()
    async with consumer(server, group, topic, lists, orderly=orderly, concurrency=1):
        await until(lambda: len(lists.bodies) == COUNT)
    assert sorted(map(int, lists.bodies)) == list(range(COUNT))
    assert {len(each) <= 8 for each in lists.lists} == {True}
    assert max(map(len, lists.lists)) > 1
    assert set(lists.queues) == {1}
    assert committed(server, group, topic) == COUNT


async def test_all_of_a_list_that_fails_comes_again(server: Server, topic: str, fresh: Fresh) -> None:
    group, lists = fresh("G"), Lists(lambda number: later(1) if number == 1 else SUCCESS)  # after a second
    async with consumer(server, group, topic, lists, concurrency=1):
        await until(lambda: len(set(lists.bodies)) == COUNT)
        with anyio.fail_after(60):
            while len(lists.bodies) < COUNT + len(lists.lists[0]):
                await anyio.sleep(0.01)
    again = [body for body in lists.bodies if lists.bodies.count(body) > 1]
    assert set(again) == set(lists.lists[0])


async def test_in_order_a_list_comes_again_before_the_next(server: Server, topic: str, fresh: Fresh) -> None:
    lists = Lists(lambda number: suspend(0.01) if number == 2 else None)
    async with consumer(server, fresh("G"), topic, lists, orderly=True, concurrency=1):
        await until(lambda: len(set(lists.bodies)) == COUNT)
    failed = lists.lists[1]
    kept = {parity: [int(body) for body in lists.bodies if int(body) % 2 == parity] for parity in (0, 1)}
    numbers = kept[int(failed[0]) % 2]
    first = numbers.index(int(failed[0]))
    assert numbers[first : first + 2 * len(failed)] == 2 * [int(body) for body in failed]


async def test_a_size_that_java_would_refuse_is_refused() -> None:
    for name in ("consume_message_batch_max_size", "pull_batch_size"):
        for size in (0, 1025):
            with pytest.raises(UsageError, match=f"{name} is {size}"):
                PushConsumer("127.0.0.1:1", "g", {"T": "*"}, Lists(), **{name: size})  # type: ignore[arg-type]
