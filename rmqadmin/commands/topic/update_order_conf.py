"""``updateOrderConf``: shows, sets or deletes how many queues an ordered topic has on each broker, as the name servers
tell producers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic
from rmqadmin.cli.shared.changing import change
from rmqadmin.core.changes import Changes
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.servers.key_values import delete_steps, put_steps
from rmqproto.errors import UsageError
from rmqproto.names import ORDER_TOPIC_NAMESPACE


class OrderMethod(StrEnum):
    GET = "get"
    PUT = "put"
    DELETE = "delete"


class OrderRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_nums: Annotated[int | None, doc("queues of the topic on it; none if the text is not a number")]


class OrderConf(Result, frozen=True):
    """With -m get: the order configuration of a topic."""

    row_type: ClassVar[type[Row]] = OrderRow
    topic: str
    text: str

    def rows(self) -> Sequence[OrderRow]:
        parts = [part.partition(":") for part in self.text.split(";") if part]
        return [OrderRow(broker_name=name, queue_nums=int(num) if num.isdecimal() else None) for name, _, num in parts]

    def mqadmin_text(self) -> str:
        return f"get orderConf success. topic=[{self.topic}], orderConf=[{self.text}] "


def update_order_conf(
    call: Call,
    topic: Topic,
    method: Annotated[OrderMethod, typer.Option("-m", "--method", help="What to do.")],
    order_conf: Annotated[
        str | None, typer.Option("-v", "--orderConf", metavar="TEXT", help="With put: broker-a:8;broker-b:8.")
    ] = None,
) -> OrderConf | Changes:
    """Changes go to every name server of -n. updateTopic -o true writes this configuration too.

    Examples:
      rmqadmin updateOrderConf -t OrderTopic -m put -v broker-a:4
      rmqadmin updateOrderConf -t OrderTopic -m get
      rmqadmin updateOrderConf -t OrderTopic -m delete --dry-run
    """
    admin, topic = call.admin, topic.strip()
    if method is OrderMethod.GET:
        return OrderConf(topic, admin.kv_value(ORDER_TOPIC_NAMESPACE, topic))
    if method is OrderMethod.PUT:
        text = (order_conf or "").strip()
        if not text:
            raise UsageError("please set orderConf with option -v.", hint="For example -v broker-a:8;broker-b:8.")
        said = f"update orderConf success. topic=[{topic}], orderConf=[{text}]"
        return change(call, put_steps(admin, ORDER_TOPIC_NAMESPACE, topic, text), lambda _done: said)
    steps = delete_steps(admin, ORDER_TOPIC_NAMESPACE, topic)
    if not call.dry_run:
        call.confirm(f"This deletes the order configuration of the topic {topic}.", topic)
    return change(call, steps, lambda _done: f"delete orderConf success. topic=[{topic}]")
