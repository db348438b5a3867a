"""``allocateMQ``: shows which queues the clients of a group would get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.topics.routes import queues_to_allocate
from rmqproto.allocate import averagely
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqproto.wire import fastjson


class AllocationRow(Row, frozen=True):
    client: Annotated[str, doc("one of the clients", key=True)]
    topic: Annotated[str, doc("topic name", wide=True)]
    broker_name: Annotated[str | None, doc("broker name; none for a client that gets nothing")]
    queue_id: Annotated[int | None, doc("queue id")]


class AllocatedQueues(Result, frozen=True):
    """Which queues the clients would get."""

    row_type: ClassVar[type[Row]] = AllocationRow
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
        str,
        Value.NAME,
        typer.Option("-i", "--ipList", metavar="ID,ID", help="Client ids (IP addresses), separated by commas."),
    ],
) -> AllocatedQueues:
    """Uses the strategy AVG, the clients' default, which sorts queues and clients first. mqadmin assigns unsorted
    queues, which no group does.

    Examples:
      rmqadmin allocateMQ -t OrderTopic -i 10.0.0.1,10.0.0.2,10.0.0.3
      rmqadmin -o json allocateMQ -t OrderTopic -i 10.0.0.1,10.0.0.2
    """
    clients = list(dict.fromkeys(part.strip() for part in ip_list.split(",") if part.strip()))
    if not clients:
        raise UsageError("-i names no client", hint="For example -i 10.0.0.1,10.0.0.2.")
    topic = topic.strip()
    return AllocatedQueues(topic, queues_to_allocate(call.admin.topic_route(topic), topic), clients)
