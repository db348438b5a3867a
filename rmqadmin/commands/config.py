"""Reading configurations: of brokers, of name servers, and of a consumer group on each broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec

from rmqadmin import targets
from rmqadmin.call import Call
from rmqadmin.commands.group_changes import group_config_fields
from rmqadmin.mqadmin_text import java_text, properties_order
from rmqadmin.options import BrokerAddr, ClusterName, GroupName
from rmqadmin.results import Result, Row, doc
from rmqproto.bodies import BrokerData, SubscriptionGroupConfig
from rmqproto.errors import NotFoundError, RocketMQError

_KEY_WIDTH, _GROUP_KEY_WIDTH = 50, 40


class ConfigRow(Row, frozen=True):
    server_addr: Annotated[str, doc("the server's address", wide=True, key=True)]
    key: Annotated[str, doc("name of the property", key=True)]
    value: Annotated[str, doc("its value, as text")]


class Listing(msgspec.Struct, frozen=True):
    """One server's properties in the order in which it listed them. ``heading`` is mqadmin's line above them."""

    server_addr: str
    heading: str
    values: Mapping[str, str]


class Configs(Result, frozen=True):
    """What servers are configured to do, property by property."""

    row_type: ClassVar[type[Row]] = ConfigRow
    listings: list[Listing]
    errors: list[str] = []
    mqadmin_end: str = ""

    def rows(self) -> Sequence[ConfigRow]:
        return [
            ConfigRow(server_addr=listing.server_addr, key=key, value=listing.values[key])
            for listing in self.listings
            for key in sorted(listing.values)
        ]

    def mqadmin_text(self) -> str:
        return "".join(
            listing.heading + _lines(listing.values, properties_order(listing.values), _KEY_WIDTH) + self.mqadmin_end
            for listing in self.listings
        )

    def problem(self) -> str | None:
        return "; ".join(self.errors) or None


def _lines(values: Mapping[str, Any], order: Sequence[str], width: int) -> str:
    return "".join(f"{key:{width}}=  {values[key]}\n" for key in order)


def get_broker_config(call: Call, broker_addr: BrokerAddr = None, cluster_name: ClusterName = None) -> Configs:
    """With -c, of every master and slave of the cluster.

    Examples:
      rmqadmin getBrokerConfig -b 127.0.0.1:10911
      rmqadmin getBrokerConfig -c DefaultCluster --output wide
    """
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    if cluster_name is None:
        wanted = [(addrs[0], f"============{addrs[0]}============\n")]
    else:
        brokers = targets.cluster(call.admin, cluster_name)
        wanted = [named for broker in brokers for named in _replica_headings(broker)]
    return _read(wanted, call.admin.broker_config, mqadmin_end="\n")


def _replica_headings(broker: BrokerData) -> list[tuple[str, str]]:
    master = broker.broker_addrs.get(0, "NO_MASTER")
    heads = [(master, f"============Master: {master}============\n")] if 0 in broker.broker_addrs else []
    return heads + [
        (addr, f"============My Master: {master}=====Slave: {addr}============\n")
        for broker_id, addr in sorted(broker.broker_addrs.items())
        if broker_id != 0
    ]


def get_namesrv_config(call: Call) -> Configs:
    """Of every name server of -n.

    Examples:
      rmqadmin getNamesrvConfig
      rmqadmin getNamesrvConfig -n '127.0.0.1:9876' --output wide
    """
    wanted = [(addr, f"============{addr}============\n") for addr in call.admin.namesrv_addrs]
    return _read(wanted, call.admin.namesrv_config)


def _read(wanted: Sequence[tuple[str, str]], ask: Any, mqadmin_end: str = "") -> Configs:
    """Each server's properties. One that fails is told of where others answer; the first error where none does."""

    def ask_one(named: tuple[str, str]) -> Listing | RocketMQError:
        try:
            return Listing(*named, ask(named[0]))
        except RocketMQError as error:
            return error

    answers = targets.ask_each(ask_one, wanted)
    failed = [answer for answer in answers if isinstance(answer, RocketMQError)]
    found = [answer for answer in answers if isinstance(answer, Listing)]
    if failed and not found:
        raise failed[0]
    return Configs(found, [str(error) for error in failed], mqadmin_end)


# --- getConsumerConfig -----------------------------------------------------------------------------------------------


class GroupConfigRow(Row, frozen=True):
    cluster: Annotated[str | None, doc("cluster name", wide=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    consume_enable: Annotated[bool, doc("whether it may consume")]
    consume_from_min_enable: Annotated[bool, doc("whether it may begin at the first message")]
    consume_broadcast_enable: Annotated[bool, doc("whether it may broadcast")]
    consume_message_orderly: Annotated[bool, doc("whether POP delivers in order")]
    retry_queue_nums: Annotated[int, doc("queues of its retry topic")]
    retry_max_times: Annotated[int, doc("deliveries before the dead-letter queue")]
    retry_policy: Annotated[dict[str, Any], doc("how long to wait between deliveries", wide=True)]
    broker_id: Annotated[int, doc("broker id to consume from", wide=True)]
    slow_broker_id: Annotated[int, doc("broker id to consume from when far behind", wide=True)]
    notify_consumer_ids_changed_enable: Annotated[bool, doc("whether clients hear of each other's coming", wide=True)]
    group_sys_flag: Annotated[int, doc("bits: unit", wide=True)]
    consume_timeout_minute: Annotated[int, doc("minutes that one message may take", wide=True)]
    subscriptions: Annotated[list[Any] | None, doc("topics that it is bound to", wide=True)]
    attributes: Annotated[dict[str, str], doc("attributes", wide=True)]


class GroupConfigs(Result, frozen=True):
    """A group's configuration, one row a broker that knows it."""

    row_type: ClassVar[type[Row]] = GroupConfigRow
    found: list[tuple[BrokerData, SubscriptionGroupConfig]]

    def rows(self) -> Sequence[GroupConfigRow]:
        return [
            GroupConfigRow(
                cluster=broker.cluster,
                broker_name=broker.broker_name,
                consume_enable=config.consume_enable,
                consume_from_min_enable=config.consume_from_min_enable,
                consume_broadcast_enable=config.consume_broadcast_enable,
                consume_message_orderly=config.consume_message_orderly,
                retry_queue_nums=config.retry_queue_nums,
                retry_max_times=config.retry_max_times,
                retry_policy=msgspec.to_builtins(config.group_retry_policy),
                broker_id=config.broker_id,
                slow_broker_id=config.which_broker_when_consume_slowly,
                notify_consumer_ids_changed_enable=config.notify_consumer_ids_changed_enable,
                group_sys_flag=config.group_sys_flag,
                consume_timeout_minute=config.consume_timeout_minute,
                subscriptions=config.subscription_data_set,
                attributes=config.attributes,
            )
            for broker, config in self.found
        ]

    def mqadmin_text(self) -> str:
        text = ""
        for broker, config in self.found:
            fields = {
                name: "" if value is None else java_text(value) for name, value in group_config_fields(config).items()
            }
            line = "=" * 29
            text += f"{line}{java_text(broker.cluster)}:{broker.broker_name}{line}\n"
            text += _lines(fields, list(fields), _GROUP_KEY_WIDTH)
        return text


def get_consumer_config(
    call: Call,
    group_name: GroupName,
) -> GroupConfigs:
    """Every broker that the name server knows is asked.

    Examples:
      rmqadmin getConsumerConfig -g OrderGroup
      rmqadmin -o json getConsumerConfig -g OrderGroup
    """
    group = group_name.strip()
    brokers = [broker for broker in targets.all_brokers(call.admin.cluster_info()) if broker.selected_addr()]

    def ask(broker: BrokerData) -> SubscriptionGroupConfig | None:
        return call.admin.all_groups(broker.selected_addr() or "").subscription_group_table.get(group)

    answers = zip(brokers, targets.ask_each(ask, brokers), strict=True)
    found = [(broker, config) for broker, config in answers if config is not None]
    if not found:
        raise NotFoundError(f"no broker has a group {group}", hint="`rmqadmin consumerProgress` lists the groups.")
    return GroupConfigs(found)
