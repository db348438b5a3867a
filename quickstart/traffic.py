"""The traffic through the broker: a frame of Spark is published, and push consumers book arrivals."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from quickstart.broker import ReadyLine
from quickstart.dead_letters import message_count
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.listener import SUCCESS, ConsumeStatus, later
from rmqclient.message import ReceivedMessage
from rmqproto.names import dlq_topic
from spark_tools.replay.spark_engine import run_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELAY_LEVEL_OF_RETRY = 1
"""One second between a failure and the next try."""

POLL_S = 0.25
STALLED_S = 60
"""If nothing arrives for this long, the count is final."""

SEND_TIMEOUT_S = 60
"""Long, because a send that times out and is repeated may be stored twice, and every flight must count once."""

Advance = Callable[[int], None]


def publish(broker: ReadyLine, topic: str, flights: DataFrame, advance: Advance) -> None:
    """Returns when the broker has acknowledged every flight. SparkJobError."""
    writing = flights.write.format("rocketmq").mode("append").options(
        nameServer=broker.namesrv_addr, topic=topic, sendTimeoutMs=str(SEND_TIMEOUT_S * 1000)
    )  # fmt: skip

    is_done = threading.Event()

    def watch() -> None:
        shown = 0
        while not is_done.wait(POLL_S):
            stored = message_count(broker, topic)
            advance(stored - shown)
            shown = stored

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run_spark(writing.save)
    finally:
        is_done.set()
        watcher.join()


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
            dead = await trio.to_thread.run_sync(message_count, broker, dlq_topic(group))
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
