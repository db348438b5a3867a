"""Puts a seed into a broker before it is ready, by the operations that serve tools and producers: what they refuse is
an error here. A seed may be applied at every start. Topics and groups get the settings of the file each time; messages
go only to topics that never had one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from rmqproto.codes import VERSION
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.headers.sending import SendHeader
from rmqproto.message.record import host_bytes
from rmqserver.broker.broker import Broker
from rmqserver.broker.errors import as_refused
from rmqserver.broker.sending.pending import Outcome
from rmqserver.broker.sending.rewrites import Sender
from rmqserver.broker.sending.targets import Targets
from rmqserver.seed.seed_file import Seed, SeedMessage
from rmqserver.store.new_message import NewMessage
from rmqserver.store.results import MessageRefused

log = logging.getLogger(__name__)

PORTION_COUNT = 1000
"""Messages of one round, which are held in memory."""

_BORN_HOST = host_bytes("127.0.0.1", 0)
"""Messages of a seed come from no client."""


class Sowing:
    """Make it with an open broker, call ``put_tables``, and, when the loop runs, ``put_messages``."""

    def __init__(self, broker: Broker, seed: Seed, store_host: bytes):
        """``store_host`` is our address in the messages' records."""
        self._broker = broker
        self._seed = seed
        self._store_host = store_host
        self._targets = Targets(broker.config, broker.topics, broker.stats, broker.clock_ms)
        self._put = broker.put
        self._waiting_count = 0
        self._lost: str | None = None
        self._has_ended = trio.Event()

    def put_tables(self) -> None:
        """UsageError, with the line, for anything that the broker refuses."""
        for topic in self._seed.topics:
            with self._line(topic.line):
                self._broker.topic_admin.put(topic.config, topic.changes)
        for group in self._seed.groups:
            with self._line(group.line):
                self._broker.group_admin.put(group.config)

    async def put_messages(self) -> None:
        """Returns when the messages are as safe as the broker promises. UsageError as above; StorageError."""
        empty_topics = {message.topic for message in self._seed.messages if self._is_empty(message.topic)}
        wanted = [message for message in self._seed.messages if message.topic in empty_topics]
        for start in range(0, len(wanted), PORTION_COUNT):
            await self._put_portion(wanted[start : start + PORTION_COUNT])
        log.info(
            "event=seeded file=%s topics=%d groups=%d messages=%d messages_left_out=%d",
            self._seed.path, len(self._seed.topics), len(self._seed.groups), len(wanted),
            len(self._seed.messages) - len(wanted),
        )  # fmt: skip

    def _is_empty(self, topic: str) -> bool:
        """Whether the topic never had a message. A missing topic counts as empty; sending to it is refused."""
        config = self._broker.topics.get(topic)
        queue_nums = max(config.read_queue_nums, config.write_queue_nums) if config is not None else 0
        return not any(self._broker.store.max_offset(topic, queue_id) for queue_id in range(queue_nums))

    async def _put_portion(self, messages: list[SeedMessage]) -> None:
        self._has_ended = trio.Event()
        self._waiting_count = len(messages)
        for message in messages:
            with self._line(message.line):
                self._put_message(message)
        self._broker.loop.wake()
        await self._has_ended.wait()
        if self._lost is not None:
            raise StorageError(f"--seed {self._seed.path}: {self._lost}")

    def _put_message(self, seed: SeedMessage) -> None:
        now_ms = self._broker.clock_ms()
        header = SendHeader(topic=seed.topic, queue_id=seed.queue_id, born_timestamp=now_ms)
        target = self._targets.known.get(seed.topic) or self._targets.find(header, "127.0.0.1")
        queue_id = target.choose_queue(seed.queue_id, "--seed")
        message = NewMessage(
            topic=seed.topic,
            queue_id=queue_id,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=now_ms,
            born_host=_BORN_HOST,
            store_host=self._store_host,
            reconsume_times=0,
            body=seed.body,
            properties=dict(seed.properties),
        )
        self._put.put_from(Sender(target, VERSION, None), message)
        self._broker.put.when_stored(message.properties, self._ended)

    def _ended(self, outcome: Outcome) -> None:
        if outcome.is_lost:
            self._lost = outcome.remark
        self._waiting_count -= 1
        if not self._waiting_count:
            self._has_ended.set()

    @contextmanager
    def _line(self, line: int) -> Iterator[None]:
        """Turns a refusal within the block into an error of the file's ``line``."""
        try:
            yield
        except (MessageRefused, ProtocolError) as error:
            raise self._seed.error(line, str(error)) from None
        except Exception as error:
            refused = as_refused(error)
            if refused is None:
                raise
            raise self._seed.error(line, (refused.remark or "").strip()) from None
