"""Sends batches to the queues of a cluster and judges the answers: stored, not now, never, or unknown. The plain writer
and the replay's target both use it."""

from __future__ import annotations

import itertools
import random
import sys
import time
import zlib
from collections.abc import Callable, Sequence

import msgspec

from rmqclient.sending import BUSY_CODES, NEVER_CODES, STORED_CODES
from rmqclient.tls import tls_context
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.codes import ResponseCode as Code
from rmqproto.errors import ConnectError, NotConnectedError
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.message.compression import beginning_untrusted, compressed
from rmqproto.message.record import BatchItem, encode_batch
from rmqproto.message.sys_flag import COMPRESSED
from rmqproto.wire.command import Command
from rmqreplay.sending.delivery import TOPIC_CODES, Answer, Batch, BatchOutcome, DeliveryError, Outgoing
from rmqreplay.sending.pipeline import Answered, Pipeline, wait_for_answers
from rmqreplay.source.live import PLAIN, ClusterAccess

ChooseQueue = Callable[[Batch], MessageQueue]


class BatchSender:
    """Sends batches to the masters of their queues. ``addresses`` has those that are known now, by broker name. Use it
    from one thread, and ``close`` it."""

    def __init__(
        self,
        addresses: dict[str, str],
        choose: ChooseQueue,
        access: ClusterAccess = PLAIN,
        *,
        producer_group: str,
        send_timeout_s: float,
    ):
        self._addresses = addresses
        self._choose = choose
        self._group = producer_group
        self._timeout_s = send_timeout_s
        self._access = access
        self._tls = tls_context(access.tls)
        self._pipelines: dict[str, Pipeline] = {}
        self._unsent: list[BatchOutcome] = []

    def put(self, batch: Batch, not_after: float, extend: Callable[[], float]) -> bool:
        queue = batch.messages[0].target or self._choose(batch)
        try:
            if queue.broker_name not in self._addresses:
                raise NotConnectedError(f"broker {queue.broker_name} has no master now")
            pipeline = self._pipeline(self._addresses[queue.broker_name])
            pipeline.connect()
        except ConnectError as error:
            self._unsent.append(BatchOutcome(batch, Answer.BUSY, 0, str(error)))  # certainly not appended
            return True
        code, header, body = send_request(batch, queue, self._group)
        return pipeline.put(batch, code, header, body, not_after=not_after, timeout_s=self._timeout_s, extend=extend)

    def outcomes(self) -> list[BatchOutcome]:
        if self._unsent:
            found, self._unsent = self._unsent, []
            return found
        return [judge(each) for each in wait_for_answers(list(self._pipelines.values()))]

    def close(self) -> None:
        for pipeline in self._pipelines.values():
            pipeline.close()

    def _pipeline(self, address: str) -> Pipeline:
        if address not in self._pipelines:
            credentials, address_map = self._access.credentials, self._access.address_map
            self._pipelines[address] = Pipeline(address, credentials, self._tls, address_map)
        return self._pipelines[address]


def send_request(batch: Batch, queue: MessageQueue, group: str) -> tuple[int, SendHeaderV2, bytes]:
    """Code, header and body. A single message is not sent as a batch, so that brokers accept it for topics that refuse
    batches (retry topics, compacted ones)."""
    first = batch.messages[0]
    header = SendHeaderV2(
        producer_group=group, topic=first.topic, default_topic="", default_topic_queue_nums=0,
        queue_id=queue.queue_id, sys_flag=first.sys_flag, born_timestamp=time.time_ns() // 1_000_000, flag=first.flag,
        properties=first.properties, broker_name=queue.broker_name,
    )  # fmt: skip
    if len(batch.messages) == 1:
        return RequestCode.SEND_MESSAGE_V2, header, first.body
    header.batch, header.properties, header.flag = True, "", 0
    items = [BatchItem(each.flag, each.body, each.properties.encode()) for each in batch.messages]
    return RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items)


def judge(answered: Answered) -> BatchOutcome:
    """The outcome that an answer means."""
    batch, command = answered.tag, answered.command
    assert isinstance(batch, Batch)
    if command is None:
        return BatchOutcome(batch, Answer.IN_DOUBT)
    return BatchOutcome(
        batch, _answer_of(command), command.code, command.remark or "", is_repeat="repeated" in command.ext
    )


def _answer_of(command: Command) -> Answer:
    if command.code == Code.SUCCESS:
        return Answer.STORED
    if command.code in STORED_CODES:
        return Answer.STORED_WEAKLY
    if command.code in BUSY_CODES:
        return Answer.BUSY
    return Answer.ILLEGAL if command.code in NEVER_CODES | TOPIC_CODES else Answer.IN_DOUBT


def unless_refused(outcomes: list[BatchOutcome]) -> list[BatchOutcome]:
    """The outcomes. DeliveryError if a topic is refused as a whole."""
    for each in outcomes:
        if each.is_of_topic:
            topic = each.batch.messages[0].topic
            raise DeliveryError(f"the broker takes nothing for {topic}: {each.remark} ({each.code})")
    return outcomes


def round_robin(queues: Sequence[MessageQueue]) -> ChooseQueue:
    """Chooses a topic's queues in turn, from any of them on: if each task began at the first, tasks of a few messages,
    as a stream's batches have, would send them all there."""
    by_topic: dict[str, itertools.cycle[MessageQueue]] = {}
    for topic in sorted({queue.topic for queue in queues}):
        own = sorted(queue for queue in queues if queue.topic == topic)
        first = random.randrange(len(own))
        by_topic[topic] = itertools.cycle(own[first:] + own[:first])
    return lambda batch: next(by_topic[batch.messages[0].topic])


def by_source_queue(queues: Sequence[MessageQueue]) -> ChooseQueue:
    """Chooses one target queue for all batches of a source queue, so that its order can be kept."""
    by_topic: dict[str, list[MessageQueue]] = {}
    for queue in sorted(queues):
        by_topic.setdefault(queue.topic, []).append(queue)

    def choose(batch: Batch) -> MessageQueue:
        first = batch.messages[0]
        targets = by_topic[first.topic]
        number = zlib.crc32(f"{first.queue.broker_name}/{first.queue.topic}".encode()) + first.queue.queue_id
        return targets[number % len(targets)]

    return choose


def compress(message: Outgoing, over_bytes: int) -> Outgoing:
    """The message, with its body compressed if it is longer than ``over_bytes`` (0: never) and not compressed yet."""
    if not over_bytes or len(message.body) < over_bytes or message.sys_flag & COMPRESSED:
        return message
    packed, bits = compressed(message.body)
    return msgspec.structs.replace(message, body=packed, sys_flag=message.sys_flag | bits)


def plain_body(message: Outgoing) -> bytes:
    """The body as it was before ``compress``."""
    if not message.sys_flag & COMPRESSED:
        return message.body
    return beginning_untrusted(message.body, message.sys_flag, sys.maxsize)[0]
