"""The settings of clients: which are taken, and those that hold, with what the broker decides
(``GrpcClientSettingsManager``, 5.5.0)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rmqproto.bodies.groups import (
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    GroupRetryPolicy,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from rmqproto.filters.subscription import subscription_data
from rmqproto.java.java_numbers import INT_MAX
from rmqproto.names import LITE_TOPIC_LENGTH_MAX
from rmqserver.doors.grpc.call_checks import BODY_SIZE_MAX_BYTES, check_filter, check_group, check_topic
from rmqserver.doors.grpc.codes import CallRefused, Code
from rmqserver.doors.grpc.messages import CLASSES, ENUMS, value
from rmqserver.doors.grpc.stored import set_ms
from rmqserver.store.options import DEFAULT_DELAY_LEVELS_MS

if TYPE_CHECKING:
    from rmqserver.broker.tables.groups import GroupTable

POLL_MAX_MS = 20_000
BATCH_MAX = 32
"""Messages of one receive."""
PRODUCER_ATTEMPTS_MAX = 3
LITE_SUBSCRIPTIONS_MAX = 2000
EXPONENTIAL = {"initial": 5000, "max": 7_200_000, "multiplier": 2}
"""What a policy that grows does not say (``ExponentialRetryPolicy``): ms, ms, times."""

_NEW_GROUP = SubscriptionGroupConfig(group_name="")
"""What holds for a group that the broker does not know."""

CONSUMES = {
    value("ClientType", "PUSH_CONSUMER"): CONSUME_PASSIVELY,
    value("ClientType", "SIMPLE_CONSUMER"): CONSUME_ACTIVELY,
    value("ClientType", "LITE_PUSH_CONSUMER"): CONSUME_PASSIVELY,
    value("ClientType", "LITE_SIMPLE_CONSUMER"): CONSUME_ACTIVELY,
}
"""How a client of each type that consumes does so."""


def check_consumer(settings: Any) -> None:
    """Raises CallRefused for settings of no consumer, and for names and filters that clients may not use."""
    if settings.client_type not in CONSUMES:
        names = ENUMS["ClientType"].split()
        name = names[settings.client_type - 1] if 0 < settings.client_type <= len(names) else "UNSPECIFIED"
        raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"Client type is not consumer, type: {name}")
    check_group(settings.subscription.group.name)
    for entry in settings.subscription.subscriptions:
        check_topic(entry.topic.name)
        try:
            check_filter(entry.expression)
        except CallRefused as refusal:
            raise CallRefused(refusal.code, "expression format is not correct") from None


def attempts_max(group: SubscriptionGroupConfig | None) -> int:
    """How often a message comes to the group before it is a dead letter."""
    return (group or _NEW_GROUP).retry_max_times + 1


def merged(settings: Any, groups: GroupTable) -> Any:
    """The settings that hold."""
    merged = CLASSES["Settings"]()
    merged.CopyFrom(settings)
    merged.metric.SetInParent()
    policy = merged.backoff_policy
    policy.Clear()
    if settings.WhichOneof("pub_sub") == "publishing":
        policy.max_attempts = PRODUCER_ATTEMPTS_MAX
        _set_growth(policy.exponential_backoff, {"initial": 10, "max": 1000, "multiplier": 2})
        merged.publishing.max_body_size = BODY_SIZE_MAX_BYTES
        merged.publishing.validate_message_type = True
        return merged
    group = groups.get(settings.subscription.group.name) or _NEW_GROUP
    policy.max_attempts = attempts_max(group)
    _set_backoff(policy, group.group_retry_policy)
    subscription = merged.subscription
    subscription.fifo = group.consume_message_orderly
    subscription.receive_batch_size = BATCH_MAX
    set_ms(subscription.long_polling_timeout, POLL_MAX_MS)
    subscription.lite_subscription_quota = LITE_SUBSCRIPTIONS_MAX
    subscription.max_lite_topic_size = LITE_TOPIC_LENGTH_MAX
    return merged


def _set_backoff(backoff: Any, policy: GroupRetryPolicy) -> None:
    """When a push consumer tries a message again. A policy came as any JSON: what is no time in it does not count. One
    that says nothing has the delays of ``CustomizedRetryPolicy``, which are those of levels."""
    if policy.type == "EXPONENTIAL":
        said = {name: each for name, each in (policy.exponential_retry_policy or {}).items() if _is_ms(each)}
        _set_growth(backoff.exponential_backoff, EXPONENTIAL | said)
        return
    delays = (policy.customized_retry_policy or {}).get("next")
    delays_ms = [each for each in delays if _is_ms(each)] if isinstance(delays, list) else []
    for delay_ms in delays_ms or DEFAULT_DELAY_LEVELS_MS:
        set_ms(backoff.customized_backoff.next.add(), delay_ms)


def _set_growth(backoff: Any, growth: dict[str, int]) -> None:
    set_ms(backoff.initial, growth["initial"])
    set_ms(backoff.max, growth["max"])
    backoff.multiplier = growth["multiplier"]


def _is_ms(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= INT_MAX


def subscriptions_of(settings: Any) -> list[SubscriptionData]:
    now_ms, found = time.time_ns() // 1_000_000, []
    for entry in settings.subscription.subscriptions:
        kind, expression = check_filter(entry.expression)
        found.append(subscription_data(entry.topic.name, expression, version=now_ms, expression_type=kind))
    return found


def producer_groups(settings: Any) -> set[str]:
    return {topic.name for topic in settings.publishing.topics}


def consumer_groups(settings: Any) -> set[str]:
    return {settings.subscription.group.name} if settings.WhichOneof("pub_sub") == "subscription" else set()
