"""What a consumer wants: as heartbeats say it, and as a broker checks it beforehand."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.groups import CheckClientRequest, SubscriptionData
from rmqproto.codes import RequestCode
from rmqproto.errors import UsageError
from rmqproto.filters.subscription import ALL, EVERYTHING, SQL92, TAG, Sql92, TagFilter, parse_tags, subscription_data
from rmqproto.names import retry_topic
from rmqproto.wire import fastjson


def subscription_of(topic: str, expression: str | Sql92) -> SubscriptionData:
    """UsageError for a tag expression that names no tag."""
    version = time.time_ns() // 1_000_000
    if isinstance(expression, Sql92):
        return subscription_data(topic, expression.text, version=version, expression_type=SQL92)
    if parse_tags(expression).tags == frozenset():
        raise UsageError(f"{expression!r} names no tag")
    return subscription_data(topic, expression, version=version)


def subscriptions_of(group: str, wanted: Mapping[str, str | Sql92], *, with_retry: bool) -> dict[str, SubscriptionData]:
    """By topic; ``with_retry``: and the group's retry topic, over which failed messages come again. UsageError for
    nothing at all."""
    if not wanted:
        raise UsageError("a consumer needs at least one topic")
    found = {topic: subscription_of(topic, expression) for topic, expression in wanted.items()}
    retry = retry_topic(group)
    return {**found, retry: subscription_of(retry, ALL)} if with_retry else found


def tag_filter(subscription: SubscriptionData) -> TagFilter:
    """By whole tags, of which brokers compare the hashes alone; everything where brokers filter by properties."""
    return parse_tags(subscription.sub_string) if subscription.expression_type == TAG else EVERYTHING


async def check_expressions(client: ClientInstance, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
    """Brokers ignore an SQL92 expression that does not parse, and deliver everything: so one is asked first.
    RefusedError if it does not take one."""
    for subscription in subscriptions:
        addresses = client.routes.broker_addresses()
        if subscription.expression_type == TAG or not addresses:
            continue
        request = CheckClientRequest(client_id=client.client_id, group=group, subscription_data=subscription)
        code = RequestCode.CHECK_CLIENT_CONFIG
        await client.channels.request(min(addresses), code, body=fastjson.dumps(request))
