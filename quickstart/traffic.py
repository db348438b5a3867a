"""The traffic through the broker: a producer with many concurrent sends, and push consumers that book arrivals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import trio

from quickstart.broker import ReadyLine
from quickstart.dead_letters import dead_letter_count
from quickstart.flights import Flight
from rmqclient.listener import SUCCESS, ConsumeStatus, later
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producer import Producer
from rmqclient.push_consumer import PushConsumer

OPEN_SENDS = 128
DELAY_LEVEL_OF_RETRY = 1
"""One second between a failure and the next try."""

POLL_S = 0.25
STALLED_S = 60
"""If nothing arrives for this long, the count is final."""

SEND_TIMEOUT_S = 60
"""Long, because a send that times out and is repeated may be stored twice, and every flight must count once."""

Advance = Callable[[int], None]


@dataclass
class Published:
    """The numbers of the rows that were offered to the broker, and of those that it acknowledged."""

    offered: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)


async def publish(namesrv_addr: str, topic: str, flights: Iterable[Flight], advance: Advance) -> Published:
    published = Published()
    rows = iter(flights)

    async def sender(producer: Producer) -> None:
        for flight in rows:
            published.offered.add(flight.row)
            await producer.send(Message(topic, flight.body, tags=flight.tag, keys=flight.keys))
            published.acknowledged.add(flight.row)
            advance(1)

    async with (
        Producer(namesrv_addr, "quickstart_producer", timeout_s=SEND_TIMEOUT_S) as producer,
        trio.open_nursery() as nursery,
    ):
        for _ in range(OPEN_SENDS):
            nursery.start_soon(sender, producer)
    return published


@dataclass
class Consumed:
    """How often each row was booked, and how often its booking failed."""

    booked: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)


async def book_arrivals(broker: ReadyLine, topic: str, group: str, total: int, advance: Advance) -> Consumed:
    """Consumes until every flight is booked or among the dead letters, or nothing has moved for STALLED_S."""
    consumed = Consumed()

    async def book(message: ReceivedMessage) -> ConsumeStatus:
        row = int(message.keys[-1])
        if json.loads(message.body)["arr_delay"] is None:  # cancelled or diverted: there is no arrival to book
            consumed.failed[row] += 1
            return later(DELAY_LEVEL_OF_RETRY)
        consumed.booked[row] += 1
        advance(1)
        return SUCCESS

    async with PushConsumer(broker.namesrv_addr, group, {topic: "*"}, book, consume_from="CONSUME_FROM_FIRST_OFFSET"):
        done, dead_before = 0, 0
        deadline_s = trio.current_time() + STALLED_S
        while done < total and trio.current_time() < deadline_s:
            await trio.sleep(POLL_S)
            dead = await trio.to_thread.run_sync(dead_letter_count, broker, group)
            advance(dead - dead_before)
            dead_before = dead
            if len(consumed.booked) + dead > done:
                done = len(consumed.booked) + dead
                deadline_s = trio.current_time() + STALLED_S
    return consumed


async def consume_rows(namesrv_addr: str, topic: str, group: str, tag: str, expected: int) -> Counter[int]:
    """Reads the topic from its first message with another group. Returns how often each row came, once ``expected``
    rows have come or nothing has come for STALLED_S."""
    seen: Counter[int] = Counter()
    all_seen = trio.Event()

    async def look(message: ReceivedMessage) -> ConsumeStatus:
        seen[int(message.keys[-1])] += 1
        if len(seen) >= expected:
            all_seen.set()
        return SUCCESS

    async with PushConsumer(namesrv_addr, group, {topic: tag}, look, consume_from="CONSUME_FROM_FIRST_OFFSET"):
        with trio.move_on_after(STALLED_S):
            await all_seen.wait()
    return seen
