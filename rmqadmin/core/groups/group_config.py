"""A consumer group's configuration as text and as fields, by Apache's names."""

from typing import Any

import msgspec

from rmqadmin.core.mqadmin_text import java_map, java_text
from rmqproto.bodies.groups import SubscriptionGroupConfig


def group_fields(config: SubscriptionGroupConfig) -> dict[str, Any]:
    """The fields that describe a change of a group: its settings and attributes."""
    names = [name for name in config.__struct_fields__ if name not in ("group_name", "attributes")]
    return {**{name: msgspec.to_builtins(getattr(config, name)) for name in names}, **config.attributes}


def group_config_text(config: SubscriptionGroupConfig) -> str:
    """``SubscriptionGroupConfig.toString``."""
    fields = group_config_fields(config)
    return "SubscriptionGroupConfig" + java_map({name: java_text(value) for name, value in fields.items()})


def group_config_fields(config: SubscriptionGroupConfig) -> dict[str, Any]:
    """A group's configuration by Java's names, in Java's order. Values that are not plain are written as Java writes
    them."""
    policy = config.group_retry_policy
    return {
        "groupName": config.group_name,
        "consumeEnable": config.consume_enable,
        "consumeFromMinEnable": config.consume_from_min_enable,
        "consumeBroadcastEnable": config.consume_broadcast_enable,
        "consumeMessageOrderly": config.consume_message_orderly,
        "retryQueueNums": config.retry_queue_nums,
        "retryMaxTimes": config.retry_max_times,
        "groupRetryPolicy": "GroupRetryPolicy" + java_map({
            "type": policy.type,
            "exponentialRetryPolicy": _policy_text("ExponentialRetryPolicy", policy.exponential_retry_policy),
            "customizedRetryPolicy": _policy_text("CustomizedRetryPolicy", policy.customized_retry_policy),
        }),
        "brokerId": config.broker_id,
        "whichBrokerWhenConsumeSlowly": config.which_broker_when_consume_slowly,
        "notifyConsumerIdsChangedEnable": config.notify_consumer_ids_changed_enable,
        "groupSysFlag": config.group_sys_flag,
        "consumeTimeoutMinute": config.consume_timeout_minute,
        "subscriptionDataSet": config.subscription_data_set,
        "attributes": java_map(config.attributes),
    }  # fmt: skip


def _policy_text(name: str, policy: dict[str, Any] | None) -> str | None:
    return None if policy is None else name + java_map(policy)
