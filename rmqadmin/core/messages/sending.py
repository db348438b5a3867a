"""Messages are sent, one or many, or pushed to one client, and what came of it."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from typing import Annotated, Any

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import brokers_of_group
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.mqadmin_text import BROKER_NAME_WIDTH, cut, java_bool, java_text, queue_text
from rmqadmin.core.names import near_name
from rmqadmin.core.results import Notice, R, ResultOf, Row, SendingRow, doc, first_if_all
from rmqadmin.core.topics.routes import queues_to_send_to
from rmqclient.message import Message, SendResult, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeDirectlyResult
from rmqproto.errors import NotFoundError, RocketMQError, UsageError
from rmqproto.wording import counted


class SentRow(SendingRow, frozen=True):
    broker_name: Annotated[str, doc("broker that it went to")]
    queue_id: Annotated[int | None, doc("queue that it went to")]
    status: Annotated[
        str | None, doc("SEND_OK, or what the broker could not promise; none under --dry-run", vital=True)
    ]
    message_id: Annotated[str | None, doc("unique key", key=True)]
    offset_message_id: Annotated[str | None, doc("id made by the broker", wide=True)]
    queue_offset: Annotated[int | None, doc("its place in the queue")]


def sent_values(queue: MessageQueue, result: SendResult | None) -> dict[str, Any]:
    """The values of a ``SentRow``. ``result``: the broker's answer; None for a message that is not sent."""
    return {
        "broker_name": queue.broker_name,
        "queue_id": result.queue.queue_id if result else queue.queue_id,
        "status": result.status.name if result else None,
        "message_id": result.message_id if result else None,
        "offset_message_id": result.offset_message_id if result else None,
        "queue_offset": result.queue_offset if result else None,
    }


def say_if_new(admin: AdminClient, topic: str, notice: Notice, *, dry_run: bool) -> None:
    """A notice if the first message creates the topic, with the name that may have been meant."""
    if targets.find_route(admin, topic) is not None:
        return
    near = near_name(topic, admin.topic_list())
    meant = f"; did you mean {near}?" if near else ""
    does = "would make" if dry_run else "makes"
    notice(f"there is no topic {topic}: the broker {does} it for this message{meant}")


QueuePlace = tuple[MessageQueue, str]
"""A queue, and its broker's address."""


class Sent(ResultOf[SentRow], frozen=True):
    """Where the message went."""

    queue: MessageQueue
    result: SendResult | None

    def rows(self) -> Sequence[SentRow]:
        return [SentRow(**sent_values(self.queue, self.result))]

    def mqadmin_text(self) -> str | None:
        if self.result is None:
            return None
        text = f"{'#Broker Name':32}  {'#QID':4}  {'#Send Result':20}    #MsgId\n"
        name, queue_id = cut(self.queue.broker_name, BROKER_NAME_WIDTH), self.result.queue.queue_id
        return text + f"{name:32}  {queue_id:<4}  {self.result.status.name:20}    {self.result.message_id}\n"


def choose_queue(
    admin: AdminClient,
    topic: str,
    broker_name: str | None,
    queue_id: int | None,
    choose: Callable[[Sequence[QueuePlace]], QueuePlace] = random.choice,
) -> QueuePlace:
    """Any queue of the topic, or of one broker, or the named queue, which need not exist. NotFoundError for a broker
    that has no queue to write to."""
    queues = queues_to_send_to(admin, topic)
    if broker_name is None:
        return choose(queues)
    there = [found for found in queues if found[0].broker_name == broker_name]
    if not there:
        names = ", ".join(sorted({found[0].broker_name for found in queues}))
        raise NotFoundError(f"The broker[{broker_name}] not exist", hint=f"The topic is on: {names}.")
    if queue_id is None:
        return choose(there)
    return MessageQueue(topic, broker_name, queue_id), there[0][1]


def send_one(admin: AdminClient, place: QueuePlace, message: Message, notice: Notice, *, dry_run: bool) -> Sent:
    """Sends the message, or in a dry run says where it would go."""
    queue, addr = place
    if dry_run:
        return Sent(queue, None)
    result = admin.send_message(addr, queue, message)
    if result.status is not SendStatus.SEND_OK:
        notice(f"the message is stored, but the broker answers {result.status.name}")
    return Sent(queue, result)


SIZE_BYTES, COUNT = 128, 100
"""mqadmin's defaults."""


class Probe(msgspec.Struct, frozen=True):
    """One test message, sent or (``rt_ms`` is None) only planned. ``failure``: why the broker did not take it."""

    queue: MessageQueue
    rt_ms: float | None = None
    result: SendResult | None = None
    failure: RocketMQError | None = None

    @property
    def error(self) -> str | None:
        return None if self.failure is None else str(self.failure)


def send_probes(
    admin: AdminClient, queues: Iterable[tuple[MessageQueue, str]], count: int, size_bytes: int, *, dry_run: bool
) -> list[Probe]:
    """Sends ``count`` messages one after another, to the queues in turn."""
    message = Message(next(iter(queues))[0].topic, b"a" * size_bytes)
    return [
        Probe(queue) if dry_run else send_probe(admin, queue, addr, message)
        for queue, addr in islice(cycle(queues), count)
    ]


def send_probe(admin: AdminClient, queue: MessageQueue, addr: str, message: Message) -> Probe:
    started_s = time.monotonic()
    try:
        result, failure = admin.send_message(addr, queue, message), None
    except RocketMQError as error:
        result, failure = None, error
    return Probe(queue, round((time.monotonic() - started_s) * 1000, 2), result, failure)


def mean_ms(probes: Iterable[Probe]) -> float | None:
    """The mean without the first message, whose time includes opening the connection. None for a single message."""
    found = [probe.rt_ms for probe in islice(probes, 1, None) if probe.rt_ms is not None]
    return sum(found) / len(found) if found else None


def shown_mean_ms(probes: Sequence[Probe]) -> float | None:
    """``mean_ms``, but the time of a single message, which mqadmin shows as no number."""
    return probes[0].rt_ms if len(probes) == 1 else mean_ms(probes)


def mean_text(value: float | None) -> str:
    """``%.2f`` as Java formats it."""
    return "NaN" if value is None else f"{value:.2f}"


def failures(probes: Iterable[Probe]) -> list[str]:
    return [probe.error for probe in probes if probe.error is not None]


def probes_cause(probes: Sequence[Probe]) -> RocketMQError | None:
    """For ``Result.cause``."""
    return first_if_all([probe.failure for probe in probes])


class Probed(ResultOf[R], frozen=True):
    """Test messages, and what came of each."""

    probes: list[Probe]

    def problem(self) -> str | None:
        found = failures(self.probes)
        return f"{len(found)} of {counted(len(self.probes), 'message')} failed: {found[0]}" if found else None

    def cause(self) -> RocketMQError | None:
        return probes_cause(self.probes)


class PushedRow(Row, frozen=True):
    message_id: Annotated[str, doc("unique key", key=True)]
    client_id: Annotated[str, doc("consumer that it was pushed to")]
    result: Annotated[str | None, doc("CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION ...; none under --dry-run")]
    remark: Annotated[str | None, doc("what the consumer says about it")]
    spent_ms: Annotated[int | None, doc("how long its listener took")]


class Pushed(ResultOf[PushedRow], frozen=True):
    """With -g and -d: messages consumed once more by one consumer."""

    client_id: str
    pushed: list[tuple[str, ConsumeDirectlyResult | None]]

    def rows(self) -> Sequence[PushedRow]:
        return [
            PushedRow(
                message_id=message_id,
                client_id=self.client_id,
                result=None if result is None else java_text(result.consume_result),
                remark=None if result is None else result.remark,
                spent_ms=None if result is None else result.spent_time_mills,
            )
            for message_id, result in self.pushed
        ]

    def mqadmin_text(self) -> str:
        return "".join(
            f"ConsumeMessageDirectlyResult [order={java_bool(result.order)}, "
            f"autoCommit={java_bool(result.auto_commit)}, "
            f"consumeResult={java_text(result.consume_result)}, remark={java_text(result.remark)}, "
            f"spentTimeMills={result.spent_time_mills}]\n"
            for _, result in self.pushed
            if result is not None
        )


def push(admin: AdminClient, messages: Sequence[FoundMessage], group: str, client_id: str, *, dry_run: bool) -> Pushed:
    """Makes one push consumer consume messages now."""
    addrs = targets.selected_addrs(brokers_of_group(admin, group))
    info = admin.consumer_running_info(addrs[0], group, client_id)
    if not info.is_push:
        raise UsageError(f"this {client_id} client is not push consumer ,not support direct push")
    pushed: list[tuple[str, ConsumeDirectlyResult | None]] = []
    for message in messages:
        stored = message.stored
        result = None
        if not dry_run:
            result = admin.consume_message_directly(
                message.broker_addr, group, client_id, stored.message_id, stored.topic
            )
        pushed.append((message.message_id, result))
    return Pushed(client_id, pushed)


def send_result_text(result: SendResult) -> str:
    """``SendResult.toString``."""
    return (
        f"SendResult [sendStatus={result.status.name}, msgId={result.message_id}, "
        f"offsetMsgId={result.offset_message_id}, messageQueue={queue_text(result.queue)}, "
        f"queueOffset={result.queue_offset}, recallHandle=null]"
    )
