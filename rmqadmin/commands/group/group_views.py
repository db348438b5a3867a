"""What one group is: everything in one view, and how it is configured on every broker."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import GroupName, GroupNames, topic_names
from rmqadmin.core import targets
from rmqadmin.core.groups.described_groups import DescribedGroups, describe_group
from rmqadmin.core.mqadmin_text import java_text
from rmqadmin.core.results import ResultOf, Row, doc, row_of
from rmqadmin.core.servers.server_configs import property_lines
from rmqadmin.core.topic_and_group_configs import group_config_fields
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import NotFoundError


def group_describe(call: Call, groups: GroupNames) -> DescribedGroups:
    """Everything about a group in one view. `group lag` shows its queues one by one, and what hinders it.

    rmqadmin group describe OrderGroup
    rmqadmin group describe OrderGroup --output json
    """
    return DescribedGroups([describe_group(call.admin, group, call.answers) for group in topic_names(groups)])


_KEY_WIDTH = 40


class GroupConfigRow(Row, frozen=True):
    cluster: Annotated[str | None, doc("cluster name", wide=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    consume_enable: Annotated[bool, doc("whether it may consume")]
    consume_from_min_enable: Annotated[bool, doc("whether it may begin at the first message")]
    consume_broadcast_enable: Annotated[bool, doc("whether it may broadcast")]
    consume_message_orderly: Annotated[bool, doc("whether POP delivers in order")]
    retry_queue_nums: Annotated[int, doc("queues of its retry topic", minor=True)]
    retry_max_times: Annotated[int, doc("deliveries before the dead-letter queue")]
    retry_policy: Annotated[dict[str, Any], doc("how long to wait between deliveries", wide=True)]
    broker_id: Annotated[int, doc("broker id to consume from", wide=True)]
    slow_broker_id: Annotated[int, doc("broker id to consume from when far behind", wide=True)]
    notify_consumer_ids_changed_enable: Annotated[
        bool, doc("whether clients are told when others come or go", wide=True)
    ]
    group_sys_flag: Annotated[int, doc("bits: unit", wide=True)]
    consume_timeout_minute: Annotated[int, doc("minutes that one message may take", wide=True)]
    subscriptions: Annotated[list[Any] | None, doc("topics that it is bound to", wide=True)]
    attributes: Annotated[dict[str, str], doc("attributes", wide=True)]


class GroupConfigs(ResultOf[GroupConfigRow], frozen=True):
    """A group's configuration, one row a broker that knows it."""

    found: list[tuple[BrokerData, SubscriptionGroupConfig]]

    def rows(self) -> Sequence[GroupConfigRow]:
        return [
            row_of(
                GroupConfigRow,
                config,
                cluster=broker.cluster,
                broker_name=broker.broker_name,
                retry_policy=msgspec.to_builtins(config.group_retry_policy),
                slow_broker_id=config.which_broker_when_consume_slowly,
                subscriptions=config.subscription_data_set,
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
            text += property_lines(fields, list(fields), _KEY_WIDTH)
        return text


def get_consumer_config(
    call: Call,
    group_name: GroupName,
) -> GroupConfigs:
    """Asks every broker that the name server knows.

    rmqadmin getConsumerConfig -g OrderGroup
    rmqadmin -o json getConsumerConfig -g OrderGroup
    """
    brokers = targets.by_selected_addr(targets.all_brokers(call.admin.cluster_info()))

    def ask(addr: str) -> SubscriptionGroupConfig | None:
        return call.admin.all_groups(addr).subscription_group_table.get(group_name)

    answers = call.answers.of(ask, brokers).items()
    found = [(brokers[addr], config) for addr, config in answers if config is not None]
    if not found:
        raise NotFoundError(f"no broker has a group {group_name}", hint="`rmqadmin consumerProgress` lists the groups.")
    return GroupConfigs(found)
