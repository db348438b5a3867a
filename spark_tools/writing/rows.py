"""The columns of a frame that is to be written, and its rows as messages: their properties, their queues, and why a row
can never be sent. Nothing here sends."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import PERM_WRITE
from rmqproto.errors import NotConnectedError, NotFoundError, RocketMQError, UsageError
from rmqproto.java.java_hash import place_by_hash
from rmqproto.java.java_numbers import whole_number
from rmqproto.message import properties as props
from rmqproto.message.message_id import UniqueIds
from rmqproto.names import topic_problem
from rmqproto.wire.frames import BODY_SIZE_MAX_BYTES
from rmqreplay.sending.delivery import Outgoing, must_go_alone, too_large
from rmqreplay.sending.sender import compress, plain_body
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.pulling import READ_TIMEOUT_S, is_passing, is_silence, persist
from spark_tools.source_options import WriteOptions
from spark_tools.writing.rejects import RejectedRow, Rejects

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER_SIZE_MAX_BYTES = 128
"""What the number adds to the properties."""
_UTF8_SIZE_MAX = 4
"""Bytes of a character."""

INPUT_COLUMNS = {
    "body": ("binary", "string"), "topic": ("string",), "tags": ("string",), "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",), "queueId": ("int",), "brokerName": ("string",), "shardingKey": ("string",),
    "delayTimeLevel": ("int",), "deliverTimestamp": ("timestamp", "bigint"), "flag": ("int",),
}  # fmt: skip
HASHES = ("key", "javaHash")
"""The queue selectors that hash the column shardingKey."""


def check_input(columns: Sequence[tuple[str, str]], options: WriteOptions) -> None:
    """UsageError, while the query is planned, for a missing body or topic, and for columns that would be ignored or are
    of another type."""
    kinds: dict[str, str] = {}
    for name, kind in columns:
        allowed = INPUT_COLUMNS.get(name)
        if allowed is None:
            raise UsageError(f"column {name} has no meaning here", hint="known: " + ", ".join(INPUT_COLUMNS))
        if kind.replace(" ", "") not in allowed:
            raise UsageError(f"column {name} is {kind} and should be {' or '.join(allowed)}")
        if name in kinds:
            raise UsageError(f"there are two columns {name}")
        kinds[name] = kind
    if "body" not in kinds:
        raise UsageError("a column body is needed")
    if "topic" not in kinds and options.topic is None:
        raise UsageError("a column topic, or the option topic, is needed")
    if options.queue_selector == "source" and not {"queueId", "brokerName"} <= kinds.keys():
        raise UsageError("queueSelector=source needs the columns brokerName and queueId")
    if "brokerName" in kinds and "queueId" not in kinds:
        raise UsageError("the column brokerName needs the column queueId", hint="together they name a queue")
    if options.queue_selector in HASHES:
        given = f"queueSelector={options.queue_selector}"
        if "shardingKey" not in kinds:
            raise UsageError(f"{given} needs the column shardingKey")
        if "queueId" in kinds:
            raise UsageError(f"{given} chooses the queue, and so does the column queueId: leave one of them out")


def writable_queues(cluster: LiveCluster, topic: str) -> list[MessageQueue]:
    """The queues that a producer may choose from, in Java's order: by broker, then by number, without brokers that have
    no master now. NotFoundError if there are none, NotConnectedError if there are no masters or no brokers at all."""
    route = cluster.route(topic)
    if not route:
        if not cluster.admin.cluster_info().broker_addr_table:
            raise NotConnectedError("no name server knows of any broker now")
        raise NotFoundError(f"no name server knows the topic {topic}", hint="create it, or start its brokers")
    queues = [
        MessageQueue(topic, name, queue_id)
        for name, (queue, broker) in sorted(route.items())
        if queue.perm & PERM_WRITE and broker.master_addr is not None
        for queue_id in range(queue.write_queue_nums)
    ]
    away = [name for name, (queue, broker) in route.items() if queue.perm & PERM_WRITE and broker.master_addr is None]
    if not queues and away:
        raise NotConnectedError(f"{', '.join(sorted(away))}, which has the topic {topic}, has no master now")
    if not queues:
        raise NotFoundError(
            f"the topic {topic} cannot be written: no broker with a master has a queue of it with write permission",
            hint=f"rmqadmin topicRoute -t {topic} shows its permissions",
        )
    return queues


def known_brokers(cluster: LiveCluster) -> frozenset[str]:
    """The brokers that name servers know as a write begins, with a master or without; none if they do not tell."""
    try:
        return frozenset(cluster.admin.cluster_info().broker_addr_table)
    except RocketMQError:
        return frozenset()


class TaskRows:
    """The rows of one task, as messages. Those that can never be sent go to ``rejects``."""

    def __init__(
        self,
        options: WriteOptions,
        cluster: LiveCluster,
        task: int,
        queues: Sequence[MessageQueue] = (),
        body_max_bytes: int = BODY_SIZE_MAX_BYTES,
        brokers: frozenset[str] = frozenset(),
    ):
        """``queues``: those of the option topic, if they are not to be asked for. ``brokers``: those that were known
        before. While one of them is away, what a row names and nobody knows is waited for."""
        self._options = options
        self._cluster = cluster
        self._task = task
        self._origin = MessageQueue("", "", task)
        self._body_max_bytes = body_max_bytes
        self._queues: dict[str, Sequence[MessageQueue]] = {queues[0].topic: queues} if queues else {}
        self._topic_problems: dict[str, str | None] = {}
        self._queue_problems: dict[MessageQueue, str | None] = {}
        self._brokers = brokers
        self._is_any_away = False
        self._waits_until_s: float | None = None
        self._unique_ids = UniqueIds()
        self.rejects = Rejects()

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Outgoing]:
        number = 0
        for batch in batches:
            for row in batch.to_pylist(maps_as_pydicts="lossy"):
                made = self._message(row, number)
                if made is not None:
                    yield made
                number += 1

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """As of ``writable_queues``, asked for once. Waits for brokers that restart: name servers know nothing of their
        topics meanwhile."""
        if topic not in self._queues:
            # The option's topic was there, perhaps at brokers that nobody knew any more as this batch began.
            was_there = topic == self._options.topic and not self._brokers
            passes = is_passing if was_there else self._may_pass
            ask = partial(writable_queues, self._cluster, topic)
            try:
                self._queues[topic] = persist(
                    ask, lambda: self._cluster.forget_route(topic), READ_TIMEOUT_S, passes=passes
                )
            except NotFoundError as error:
                self._topic_problems[topic] = str(error)
                raise
        return self._queues[topic]

    def _may_pass(self, error: RocketMQError) -> bool:
        """Whether to wait. A name that nobody knows is wrong if no broker is away; if one is, this waits no longer in
        all than for one topic, since many names may be wrong. Name servers know the topics of slaves, too."""
        if not isinstance(error, NotFoundError):
            return is_silence(error)
        if not self._brokers:
            return False
        was_away = self._is_any_away
        try:
            self._is_any_away = not self._brokers <= self._cluster.admin.cluster_info().broker_addr_table.keys()
        except RocketMQError as other:
            return is_silence(other)
        if not self._is_any_away and not was_away:  # one that just came back is asked once more
            return False
        if self._waits_until_s is None:
            self._waits_until_s = time.monotonic() + READ_TIMEOUT_S
        return time.monotonic() < self._waits_until_s

    def reject(self, message: Outgoing, code: int, remark: str) -> None:
        """Notes that a broker has refused a message for ever."""
        found = props.parse(message.properties)
        self._reject(message.queue_offset, message.topic, plain_body(message), found, message.flag, remark, code)

    def _reject(
        self, number: int, topic: str, body: bytes, found: Mapping[str, str], flag: int, remark: str, code: int = 0
    ) -> None:
        self.rejects.add(RejectedRow(self._task, number, topic, code, remark, body, found, flag))

    def _message(self, row: Mapping[str, Any], number: int) -> Outgoing | None:
        topic = self._options.topic or row.get("topic") or ""
        body = row["body"] or b""
        raw = body.encode() if isinstance(body, str) else body
        flag = row.get("flag") or 0
        found = self._properties(row)
        try:
            text = self._checked(topic, raw, row, found)
            target = self._target(topic, row)
        except (UsageError, NotFoundError) as error:
            self._reject(number, topic, raw, found, flag, str(error))
            return None
        message = Outgoing(
            replay_id="", queue=self._origin, queue_offset=number, topic=topic, body=raw, properties=text, flag=flag,
            target=target, alone=must_go_alone(topic, found),
        )  # fmt: skip
        if self._options.compress_over_bytes:
            message = compress(message, self._options.compress_over_bytes)
        problem = too_large(message.body, self._body_max_bytes)
        if problem is not None:
            self._reject(number, topic, raw, found, flag, problem)
            return None
        return message

    def _checked(self, topic: str, body: bytes, row: Mapping[str, Any], found: Mapping[str, str]) -> str:
        """The property text. UsageError if no broker would take the message."""
        is_numbered = self._options.is_idempotent
        if topic not in self._topic_problems:
            self._topic_problems[topic] = topic_problem(topic)
        problem = self._topic_problems[topic] or (None if body else "its body is empty, which no broker takes")
        if problem is not None:
            raise UsageError(problem)
        keys = row.get("keys")
        if isinstance(keys, list) and any(key and " " in key for key in keys):
            raise UsageError("one of its keys has a blank, which separates keys")
        if found.get(props.TRAN_MSG, "").lower() == "true" or (is_numbered and props.TRAN_MSG in found):
            raise UsageError("it is half of a transaction (TRAN_MSG), which nobody would end")
        if props.INNER_NUM in found:
            raise UsageError("its property INNER_NUM says that it is a batch")
        delay = found.get(props.DELAY)
        if delay is not None and whole_number(delay.lstrip("+-")) is None:
            raise UsageError(f"its delay level is no number: DELAY is {delay[:40]!r}")
        if is_numbered and must_go_alone(topic, found):  # the broker chooses where it goes: numbers do not count
            raise UsageError("delivery=idempotent takes no delay, no priority and no retry topic")
        try:
            text = props.render(found)
        except ValueError as error:
            raise UsageError(str(error)) from None
        size_max = props.PROPERTIES_SIZE_MAX_BYTES - (_NUMBER_SIZE_MAX_BYTES if is_numbered else 0)
        if len(text) > size_max // _UTF8_SIZE_MAX and len(text.encode()) > size_max:
            raise UsageError(f"its properties take {len(text.encode())} bytes")
        return text

    def _properties(self, row: Mapping[str, Any]) -> dict[str, str]:
        given, keys, level = row.get("properties"), row.get("keys"), row.get("delayTimeLevel")
        found = {name: value for name, value in given.items() if value} if given else {}
        found.pop(props.PRODUCER_SEQ, None)  # of the message that this one is a copy of
        if tags := row.get("tags"):
            found[props.TAGS] = tags
        if keys := " ".join(filter(None, keys)) if isinstance(keys, list) else keys:
            found[props.KEYS] = keys
        if sharding_key := row.get("shardingKey"):
            found[props.SHARDING_KEY] = sharding_key
        if level:
            found[props.DELAY] = str(level)
        deliver = row.get("deliverTimestamp")
        if deliver is not None:
            deliver_ms = deliver if isinstance(deliver, int) else round(deliver.timestamp() * 1000)
            found[props.TIMER_DELIVER_MS] = str(deliver_ms)
        found.setdefault(props.UNIQUE_KEY, self._unique_ids.next())
        return found

    def _target(self, topic: str, row: Mapping[str, Any]) -> MessageQueue | None:
        queues, selector, key = self.queues(topic), self._options.queue_selector, row.get("shardingKey")
        if selector == "key" and key:
            return queues[zlib.crc32(key.encode()) % len(queues)]
        if selector == "javaHash" and key:
            return queues[place_by_hash(key, len(queues))]
        queue_id, broker_name = row.get("queueId"), row.get("brokerName")
        if queue_id is None and broker_name is None and selector != "source":
            return None
        if queue_id is None:
            raise UsageError("it has no queueId, which names a queue together with brokerName")
        return self._named_queue(topic, broker_name, queue_id)

    def _named_queue(self, topic: str, broker_name: str | None, queue_id: int) -> MessageQueue:
        """The queue that a row names. Without a broker it must be of the only broker that has the topic."""
        names = sorted({queue.broker_name for queue in self._queues[topic]})
        if broker_name is None and len(names) > 1:
            raise UsageError(f"it has queueId {queue_id} and no brokerName, and {', '.join(names)} have the topic")
        queue = MessageQueue(topic, broker_name or names[0], queue_id)
        if queue not in self._queue_problems:
            self._queue_problems[queue] = self._queue_problem(queue)
        problem = self._queue_problems[queue]
        if problem is not None:
            raise NotFoundError(problem)
        return queue

    def _queue_problem(self, queue: MessageQueue) -> str | None:
        """Why no row can be sent to a queue that one names. A numbered write keeps the queues of its plan."""

        def find() -> None:
            there = self._queues[queue.topic]
            if queue not in there and not self._options.is_idempotent:
                there = writable_queues(self._cluster, queue.topic)
                known = self._cluster.route(queue.topic).get(queue.broker_name)
                is_writable = known and known[0].perm & PERM_WRITE and queue.queue_id < known[0].write_queue_nums
                if known and is_writable and known[1].master_addr is None:
                    raise NotConnectedError(f"{queue.broker_name}, which a row names, has no master now")
            if queue not in there:
                name = f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}"
                raise NotFoundError(f"there is no {name} that can be written")

        try:
            persist(find, lambda: self._cluster.forget_route(queue.topic), READ_TIMEOUT_S, passes=self._may_pass)
        except NotFoundError as error:
            return str(error)
        return None
