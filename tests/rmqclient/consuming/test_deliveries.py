"""The way of messages from the pull to the listener, and what happens to those that it could not consume."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rmqclient.consuming.deliveries import AGAIN_AFTER_S, ConcurrentDeliveries, Delivery, ListenerCall
from rmqclient.consuming.process_queue import ProcessQueue
from rmqclient.consuming.rates import Rates
from rmqclient.listener import LATER, NEVER_AGAIN, SUCCESS, ConsumeStatus, Listener, later
from rmqclient.message import ReceivedMessage
from rmqproto.errors import ConnectError, UsageError
from tests.rmqclient.consuming.test_process_queue import TEMPLATE

pytestmark = pytest.mark.trio


def received(queue_offset: int) -> ReceivedMessage:
    return ReceivedMessage(msgspec.structs.replace(TEMPLATE, queue_offset=queue_offset), "broker-a")


class Fixture:
    """Deliveries of one queue with messages 0 to ``count`` - 1, and the messages that were sent back."""

    def __init__(self, listener: Listener, *, concurrency: int = 2, timeout_s: float = 60.0, count: int = 3):
        self.sent_back: list[tuple[int, int]] = []
        self.send_back_fails = 0
        self.settled = 0
        self.queue = ProcessQueue(0)
        self.call = ListenerCall(listener, concurrency, timeout_s, Rates())
        self.deliveries = ConcurrentDeliveries(self.call, self.send_back)
        messages = [received(number) for number in range(count)]
        self.queue.put([message.stored for message in messages], count)
        for message in messages:
            self.deliveries.offer(Delivery(message, self.queue, self.on_settled))

    def on_settled(self) -> None:
        self.settled += 1

    async def send_back(self, message: ReceivedMessage, status: ConsumeStatus) -> None:
        if self.send_back_fails:
            self.send_back_fails -= 1
            raise ConnectError("nobody there")
        self.sent_back.append((message.queue_offset, status.delay_level))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.deliveries.run)
            yield
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("status", [SUCCESS, None])
async def test_what_is_consumed_is_settled(status: ConsumeStatus | None) -> None:
    async def listener(message: ReceivedMessage) -> ConsumeStatus | None:
        return status

    fixture = Fixture(listener)
    async with fixture.running():
        await wait_all_tasks_blocked()
    assert (fixture.queue.committed_offset, fixture.settled, fixture.sent_back) == (3, 3, [])


async def test_what_fails_is_sent_back_and_only_then_settled() -> None:
    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        if message.queue_offset == 0:
            raise ValueError("cannot")
        return LATER if message.queue_offset == 1 else later(NEVER_AGAIN)

    fixture = Fixture(listener, concurrency=1)
    async with fixture.running():
        await wait_all_tasks_blocked()
    assert fixture.sent_back == [(0, 0), (1, 0), (2, -1)]
    assert fixture.queue.committed_offset == 3


async def test_a_cancellation_of_asyncio_is_a_failure_like_any_other() -> None:
    """A plain listener may have run a loop of its own."""

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        raise asyncio.CancelledError

    fixture = Fixture(listener, concurrency=1)
    async with fixture.running():
        await wait_all_tasks_blocked()
    assert fixture.sent_back == [(0, 0), (1, 0), (2, 0)]


async def test_what_cannot_be_sent_back_stays_and_comes_again(autojump_clock: MockClock) -> None:
    """If it were settled without a copy at the broker, it would be lost."""
    seen: list[tuple[int, float]] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        seen.append((message.queue_offset, trio.current_time()))
        return LATER if len(seen) < 3 else SUCCESS

    fixture = Fixture(listener, count=1)
    fixture.send_back_fails = 2
    async with fixture.running():
        await trio.sleep(AGAIN_AFTER_S * 1.5)
        assert fixture.queue.committed_offset == 0
        await trio.sleep(AGAIN_AFTER_S * 1.5)
    assert [offset for offset, _ in seen] == [0, 0, 0]
    assert seen[2][1] - seen[0][1] == pytest.approx(2 * AGAIN_AFTER_S)
    assert (fixture.queue.committed_offset, fixture.sent_back) == (1, [])


async def test_a_listener_that_hangs_is_cancelled_and_its_message_comes_again(autojump_clock: MockClock) -> None:
    async def listener(message: ReceivedMessage) -> None:
        await trio.sleep_forever()

    fixture = Fixture(listener, timeout_s=900.0)
    async with fixture.running():
        await trio.sleep(2000)
    assert sorted(fixture.sent_back) == [(0, 0), (1, 0), (2, 0)]


async def test_no_more_messages_at_once_than_wanted() -> None:
    running = most = 0

    async def listener(message: ReceivedMessage) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.lowlevel.checkpoint()
        running -= 1

    fixture = Fixture(listener, concurrency=4, count=40)
    async with fixture.running():
        await wait_all_tasks_blocked()
    assert most == 4
    assert fixture.queue.committed_offset == 40


async def test_messages_of_a_queue_that_is_given_away_are_neither_offered_nor_sent_back() -> None:
    """The next owner gets them, so messages that were also sent back would come twice."""
    go = trio.Event()
    seen: list[int] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        seen.append(message.queue_offset)
        await go.wait()
        return LATER

    fixture = Fixture(listener, concurrency=1)
    async with fixture.running():
        await wait_all_tasks_blocked()
        fixture.queue.is_dropped = True
        go.set()
        await wait_all_tasks_blocked()
    assert (seen, fixture.sent_back, fixture.queue.committed_offset) == ([0], [], 0)


async def test_draining_finishes_what_has_begun_and_begins_nothing() -> None:
    go = trio.Event()
    seen: list[int] = []

    async def listener(message: ReceivedMessage) -> None:
        seen.append(message.queue_offset)
        await go.wait()

    fixture = Fixture(listener, concurrency=2)
    async with fixture.running(), trio.open_nursery() as nursery:
        await wait_all_tasks_blocked()
        nursery.start_soon(fixture.deliveries.drain)
        await wait_all_tasks_blocked()
        assert nursery.child_tasks
        go.set()
    assert seen == [0, 1]
    assert fixture.queue.committed_offset == 2


async def test_plain_functions_run_side_by_side_in_threads() -> None:
    barrier = threading.Barrier(3, timeout=20)

    def listener(message: ReceivedMessage) -> None:
        barrier.wait()

    fixture = Fixture(listener, concurrency=3)
    async with fixture.running():
        with trio.fail_after(20):
            while fixture.queue.count:
                await trio.sleep(0.001)
    assert fixture.sent_back == []


async def test_an_object_with_an_async_call_is_an_async_listener() -> None:
    class Counter:
        thread: int | None = None

        async def __call__(self, message: ReceivedMessage) -> None:
            self.thread = threading.get_ident()

    counter = Counter()
    fixture = Fixture(counter)
    async with fixture.running():
        await wait_all_tasks_blocked()
    assert counter.thread == threading.get_ident()


async def test_a_listener_that_never_waits_lets_others_run() -> None:
    """Heartbeats and pulls share the event loop: a queue full of quick messages must not starve them."""
    longest = 0

    async def listener(message: ReceivedMessage) -> None:
        nonlocal since_other
        since_other += 1

    since_other = 0
    fixture = Fixture(listener, concurrency=1, count=200)
    async with fixture.running():
        while fixture.queue.count:
            since_other = 0
            await trio.lowlevel.checkpoint()
            longest = max(longest, since_other)
    assert 0 < longest <= 64


async def test_the_number_of_messages_at_once_changes_while_they_run(autojump_clock: MockClock) -> None:
    running = most = 0

    async def listener(message: ReceivedMessage) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1

    fixture = Fixture(listener, concurrency=2, count=60)
    seen = []
    async with fixture.running():
        for concurrency in (5, 1, 4):
            await trio.sleep(3.3)
            seen.append(most)
            fixture.call.concurrency = concurrency
            await trio.sleep(1.1)  # until calls that are too many now have ended; no call ends at a moment of ours
            most = running
        await trio.sleep(3.3)
        seen.append(most)
        while fixture.queue.count:
            await trio.sleep(0.1)
        fixture.call.concurrency = 1  # while all wait for messages
        await wait_all_tasks_blocked()
        fixture.queue.put([received(60).stored], 61)
        fixture.deliveries.offer(Delivery(received(60), fixture.queue, fixture.on_settled))
        await trio.sleep(2)
    assert seen == [2, 5, 1, 4]
    assert fixture.queue.committed_offset == 61


async def test_no_messages_at_once_is_refused() -> None:
    with pytest.raises(UsageError, match="concurrency is 0"):
        Fixture(print, concurrency=0)
