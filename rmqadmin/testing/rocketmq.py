"""What a test does with RocketMQ besides running its own code: uses its own topics and groups, sends and reads
messages, and waits for progress. All calls block and use the admin client."""

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rmqclient.admin import AdminClient
from rmqclient.message import Message, ReceivedMessage, SendResult
from rmqclient.pull import PullStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.bodies.statistics import lag_of
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError

WAIT_TIMEOUT_S = 10.0
"""How long a test waits for an expected event. Consumers commit every 5 s."""

_LOOK_EVERY_S = 0.01
_TEST_NAME_LENGTH_MAX = 80
"""A group's name has at most 120 characters, and its retry topic's name begins with ``%RETRY%``."""

_numbers = itertools.count(1)


class RocketMQ:
    """The session's broker, as one test sees it. ``namesrv_addr`` is for the clients under test; ``admin`` does
    everything that has no method here, at ``broker_addr``. With several brokers (``--brokers``) that is the first, to
    which ``send`` sends; everything else is done at all ``broker_addrs``.

    Methods raise what ``AdminClient`` raises. Those that wait raise AssertionError when the time is over.
    """

    def __init__(self, namesrv_addr: str, broker_addrs: Sequence[str], test_name: str):
        self.namesrv_addr = namesrv_addr
        self.broker_addr, *_ = self.broker_addrs = list(broker_addrs)
        self.admin = AdminClient(namesrv_addr)
        self._test_name = re.sub(r"[^a-zA-Z0-9_-]+", "-", test_name)[:_TEST_NAME_LENGTH_MAX].strip("-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admin.close()

    # --- topics and groups -------------------------------------------------------------------------------------------

    def topic(self, *, queue_count: int = 1, message_type: str | None = None) -> str:
        """Creates a topic that no other test uses, and waits until the nameserver knows it; its name. With one queue,
        messages arrive in the order they were sent."""
        topic = f"{self._test_name}-topic-{next(_numbers)}"
        self.create_topic(topic, queue_count=queue_count, message_type=message_type)
        return topic

    def group(self) -> str:
        """Creates a consumer group that no other test uses; its name."""
        group = f"{self._test_name}-group-{next(_numbers)}"
        for addr in self.broker_addrs:
            self.admin.create_group(addr, SubscriptionGroupConfig(group_name=group))
        return group

    def create_topic(self, topic: str, *, queue_count: int = 1, message_type: str | None = None) -> None:
        """Creates a topic. ``message_type`` is NORMAL, FIFO, DELAY, TRANSACTION or MIXED, for clients of RocketMQ 5
        that check it."""
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queue_count,
            write_queue_nums=queue_count,
            attributes={"+message.type": message_type} if message_type else {},
        )
        for addr in self.broker_addrs:
            self.admin.create_topic(addr, config)

    # --- everything at once ------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Deletes all topics, groups, offsets and messages, including those of other tests, and makes the objects of
        ``--seed`` again. For tests whose names are fixed by the code under test. To clients it looks like a broker
        restart."""
        for addr in self.broker_addrs:
            self.admin.reset_broker(addr)

    def snapshot(self, name: str) -> None:
        """Saves the complete state under this name, until the session ends. To clients it looks like a restart."""
        for addr in self.broker_addrs:
            self.admin.save_snapshot(addr, name)

    def restore(self, name: str) -> None:
        """Restores the state of ``snapshot(name)``. To clients it looks like a restart."""
        for addr in self.broker_addrs:
            self.admin.restore_snapshot(addr, name)

    # --- messages ----------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        body: bytes | str,
        *,
        tags: str | None = None,
        keys: Iterable[str] | str = (),
        properties: Mapping[str, str] | None = None,
        delay_s: float = 0.0,
        queue_id: int = -1,
    ) -> SendResult:
        """Sends one message; text is sent as UTF-8. The broker chooses the queue unless ``queue_id`` is given."""
        message = Message(
            topic=topic,
            body=body.encode() if isinstance(body, str) else body,
            tags=tags,
            keys=keys,
            properties=properties or {},
            delay_s=delay_s,
        )
        return self.admin.send_message(self.broker_addr, MessageQueue(topic, "", queue_id), message)

    def messages(
        self, topic: str, count: int | None = None, *, timeout_s: float = WAIT_TIMEOUT_S
    ) -> list[ReceivedMessage]:
        """All messages of a topic, queue by queue in the order of offsets; nothing is committed. With ``count``, waits
        until there are at least that many; the topic need not exist before."""
        if count is None:
            return self._all_messages(topic)
        found: list[ReceivedMessage] = []

        def has_enough() -> bool:
            try:
                found[:] = self._all_messages(topic)
            except RefusedError as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
            return len(found) >= count

        if not self._comes_true(has_enough, timeout_s):
            bodies = ", ".join(repr(message.body[:40]) for message in found)
            raise AssertionError(f"{topic} holds {len(found)} messages after {timeout_s:g} s, not {count}: {bodies}")
        return found

    def _all_messages(self, topic: str) -> list[ReceivedMessage]:
        """RefusedError if the first broker does not have the topic. Another may not have it yet, if it is automatic."""
        found: list[ReceivedMessage] = []
        for addr in self.broker_addrs:
            try:
                config = self.admin.topic_config(addr, topic)
            except RefusedError as error:
                if addr == self.broker_addr or error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                continue
            for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
                found += self._messages_of(addr, MessageQueue(topic, "", queue_id))
        return found

    def _messages_of(self, addr: str, queue: MessageQueue) -> Iterable[ReceivedMessage]:
        offset = self.admin.min_offset(addr, queue.topic, queue.queue_id)
        while True:
            pulled = self.admin.pull_message(addr, queue, offset)
            for stored in pulled.messages:
                yield ReceivedMessage(stored, queue.broker_name)
            if pulled.status is not PullStatus.FOUND:
                return
            offset = pulled.next_begin_offset

    # --- faults ------------------------------------------------------------------------------------------------------

    @contextmanager
    def faults(self, *rules: str) -> Iterator[None]:
        """Makes requests fail by the given rules inside the context (docs/testing.md), including requests of this
        object: ``with rocketmq.faults("SEND_MESSAGE:error=SYSTEM_BUSY:count=2"):``."""
        try:
            for addr in self.broker_addrs:
                self.admin.set_faults(addr, rules)
            yield
        finally:
            for addr in self.broker_addrs:
                self.admin.set_faults(addr, ())

    # --- consumers ---------------------------------------------------------------------------------------------------

    def lag(self, group: str, topic: str) -> int:
        """How many messages of a topic the group has not committed yet."""
        stats = [self.admin.consume_stats(addr, group, topic) for addr in self.broker_addrs]
        return sum(lag_of(offset) for each in stats for offset in each.offset_table.values())

    def wait_consumed(self, group: str, topic: str, *, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Waits until the group has committed all messages of a topic."""
        if not self._comes_true(lambda: self.lag(group, topic) == 0, timeout_s):
            raise AssertionError(f"{group} has not consumed {self.lag(group, topic)} of {topic} after {timeout_s:g} s")

    def _comes_true(self, check: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while not check():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True
