"""An order that nobody pays in time is cancelled. With the order goes a delayed message, which asks at the end of the
time whether it was paid. Nothing polls a table, and a restart of this program loses no order."""

import asyncio
import sys

from rmqclient import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

NAMESRV_ADDR = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
PAY_WITHIN_S = 2.0  # half an hour in a shop

states: dict[str, str] = {}


async def order(producer: Producer, number: str) -> None:
    states[number] = "unpaid"
    # Orders of one flash sale end at one moment; the jitter spreads the work over a second.
    await producer.send(Message("OrderTimeouts", number.encode(), keys=[number], delay_s=PAY_WITHIN_S, jitter_ms=1000))


async def main() -> None:
    asked: set[str] = set()
    all_asked = asyncio.Event()

    async def is_it_paid(message: ReceivedMessage) -> None:
        number = message.body.decode()
        if states[number] == "unpaid":
            states[number] = "cancelled"
        asked.add(number)
        if asked == {"order-1", "order-2", "order-3"}:
            all_asked.set()

    first = ConsumeFrom.FIRST_OFFSET
    async with Producer(NAMESRV_ADDR, "shop") as producer:
        for number in ("order-1", "order-2", "order-3"):
            await order(producer, number)
        states["order-2"] = "paid"
        async with PushConsumer(NAMESRV_ADDR, "order-timeouts", {"OrderTimeouts": "*"}, is_it_paid, consume_from=first):
            await all_asked.wait()
    for number, state in sorted(states.items()):
        print(number, state)


asyncio.run(main())
