"""What one topic is: its route, where its queues begin and end, everything in one view."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LmqParent, TopicNames, Topics, topic_names
from rmqadmin.cli.options.common_options import option
from rmqadmin.core import targets
from rmqadmin.core.mqadmin_text import fastjson_pretty, java_map
from rmqadmin.core.results import ResultOf
from rmqadmin.core.topics.described import (
    DescribedTopicRow,
    DescribedTopics,
    RouteRow,
    TopicStatus,
    describe_topic,
    joined_status,
    route_rows,
)
from rmqadmin.core.topics.stored_queues import add_unread, stored_queues
from rmqproto.bodies.routes import TopicRoute
from rmqproto.errors import NotFoundError, RocketMQError


def read_status(call: Call, topic: str, route: TopicRoute, *, with_unread: bool) -> TopicStatus:
    """The ends of all queues, those of a static topic's logical queues included. ``with_unread``: also queues past the
    topic's counts, and marks those that consumers do not read. NotFoundError if there is no queue."""
    addrs = targets.selected_addrs(route.broker_datas)
    found = call.answers.of(lambda addr: call.admin.topic_stats(addr, topic), addrs).values()
    offsets = {queue: ends for stats in found for queue, ends in stats.offset_table.items()}
    if not offsets:
        raise NotFoundError("Not found the topic stats info", hint="No broker of the route has a queue of the topic.")
    if route.topic_queue_mapping_by_broker:
        from rmqadmin.core.topics.static_topics import logical_ends, read_configs  # few topics are static

        try:
            configs = read_configs(call.admin, call.admin.cluster_info(), topic, call.answers)
            offsets |= logical_ends(topic, configs, offsets)
        except RocketMQError as error:
            call.notice(f"no logical queues are shown: {error}")
    unread = (
        add_unread(call.admin, stored_queues(call.admin, route, topic, call.notice), offsets) if with_unread else {}
    )
    return TopicStatus(offsets, round(sum(stats.topic_put_tps for stats in found), 2), unread)


class Route(ResultOf[RouteRow], frozen=True):
    """Where topics live, by their names."""

    routes: Mapping[str, TopicRoute]
    as_list: bool

    def rows(self) -> Sequence[RouteRow]:
        named = len(self.routes) > 1
        return [row for topic, route in self.routes.items() for row in route_rows(route, topic if named else None)]

    def mqadmin_text(self) -> str:
        texts = self._mqadmin_list if self.as_list else self._mqadmin_json
        return "".join(texts(topic, route) for topic, route in self.routes.items())

    def _mqadmin_json(self, _topic: str, route: TopicRoute) -> str:
        mappings = {
            broker: {**mapping, "currIdMap": {int(queue_id): at for queue_id, at in mapping["currIdMap"].items()}}
            for broker, mapping in (route.topic_queue_mapping_by_broker or {}).items()
        }
        route = msgspec.structs.replace(route, topic_queue_mapping_by_broker=mappings or None)
        return fastjson_pretty(route) + "\n"

    def _mqadmin_list(self, _topic: str, route: TopicRoute) -> str:
        def line(*texts: Any) -> str:
            return "{:45} {:32} {:50} {:10} {:11} {:5}\n".format(*map(str, texts))

        rows = route_rows(route)
        text = line("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
        for row in rows:
            addrs = java_map({str(broker_id): addr for broker_id, addr in row.broker_addrs.items()})
            text += line(row.cluster, row.broker_name, addrs, row.read_queue_nums, row.write_queue_nums, row.perm)
        text += "-" * 158 + "\n"
        reads, writes = sum(row.read_queue_nums for row in rows), sum(row.write_queue_nums for row in rows)
        return text + line("Total:", len(rows), "", reads, writes, "")


def topic_route(
    call: Call,
    topic: Topics,
    as_list: Annotated[bool, option("-l", "--list", "With --output mqadmin: a table, not JSON.")] = False,
) -> Route:
    """One row a broker. The route is what the name server tells producers and consumers.

    rmqadmin topicRoute -t OrderTopic,CopyTopic
    rmqadmin topicRoute -t OrderTopic -l --output mqadmin
    """
    return Route({name: call.admin.topic_route(name) for name in topic_names([topic])}, as_list)


def topic_status(
    call: Call,
    topic: Topics,
    cluster: LmqParent = None,
) -> TopicStatus:
    """One row a queue. Queues that keep messages although consumers do not read them are marked. A static topic also
    has rows of its logical queues, under the broker name __syslo__global__.

      rmqadmin topicStatus -t OrderTopic
      rmqadmin topicStatus -t OrderTopic,CopyTopic
      rmqadmin topicStatus -t OrderTopic --watch 5
    """
    with_unread = cluster is None and not call.as_mqadmin
    return joined_status(
        [
            read_status(call, name, call.admin.topic_route((cluster or name).strip()), with_unread=with_unread)
            for name in topic_names([topic])
        ]
    )


def topic_describe(call: Call, topics: TopicNames) -> DescribedTopics:
    """Everything about a topic in one view. Queues whose messages consumers do not read are marked.

    rmqadmin topic describe OrderTopic
    rmqadmin -o json topic describe OrderTopic
    """

    def describe(topic: str) -> DescribedTopicRow:
        route = call.admin.topic_route(topic)
        return describe_topic(call.admin, topic, route, read_status(call, topic, route, with_unread=True))

    return DescribedTopics([describe(topic) for topic in topic_names(topics)])
