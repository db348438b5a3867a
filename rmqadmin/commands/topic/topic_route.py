"""``topicRoute``: shows the brokers and queues of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec
import typer

from rmqadmin.call import Call
from rmqadmin.core.mqadmin_text import fastjson_pretty, java_map
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.options.command_options import Topic
from rmqproto.bodies.routes import TopicRoute


class RouteRow(Row, frozen=True):
    cluster: Annotated[str | None, doc("cluster name", minor=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_addrs: Annotated[dict[int, str], doc("addresses by broker id; 0 is the master")]
    read_queue_nums: Annotated[int, doc("queues that consumers read")]
    write_queue_nums: Annotated[int, doc("queues that producers write")]
    perm: Annotated[int, doc("4 read, 2 write, 1 inherit, added up", vital=True)]


class Route(Result, frozen=True):
    """Where a topic lives."""

    row_type: ClassVar[type[Row]] = RouteRow
    route: TopicRoute
    as_list: bool

    def rows(self) -> Sequence[RouteRow]:
        brokers = {broker.broker_name: broker for broker in self.route.broker_datas}
        found = []
        for queues in sorted(self.route.queue_datas, key=lambda queues: queues.broker_name):
            broker = brokers.get(queues.broker_name)
            found.append(
                RouteRow(
                    cluster=broker.cluster if broker else None,
                    broker_name=queues.broker_name,
                    broker_addrs=broker.broker_addrs if broker else {},
                    read_queue_nums=queues.read_queue_nums,
                    write_queue_nums=queues.write_queue_nums,
                    perm=queues.perm,
                )
            )
        return found

    def mqadmin_text(self) -> str:
        if self.as_list:
            return self._mqadmin_list()
        mappings = {
            broker: {**mapping, "currIdMap": {int(queue_id): at for queue_id, at in mapping["currIdMap"].items()}}
            for broker, mapping in (self.route.topic_queue_mapping_by_broker or {}).items()
        }
        route = msgspec.structs.replace(self.route, topic_queue_mapping_by_broker=mappings or None)
        return fastjson_pretty(route) + "\n"

    def _mqadmin_list(self) -> str:
        def line(*texts: Any) -> str:
            return "{:45} {:32} {:50} {:10} {:11} {:5}\n".format(*map(str, texts))

        rows = self.rows()
        text = line("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
        for row in rows:
            addrs = java_map({str(broker_id): addr for broker_id, addr in row.broker_addrs.items()})
            text += line(row.cluster, row.broker_name, addrs, row.read_queue_nums, row.write_queue_nums, row.perm)
        text += "-" * 158 + "\n"
        reads, writes = sum(row.read_queue_nums for row in rows), sum(row.write_queue_nums for row in rows)
        return text + line("Total:", len(rows), "", reads, writes, "")


def topic_route(
    call: Call,
    topic: Topic,
    as_list: Annotated[bool, typer.Option("-l", "--list", help="With --output mqadmin: a table, not JSON.")] = False,
) -> Route:
    """One row a broker. The route is what the name server tells producers and consumers.

    Examples:
      rmqadmin topicRoute -t OrderTopic
      rmqadmin topicRoute -t OrderTopic -l --output mqadmin
    """
    return Route(call.admin.topic_route(topic.strip()), as_list)
