"""Lite topics, as brokers and parent topics count them."""

from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, EveryMaster, ParentTopic
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core import targets
from rmqadmin.core.mqadmin_text import cut, java_bool, time_or
from rmqadmin.core.results import TIME, Row, doc
from rmqadmin.core.servers.broker_answers import BrokerRows, ask_addrs, ask_brokers
from rmqproto.bodies.lite import BrokerLiteInfo, LiteTopicInfo, ParentTopicInfo
from rmqproto.names import lite_queue_name

_NAME_WIDTH = 40
"""The most characters that mqadmin shows of a broker's name."""

_BROKER_LINE = "{:<30} {:<17} {:<10} {:<14} {:<20} {:<17} {:<15} {:<18} {:<15}\n"


class BrokerLiteRow(Row, frozen=True):
    broker_addr: Annotated[str, doc("address of the broker", key=True)]
    store_type: Annotated[str | None, doc("how it keeps consume queues: default (files), RocksDB")] = None
    light_queue_count: Annotated[int | None, doc("light queues that it has")] = None
    light_queue_count_max: Annotated[int | None, doc("light queues that it may have")] = None
    subscription_count: Annotated[int | None, doc("lite topics subscribed to, of all clients together")] = None
    order_info_count: Annotated[int | None, doc("queues that are popped in order now", wide=True)] = None
    consume_queue_count: Annotated[int | None, doc("topics that have consume queues, light ones too", wide=True)] = None
    offset_table_count: Annotated[int | None, doc("topics and groups with committed offsets", wide=True)] = None
    waiting_client_count: Annotated[int | None, doc("clients with lite topics to be offered", wide=True)] = None
    expiry_by_topic: Annotated[
        dict[str, int] | None, doc("parent topics; minutes after which their lite topics go, -1: never", wide=True)
    ] = None
    groups_by_topic: Annotated[dict[str, list[str]] | None, doc("groups bound to each parent topic", wide=True)] = None
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)] = None


class BrokerLiteInfos(BrokerRows[BrokerLiteRow], frozen=True):
    """Light queues and lite subscriptions, one row a broker."""

    show_detail: bool

    def mqadmin_text(self) -> str:
        heads = ("#Broker", "#Store Type", "#Max LMQ", "#Current LMQ", "#SubscriptionCount", "#OrderInfoCount")
        return _BROKER_LINE.format(*heads, "#CQTableSize", "#OffsetTableSize", "#eventMapSize") + self.mqadmin_lines()

    def line(self, name: str, info: BrokerLiteInfo) -> str:
        line = _BROKER_LINE.format(
            name, info.store_type, info.max_lmq_num, info.current_lmq_num, info.lite_subscription_count,
            info.order_info_count, info.cq_table_size, info.offset_table_size, info.event_map_size,
        )  # fmt: skip
        if not self.show_detail:
            return line
        return f"{line}Topic Meta: {_json(info.topic_meta)}\nGroup Meta: {_json(info.group_meta)}\n\n"

    def row(self, name: str, info: BrokerLiteInfo) -> BrokerLiteRow:
        return BrokerLiteRow(
            broker_addr=name,
            store_type=info.store_type,
            light_queue_count=info.current_lmq_num,
            light_queue_count_max=info.max_lmq_num,
            subscription_count=info.lite_subscription_count,
            order_info_count=info.order_info_count,
            consume_queue_count=info.cq_table_size,
            offset_table_count=info.offset_table_size,
            waiting_client_count=info.event_map_size,
            expiry_by_topic=info.topic_meta,
            groups_by_topic=info.group_meta,
        )


def _json(meta: dict[str, Any]) -> str:
    return msgspec.json.encode({name: meta[name] for name in sorted(meta) if meta[name] is not None}).decode()


def get_broker_lite_info(
    call: Call,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryMaster = None,
    show_detail: Annotated[
        bool, option("-d", "--showDetail", "For --output mqadmin: parent topics and groups too.")
    ] = False,
) -> BrokerLiteInfos:
    """One row a broker. --output wide shows parent topics and their groups. A broker that does not answer has a row
    that says why; the exit status is then 1.

      rmqadmin getBrokerLiteInfo -b 127.0.0.1:10911
      rmqadmin getBrokerLiteInfo -c DefaultCluster --output wide
    """
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    return BrokerLiteInfos(ask_addrs(addrs, call.admin.broker_lite_info), show_detail)


_PARENT_LINE = "{:<50} {:<8} {:<14} {:<14} {:<100} \n"


class ParentTopicRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    lite_topic_count: Annotated[int | None, doc("lite topics of this topic on the broker", vital=True)] = None
    light_queue_count: Annotated[int | None, doc("light queues of the broker, of all topics")] = None
    expiry_minutes: Annotated[int | None, doc("a lite topic goes so long after its last message; -1: never")] = None
    groups: Annotated[list[str] | None, doc("groups bound to the topic")] = None
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)] = None


class ParentTopicInfos(BrokerRows[ParentTopicRow], frozen=True):
    """A topic's lite topics, one row a broker."""

    parent_topic: str

    def mqadmin_text(self) -> str:
        head = _PARENT_LINE.format("#Broker Name", "#TTL", "#Lite Count", "#LMQ NUM", "#GROUPS")
        return f"Parent Topic Info: [{self.parent_topic}]\n{head}{self.mqadmin_lines()}"

    def line(self, name: str, info: ParentTopicInfo) -> str:
        groups = "null" if info.groups is None else f"[{', '.join(sorted(info.groups))}]"
        return _PARENT_LINE.format(cut(name, _NAME_WIDTH), info.ttl, info.lite_topic_count, info.lmq_num, groups)

    def row(self, name: str, info: ParentTopicInfo) -> ParentTopicRow:
        return ParentTopicRow(
            broker_name=name,
            lite_topic_count=info.lite_topic_count,
            light_queue_count=info.lmq_num,
            expiry_minutes=info.ttl,
            groups=info.groups or [],
        )


def get_parent_topic_info(call: Call, parent_topic: ParentTopic) -> ParentTopicInfos:
    """One row a broker of the topic. One that refuses has a row that says why; the exit status is then 1.

    rmqadmin getParentTopicInfo -p SessionTopic
    rmqadmin -o json getParentTopicInfo -p SessionTopic
    """
    brokers = call.admin.topic_route(parent_topic).broker_datas
    return ParentTopicInfos(
        ask_brokers(brokers, lambda addr: call.admin.parent_topic_info(addr, parent_topic)), parent_topic
    )


_TOPIC_LINE = "{:<50} {:<14} {:<14} {:<30} {:<12} {:<18} \n"


class LiteTopicRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    min_offset: Annotated[int | None, doc("queue offset of the oldest message")] = None
    max_offset: Annotated[int | None, doc("queue offset that the next message will get")] = None
    last_updated_ms: Annotated[int | None, TIME, doc("when the newest message was stored")] = None
    is_kept_here: Annotated[bool | None, doc("whether the lite topic belongs to this broker")] = None
    subscribers: Annotated[list[str] | None, doc("clients and groups that subscribe to it, as client@group")] = None
    error: Annotated[str | None, doc("why the broker did not answer", sparse=True)] = None


class LiteTopicInfos(BrokerRows[LiteTopicRow], frozen=True):
    """A lite topic, one row a broker."""

    parent_topic: str
    lite_topic: str
    show_client_id: bool

    def mqadmin_text(self) -> str:
        queue = lite_queue_name(self.parent_topic, self.lite_topic)
        heads = ("#Broker Name", "#MinOffset", "#MaxOffset", "#LastUpdate", "#Sharding", "#SubClientCount")
        title = f"Lite Topic Info: [{self.parent_topic}] [{self.lite_topic}] [{queue}]\n"
        return title + _TOPIC_LINE.format(*heads) + self.mqadmin_lines()

    def line(self, name: str, info: LiteTopicInfo) -> str:
        ends, clients, is_here = info.topic_offset, _subscribers(info), java_bool(info.sharding_to_broker)
        last = time_or("-", ends.last_update_timestamp)
        name = cut(name, _NAME_WIDTH)
        line = _TOPIC_LINE.format(name, ends.min_offset, ends.max_offset, last, is_here, len(clients))
        return line + (f"[{', '.join(clients)}]\n" if self.show_client_id else "")

    def row(self, name: str, info: LiteTopicInfo) -> LiteTopicRow:
        return LiteTopicRow(
            broker_name=name,
            min_offset=info.topic_offset.min_offset,
            max_offset=info.topic_offset.max_offset,
            last_updated_ms=info.topic_offset.last_update_timestamp or None,
            is_kept_here=info.sharding_to_broker,
            subscribers=_subscribers(info),
        )


def _subscribers(info: LiteTopicInfo) -> list[str]:
    return [f"{one.client_id}@{one.group}" for one in info.subscriber or []]


def get_lite_topic_info(
    call: Call,
    parent_topic: ParentTopic,
    lite_topic: Annotated[str, Value.NAME, option("-l", "--liteTopic", "Name of the lite topic.")],
    show_client_id: Annotated[bool, option("-s", "--showClientId", "For --output mqadmin: name the clients.")] = False,
) -> LiteTopicInfos:
    """One row a broker of the parent topic. A lite topic without messages has the offsets 0.

    rmqadmin getLiteTopicInfo -p SessionTopic -l session-1
    rmqadmin -o json getLiteTopicInfo -p SessionTopic -l session-1
    """
    name = lite_topic.strip()
    brokers = call.admin.topic_route(parent_topic).broker_datas
    found = ask_brokers(brokers, lambda addr: call.admin.lite_topic_info(addr, parent_topic, name))
    return LiteTopicInfos(found, parent_topic, name, show_client_id)
