"""Reading topics: which there are, where they live, where their queues begin and end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec
import typer

from rmqadmin import targets
from rmqadmin.call import Call
from rmqadmin.mqadmin_text import BROKER_NAME_WIDTH, cut, hash_order, java_map
from rmqadmin.options import LmqParent, Topic
from rmqadmin.results import TIME, Result, Row, doc
from rmqproto.bodies import MessageQueue, TopicOffset, TopicRoute
from rmqproto.errors import NotFoundError
from rmqproto.java_hash import java_hash
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX

# --- topicList -------------------------------------------------------------------------------------------------------


class TopicName(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]


class Topics(Result, frozen=True):
    """Without -c: the topics of the name server."""

    row_type: ClassVar[type[Row]] = TopicName
    topics: list[str]

    def rows(self) -> Sequence[TopicName]:
        return [TopicName(topic=topic) for topic in sorted(self.topics)]

    def mqadmin_text(self) -> str:
        return "".join(f"{topic}\n" for topic in hash_order(self.topics, java_hash))


class TopicGroup(Row, frozen=True):
    cluster: Annotated[str | None, doc("cluster of the topic's first broker")]
    topic: Annotated[str, doc("topic name", key=True)]
    group: Annotated[str | None, doc("a group that consumes the topic or has offsets in it")]


class TopicGroups(Result, frozen=True):
    """With -c: topics with their clusters and the groups that consume them."""

    row_type: ClassVar[type[Row]] = TopicGroup
    found: list[TopicGroup]

    def rows(self) -> Sequence[TopicGroup]:
        return self.found

    def mqadmin_text(self) -> str:
        lines = [f"{'#Cluster Name':20}  {'#Topic':48}  {'#Consumer Group':48}\n"]
        lines += [
            f"{cut(row.cluster, 20):20}  {cut(row.topic, 64):64}  {cut(row.group, 64):64}\n" for row in self.found
        ]
        return "".join(lines)


def topic_list(
    call: Call,
    cluster_model: Annotated[
        bool, typer.Option("-c", "--clusterModel", help="Also show clusters and groups: two requests a topic.")
    ] = False,
) -> Topics | TopicGroups:
    """Retry (%RETRY%), dead-letter (%DLQ%) and system topics are among them; -c leaves the first two out.

    Examples:
      rmqadmin topicList
      rmqadmin topicList -c -n 127.0.0.1:9876
      rmqadmin -o json topicList
    """
    topics = call.admin.topic_list()
    call.remember("topic", topics)
    call.remember("group", (topic[len(RETRY_PREFIX) :] for topic in topics if topic.startswith(RETRY_PREFIX)))
    if not cluster_model:
        return Topics(topics)
    plain = [topic for topic in hash_order(topics, java_hash) if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    return TopicGroups([row for rows in targets.ask_each(lambda t: _groups_of(call, t), plain) for row in rows])


def _groups_of(call: Call, topic: str) -> list[TopicGroup]:
    route = targets.find_route(call.admin, topic)
    if route is None or not route.broker_datas:
        return [TopicGroup(cluster=None, topic=topic, group=None)]
    addrs = targets.selected_addrs(route.broker_datas)
    groups = {group: None for addr in addrs for group in call.admin.groups_of_topic(addr, topic)}
    found: list[str | None] = [*hash_order(groups, java_hash)] or [None]
    return [TopicGroup(cluster=route.broker_datas[0].cluster, topic=topic, group=group) for group in found]


# --- topicRoute ------------------------------------------------------------------------------------------------------


class RouteRow(Row, frozen=True):
    cluster: Annotated[str | None, doc("cluster name")]
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_addrs: Annotated[dict[int, str], doc("addresses by broker id; 0 is the master")]
    read_queue_nums: Annotated[int, doc("queues that consumers read")]
    write_queue_nums: Annotated[int, doc("queues that producers write")]
    perm: Annotated[int, doc("4 read, 2 write, 1 inherit, added up")]


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
        return _fastjson_pretty(route) + "\n"

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


def _fastjson_pretty(value: Any, indent: str = "") -> str:
    """fastjson's ``PrettyFormat``: tabs, no blank behind a colon, integer keys without quotes, None left out."""
    if hasattr(value, "__struct_fields__"):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        value = {name: item for name, field in names if (item := getattr(value, field)) is not None}
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if not value:
        return opening + closing
    inner = indent + "\t"
    if isinstance(value, dict):
        items = [
            f"{key if isinstance(key, int) else json.dumps(key)}:{_fastjson_pretty(value[key], inner)}" for key in value
        ]
    else:
        items = [_fastjson_pretty(item, inner) for item in value]
    return opening + "\n" + inner + f",\n{inner}".join(items) + f"\n{indent}" + closing


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


# --- topicStatus -----------------------------------------------------------------------------------------------------


class QueueRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    min_offset: Annotated[int, doc("queue offset of the oldest message")]
    max_offset: Annotated[int, doc("queue offset that the next message will get")]
    message_count: Annotated[int, doc("messages in the queue")]
    last_updated_ms: Annotated[int | None, TIME, doc("when the newest message was stored; unknown where there is none")]


class TopicTotals(Row, frozen=True):
    message_count: Annotated[int, doc("messages in all queues")]
    put_tps: Annotated[float, doc("messages stored a second, all brokers together")]


class TopicStatus(Result, frozen=True):
    """Where a topic's queues begin and end."""

    row_type: ClassVar[type[Row]] = QueueRow
    offsets: dict[MessageQueue, TopicOffset]
    put_tps: float

    def rows(self) -> Sequence[QueueRow]:
        return [
            QueueRow(
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                min_offset=ends.min_offset,
                max_offset=ends.max_offset,
                message_count=ends.max_offset - ends.min_offset,
                last_updated_ms=ends.last_update_timestamp or None,
            )
            for queue, ends in sorted(self.offsets.items())
        ]

    def summary(self) -> TopicTotals:
        return TopicTotals(message_count=sum(row.message_count for row in self.rows()), put_tps=self.put_tps)

    def mqadmin_text(self) -> str:
        from rmqadmin.times import mqadmin_time

        text = f"{'#Broker Name':32}  {'#QID':4}  {'#Min Offset':20}  {'#Max Offset':20}    #Last Updated\n"
        for row in self.rows():
            moment = mqadmin_time(row.last_updated_ms, milliseconds=True) if row.last_updated_ms else ""
            name = cut(row.broker_name, BROKER_NAME_WIDTH)
            text += f"{name:32}  {row.queue_id:<4}  {row.min_offset:<20}  {row.max_offset:<20}    {moment}\n"
        return text + "\nTopic Put TPS: 0.0\n"  # mqadmin never adds the brokers' rates up


def topic_status(
    call: Call,
    topic: Topic,
    cluster: LmqParent = None,
) -> TopicStatus:
    """One row a queue.

    Examples:
      rmqadmin topicStatus -t OrderTopic
      rmqadmin topicStatus -t OrderTopic --watch 5
    """
    topic = topic.strip()
    route = call.admin.topic_route((cluster or topic).strip())
    addrs = targets.selected_addrs(route.broker_datas)
    found = targets.ask_each(lambda addr: call.admin.topic_stats(addr, topic), addrs)
    offsets = {queue: ends for stats in found for queue, ends in stats.offset_table.items()}
    if not offsets:
        raise NotFoundError("Not found the topic stats info", hint="No broker of the route has a queue of the topic.")
    return TopicStatus(offsets, round(sum(stats.topic_put_tps for stats in found), 2))


# --- topicClusterList ------------------------------------------------------------------------------------------------


class TopicCluster(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name", key=True)]
    broker_names: Annotated[list[str], doc("the topic's brokers in it")]


class TopicClusters(Result, frozen=True):
    """Clusters of a topic."""

    row_type: ClassVar[type[Row]] = TopicCluster
    found: list[TopicCluster]

    def rows(self) -> Sequence[TopicCluster]:
        return self.found

    def mqadmin_text(self) -> str:
        return "".join(f"{row.cluster}\n" for row in self.found)


def topic_cluster_list(call: Call, topic: Topic) -> TopicClusters:
    """The clusters of all brokers of the topic; mqadmin looks at the first broker only.

    Examples:
      rmqadmin topicClusterList -t OrderTopic
      rmqadmin -o json topicClusterList -t OrderTopic
    """
    brokers = call.admin.topic_route(topic.strip()).broker_datas
    names = {broker.broker_name for broker in brokers}
    table = call.admin.cluster_info().cluster_addr_table
    rows = [
        TopicCluster(cluster=cluster, broker_names=sorted(names & set(table[cluster]))) for cluster in sorted(table)
    ]
    return TopicClusters([row for row in rows if row.broker_names])
