"""What every delivery of a task needs: requests to the masters as they are now, and its share of the rate."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from rmqreplay.sending.delivery import Answer, Batch, BatchOutcome
from rmqreplay.sending.permits import Entered, Granted, PermitBook, Wait
from rmqreplay.sending.sender import BatchSender, ChooseQueue
from rmqreplay.source.live import LiveCluster
from spark_tools.source_options import WriteOptions

_NO_END = float("inf")


class TaskSender:
    """Sends batches, and learns of new masters whenever a request was not answered or not taken."""

    def __init__(self, options: WriteOptions, cluster: LiveCluster, choose: ChooseQueue):
        self._cluster = cluster
        self._topics: set[str] = set()
        self._addresses: dict[str, str] = {}
        self._sender = BatchSender(
            self._addresses, choose, options.access, producer_group=options.producer_group,
            send_timeout_s=options.send_timeout_ms / 1000,
        )  # fmt: skip

    def put(self, batch: Batch, not_after: float, extend: Callable[[], float]) -> bool:
        topic = batch.messages[0].topic
        if topic not in self._topics:
            self._topics.add(topic)
            self._learn(topic)
        return self._sender.put(batch, not_after, extend)

    def outcomes(self) -> list[BatchOutcome]:
        found = self._sender.outcomes()
        for topic in {
            each.batch.messages[0].topic for each in found if each.answer in (Answer.BUSY, Answer.IN_DOUBT)
        }:  # fmt: skip
            self._cluster.forget_route(topic)
            self._learn(topic)
        return found

    def _learn(self, topic: str) -> None:
        """While it cannot be told where the masters are, the known addresses are tried again."""
        with contextlib.suppress(RocketMQError):
            for name, (_, broker) in self._cluster.route(topic).items():
                if broker.master_addr is not None:
                    self._addresses[name] = broker.master_addr

    def close(self) -> None:
        self._sender.close()


def no_target(batch: Batch) -> MessageQueue:
    """For a sender whose messages name their queues."""
    raise AssertionError(batch)


class OwnPermits:
    """Permits that limit one task's rate, and nothing else."""

    def __init__(self, options: WriteOptions):
        self._book = PermitBook(time.monotonic, settle_s=0.0, rate=options.rate_max, byte_rate=options.byte_rate_max)
        self._book.open_wave(0, recovering=False)
        self._book.enter(0, 0, 0)

    def enter(self) -> Entered:
        return Entered(must_look=False)

    def ask(self, count: int, size_bytes: int) -> Granted | Wait:
        answer = self._book.ask(0, 0, 0, count, size_bytes)
        assert not isinstance(answer, Entered)
        return answer if isinstance(answer, Wait) else Granted(getattr(answer, "count", count), _NO_END)

    def extend(self) -> Granted:
        return Granted(0, _NO_END)

    def wait_for_one(self, size_bytes: int) -> None:
        """Returns when one message may be sent."""
        while isinstance(answer := self.ask(1, size_bytes), Wait):
            time.sleep(answer.seconds)
