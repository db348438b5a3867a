"""What a consumer asks for: its subscriptions, as heartbeats have them and checked by a broker beforehand, and whether
a message goes to one member of a group or to every member (``MessageModel``, 5.5.0)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from enum import Enum

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.groups import CheckClientRequest, SubscriptionData
from rmqproto.codes import RequestCode
from rmqproto.errors import UsageError
from rmqproto.filters.subscription import ALL, EVERYTHING, SQL92, TAG, Sql92, TagFilter, parse_tags, subscription_data
from rmqproto.names import retry_topic
from rmqproto.wire import fastjson


def subscription_of(topic: str, expression: str | Sql92) -> SubscriptionData:
    """The subscription to a topic. UsageError for a tag expression that names no tag."""
    version = time.time_ns() // 1_000_000
    if isinstance(expression, Sql92):
        return subscription_data(topic, expression.text, version=version, expression_type=SQL92)
    if parse_tags(expression).tags == frozenset():
        raise UsageError(f"{expression!r} names no tag")
    return subscription_data(topic, expression, version=version)


def subscriptions_of(group: str, wanted: Mapping[str, str | Sql92], *, with_retry: bool) -> dict[str, SubscriptionData]:
    """Subscriptions by topic. ``with_retry`` adds the group's retry topic, over which failed messages come again.
    UsageError if ``wanted`` is empty."""
    if not wanted:
        raise UsageError("a consumer needs at least one topic")
    found = {topic: subscription_of(topic, expression) for topic, expression in wanted.items()}
    retry = retry_topic(group)
    return {**found, retry: subscription_of(retry, ALL)} if with_retry else found


def tag_filter(subscription: SubscriptionData) -> TagFilter:
    """A filter by whole tags, because brokers only compare hashes. It matches everything if brokers filter by
    properties."""
    return parse_tags(subscription.sub_string) if subscription.expression_type == TAG else EVERYTHING


async def check_expressions(client: ClientInstance, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
    """Checks expressions at one broker, because brokers ignore an SQL92 expression that does not parse, and deliver
    everything. RefusedError if it does not accept one."""
    for subscription in subscriptions:
        addresses = client.routes.broker_addresses()
        if subscription.expression_type == TAG or not addresses:
            continue
        request = CheckClientRequest(client_id=client.client_id, group=group, subscription_data=subscription)
        code = RequestCode.CHECK_CLIENT_CONFIG
        await client.channels.request(min(addresses), code, body=fastjson.dumps(request))


BROADCAST_INSTANCE = "DEFAULT"
"""The instance name of a client in a broadcasting group, as in Apache's clients. It stays the same after a restart,
because the file with its offsets is named after its client id."""


class MessageModel(Enum):
    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"

    @classmethod
    def of(cls, value: MessageModel | str) -> MessageModel:
        """The member with that value. UsageError for any other text."""
        try:
            return cls(value)
        except ValueError:
            raise UsageError(f"message_model cannot be {value!r}", hint="Use CLUSTERING or BROADCASTING.") from None

    def instance_name(self, wanted: str | None) -> str | None:
        """The second half of the client id; None for a unique one."""
        return wanted or (BROADCAST_INSTANCE if self is MessageModel.BROADCASTING else None)
