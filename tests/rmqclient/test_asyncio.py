"""What asyncio's programs do to a client: tasks that are cancelled, time-outs, Ctrl+C."""

import asyncio
import subprocess
import sys

import pytest

from rmqclient import ConsumeFrom, Message, PopConsumer, Producer, ReceivedMessage, SimpleConsumer
from rmqclient.admin import AdminClient
from rmqproto.errors import NotConnectedError, RefusedError, UsageError
from tests.rmqclient.collector import Collector, from_first, send_numbers, until
from tests.support.servers import Fresh, Server


def test_tasks_of_asyncio_send(server: Server, topic: str) -> None:
    async def main() -> None:
        async with Producer(server.namesrv_addr, "p") as producer:
            results = await asyncio.gather(*(producer.send(Message(topic, b"%d" % n)) for n in range(50)))
        assert sorted(result.queue_offset for result in results) == list(range(50))

    asyncio.run(main())


def test_a_call_whose_time_is_up_leaves_the_client_as_it_was(server: Server, topic: str) -> None:
    async def main() -> None:
        async with SimpleConsumer(server.namesrv_addr, "G") as consumer:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.pop(topic, wait_s=20), 0.2)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await consumer.pop(topic, wait_s=20)
            assert await consumer.queues(topic)

    asyncio.run(main())


def test_a_cancelled_task_leaves_its_group(server: Server, admin: AdminClient, topic: str, fresh: Fresh) -> None:
    group, collect = fresh("G"), Collector()

    async def consume() -> None:
        async with from_first(server, group, topic, collect):
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(consume())
        async with Producer(server.namesrv_addr, "p") as producer:
            await producer.send(Message(topic, b"one"))
        await until(lambda: collect.bodies == [b"one"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert admin.consumer_offset(server.broker_addr, group, topic, 0) == 1
    with pytest.raises(RefusedError, match="no consumer for this group"):
        admin.consumer_ids(server.broker_addr, group)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_cancellation_inside_a_listener_is_its_failure(
    server: Server, topic: str, fresh: Fresh, orderly: bool
) -> None:
    """It ended the worker that called the listener, and nobody was told."""
    calls = []

    async def listener(message: ReceivedMessage) -> None:
        calls.append(message.body)
        task = asyncio.create_task(asyncio.sleep(10))
        task.cancel()
        await task

    async def main() -> None:
        await send_numbers(server, topic, range(4))
        async with from_first(server, fresh("G"), topic, listener, concurrency=1, orderly=orderly):
            await until(lambda: len(calls) >= 3)

    asyncio.run(main(), debug=True)


def test_a_listener_may_return_an_awaitable(server: Server, topic: str, fresh: Fresh) -> None:
    collect = Collector()

    async def main() -> None:
        await send_numbers(server, topic, range(1))
        async with from_first(server, fresh("G"), topic, lambda message: collect(message)):
            await until(lambda: collect.bodies == [b"0"])

    asyncio.run(main())


def test_one_client_serves_one_loop_after_another(server: Server, topic: str, fresh: Fresh) -> None:
    """As that of a web application's module, each of whose tests runs a loop."""
    collect, first = Collector(), ConsumeFrom.FIRST_OFFSET
    producer = Producer(server.namesrv_addr, "p")
    consumers = [
        from_first(server, fresh("G"), topic, collect),
        PopConsumer(server.namesrv_addr, fresh("G"), {topic: "*"}, collect, consume_from=first, set_mode=True),
    ]

    async def main(body: bytes) -> None:
        async with producer, consumers[0], consumers[1]:
            await producer.send(Message(topic, body))
            await until(lambda: collect.bodies.count(body) == 2)

    for body in (b"1", b"2"):
        asyncio.run(main(body))


def test_a_client_in_use_is_not_entered_again(server: Server, topic: str) -> None:
    async def main() -> None:
        producer = Producer(server.namesrv_addr, "p")
        async with producer:
            with pytest.raises(UsageError, match="is in use"):
                async with producer:
                    pass
            assert await producer.send(Message(topic, b"x"))
        with pytest.raises(NotConnectedError, match="not running"):
            await asyncio.wait_for(producer.send(Message(topic, b"x")), 2)

    asyncio.run(main())


def test_ctrl_c_finishes_what_is_under_way(server: Server, topic: str, fresh: Fresh) -> None:
    group = fresh("G")
    code = f"""
import asyncio
from rmqclient import *

async def main():
    consumer = PushConsumer({server.namesrv_addr!r}, {group!r}, {{{topic!r}: "*"}}, lambda message: None)
    async with consumer:
        await consumer.wait_assigned()
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(2)
    _, said = process.communicate(timeout=60)
    assert said.rstrip().endswith("KeyboardInterrupt")
    with AdminClient(server.namesrv_addr) as admin, pytest.raises(RefusedError, match="no consumer for this group"):
        admin.consumer_ids(server.broker_addr, group)
