"""The states of an order in their order: all messages of an order have its number as their sharding key, so they lie in
one queue. Orders go on side by side, in several queues."""

import asyncio
import sys
from collections import defaultdict

from rmqclient import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

NAMESRV_ADDR = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
STATES = ("made", "paid", "sent", "received")
ORDERS = [f"order-{number}" for number in range(1, 6)]


async def main() -> None:
    seen: defaultdict[str, list[str]] = defaultdict(list)
    done = asyncio.Event()

    async def listener(message: ReceivedMessage) -> None:
        assert message.sharding_key is not None
        seen[message.sharding_key].append(message.body.decode())
        if sum(map(len, seen.values())) == len(ORDERS) * len(STATES):
            done.set()

    async with Producer(NAMESRV_ADDR, "shop") as producer:
        for state in STATES:
            for order in ORDERS:
                await producer.send(Message("OrderStates", state.encode(), sharding_key=order))

    first = ConsumeFrom.FIRST_OFFSET
    async with PushConsumer(
        NAMESRV_ADDR, "order-states", {"OrderStates": "*"}, listener, orderly=True, consume_from=first
    ):
        await done.wait()
    for order in ORDERS:
        print(order, *seen[order])


asyncio.run(main())
