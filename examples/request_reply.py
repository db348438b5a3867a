"""A question to whichever server is free, and its answer: ``request`` waits for the ``reply`` of one consumer."""

import asyncio
import sys

from rmqclient import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from rmqproto.errors import RequestTimeoutError

NAMESRV_ADDR = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
PRICES = {"bread": 3, "milk": 2}


async def main() -> None:
    async with Producer(NAMESRV_ADDR, "prices") as producer:

        async def price(message: ReceivedMessage) -> None:
            if (euros := PRICES.get(message.body.decode())) is not None:
                await producer.reply(message, b"%d" % euros)

        await producer.send(Message("PriceQuestions", b"hello"))  # makes the topic, where an operator did not
        first = ConsumeFrom.FIRST_OFFSET
        server = PushConsumer(NAMESRV_ADDR, "price-servers", {"PriceQuestions": "*"}, price, consume_from=first)
        async with server:
            await server.wait_assigned()
            for what in ("bread", "milk", "gold"):
                try:
                    reply = await producer.request(Message("PriceQuestions", what.encode()), timeout_s=5)
                except RequestTimeoutError:
                    print(what, "nobody knows")
                else:
                    print(what, int(reply.body))


asyncio.run(main())
