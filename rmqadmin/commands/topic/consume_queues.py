"""Queues of a topic: which clients would get them, and the units in their files."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER, LONG, Topic
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core import targets
from rmqadmin.core.mqadmin_text import fastjson_pretty, java_bool, java_text
from rmqadmin.core.results import ResultOf, Row, doc
from rmqadmin.core.topics.routes import queues_to_allocate
from rmqproto.allocate import averagely
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeQueueAnswer
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.hosts import split_address
from rmqproto.wire import fastjson


class AllocationRow(Row, frozen=True):
    client: Annotated[str, doc("one of the clients", key=True)]
    topic: Annotated[str, doc("topic name", wide=True)]
    broker_name: Annotated[str | None, doc("broker name; none for a client that gets nothing")]
    queue_id: Annotated[int | None, doc("queue id")]


class AllocatedQueues(ResultOf[AllocationRow], frozen=True):
    """Which queues the clients would get."""

    topic: str
    queues: list[MessageQueue]
    clients: list[str]

    def rows(self) -> Sequence[AllocationRow]:
        return [
            AllocationRow(
                client=client,
                topic=self.topic,
                broker_name=queue.broker_name if queue else None,
                queue_id=queue.queue_id if queue else None,
            )
            for client in self.clients
            for queue in self._share(client) or (None,)
        ]

    def _share(self, client: str) -> list[MessageQueue]:
        return averagely(client, self.queues, self.clients)

    def mqadmin_text(self) -> str:
        parts = {
            client: [
                {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
                for queue in self._share(client)
            ]
            for client in sorted(self.clients)
        }
        return fastjson.dumps({"result": parts}).decode() + "\n"


def allocate_mq(
    call: Call,
    topic: Topic,
    ip_list: Annotated[
        str, Value.NAME, option("-i", "--ipList", "Client ids (IP addresses), separated by commas.", metavar="ID,ID")
    ],
) -> AllocatedQueues:
    """Uses the strategy AVG, the clients' default, which sorts queues and clients first. mqadmin assigns unsorted
    queues, which no group does.

      rmqadmin allocateMQ -t OrderTopic -i 10.0.0.1,10.0.0.2,10.0.0.3
      rmqadmin -o json allocateMQ -t OrderTopic -i 10.0.0.1,10.0.0.2
    """
    clients = list(dict.fromkeys(part.strip() for part in ip_list.split(",") if part.strip()))
    if not clients:
        raise UsageError("-i names no client", hint="For example -i 10.0.0.1,10.0.0.2.")
    return AllocatedQueues(topic, queues_to_allocate(call.admin.topic_route(topic), topic), clients)


COUNT_DEFAULT = 10
_RULE = "======================================\n"


class UnitRow(Row, frozen=True):
    queue_offset: Annotated[int, doc("place in the queue", key=True)]
    log_offset: Annotated[int, doc("place of the message in the commit log")]
    size_bytes: Annotated[int, doc("size of the message's record")]
    tag_hash: Annotated[int, doc("hash of its tag; of a delayed message when it is due")]
    matches: Annotated[bool | None, doc("with -g: whether the group's filter takes the message", sparse=True)]
    problem: Annotated[str | None, doc("why the broker could not read the message", sparse=True)]
    bit_map: Annotated[str | None, doc("filters that the message passed when it was stored", sparse=True)]
    extend_data: Annotated[str | None, doc("the unit's entry in the extended consume queue", sparse=True)]


class QueueFacts(Row, frozen=True):
    min_offset: Annotated[int, doc("queue offset of the oldest unit")]
    max_offset: Annotated[int, doc("queue offset that the next message will get")]
    subscription: Annotated[dict[str, Any] | None, doc("with -g: what the group wants of the topic")]
    filter: Annotated[str | None, doc("with -g: the group's filter, or that it is not online")]


class Units(ResultOf[UnitRow], frozen=True):
    """Units of a consume queue."""

    begin_offset: int
    answer: ConsumeQueueAnswer
    has_filter: bool
    """Whether a group was named. A broker says false of every unit if none was."""

    def rows(self) -> Sequence[UnitRow]:
        return [
            UnitRow(
                queue_offset=offset,
                log_offset=unit.physic_offset,
                size_bytes=unit.physic_size,
                tag_hash=unit.tags_code,
                matches=unit.eval if self.has_filter else None,
                problem=unit.msg,
                bit_map=unit.bit_map,
                extend_data=unit.extend_data_json,
            )
            for offset, unit in enumerate(self.answer.queue_data, self.begin_offset)
        ]

    def summary(self) -> QueueFacts:
        wanted = self.answer.subscription_data
        return QueueFacts(
            min_offset=self.answer.min_queue_index,
            max_offset=self.answer.max_queue_index,
            subscription=None if wanted is None else msgspec.to_builtins(wanted),
            filter=self.answer.filter_data,
        )

    def mqadmin_text(self) -> str:
        text = ""
        if self.answer.subscription_data is not None:
            text += f"Subscription data: \n{fastjson_pretty(self.answer.subscription_data)}\n{_RULE}"
        if self.answer.filter_data is not None:
            text += f"Filter data: \n{self.answer.filter_data}\n{_RULE}"
        text += f"Queue data: \nmax: {self.answer.max_queue_index}, min: {self.answer.min_queue_index}\n{_RULE}"
        for offset, unit in enumerate(self.answer.queue_data, self.begin_offset):
            text += (  # ``ConsumeQueueData.toString``
                f"idx: {offset}\nConsumeQueueData{{physicOffset={unit.physic_offset}, physicSize={unit.physic_size}, "
                f"tagsCode={unit.tags_code}, extendDataJson='{java_text(unit.extend_data_json)}', "
                f"bitMap='{java_text(unit.bit_map)}', eval={java_bool(unit.eval)}, msg='{java_text(unit.msg)}'}}\n"
                f"{_RULE}"
            )
        return text


def query_cq(
    call: Call,
    topic: Topic,
    queue: Annotated[int, Value.QUEUE, option("-q", "--queue", "Queue id.")],
    index: Annotated[int, LONG, option("-i", "--index", "Queue offset to begin at.", metavar="OFFSET")],
    count: Annotated[int, option("-c", "--count", "How many units.", min=1)] = COUNT_DEFAULT,
    broker: Annotated[
        str | None, A_BROKER, Value.BROKER_ADDR, option("-b", "--broker", "Default: the topic's first broker.")
    ] = None,
    consumer: Annotated[
        str | None, Value.GROUP, option("-g", "--consumer", "Say whether this group's filter takes each message.")
    ] = None,
) -> Units:
    """Each unit says where a message lies in the commit log. An offset outside the queue is an error.

    rmqadmin queryCq -t OrderTopic -q 0 -i 0
    rmqadmin queryCq -t OrderTopic -q 0 -i 0 -c 3 -b 127.0.0.1:10911 -g OrderGroup
    """
    if broker is not None:
        addr = broker
        split_address(addr)
    else:
        addrs = targets.selected_addrs(call.admin.topic_route(topic).broker_datas)
        if not addrs:
            raise NotFoundError(f"the topic {topic} has no broker that is up")
        addr = addrs[0]
    found = call.admin.query_consume_queue(addr, topic, queue, index, count, consumer)
    if found is None:
        raise NotFoundError(
            f"the queue {queue} of {topic} has no offset {index} on {addr}",
            hint=f"`rmqadmin topicStatus -t {topic}` shows where each queue begins and ends.",
        )
    return Units(index, found, consumer is not None)
