"""What a request needs of permissions, in kinds that many rows of ``request_rules.py`` share
(``DefaultAuthorizationContextBuilder`` and the ``RocketMQAction`` and ``RocketMQResource`` of the request headers,
5.5.0).

A request needs pairs of a resource and actions; a pair is met if one of its actions is allowed. Each kind says where
the names come from: fields of the typed header (the one that the handler acts on), or the body. A retry topic stands
for its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rmqproto.access.resources import Action, Resource, ResourceType, group_resource, topic_resource
from rmqproto.bodies.groups import Heartbeat, LockRequest
from rmqproto.bodies.lite import LiteSubscriptionCtl
from rmqproto.bodies.popping import BatchAcks
from rmqproto.names import RETRY_PREFIX
from rmqproto.wire import fastjson
from rmqserver.remoting.answer import Request

PUB, SUB, CREATE, UPDATE, DELETE, GET = (
    Action.PUB, Action.SUB, Action.CREATE, Action.UPDATE, Action.DELETE, Action.GET,
)  # fmt: skip


class Pair(NamedTuple):
    resource: Resource
    actions: tuple[Action, ...]


Pairs = Iterator[Pair]
PairsOf = Callable[[Request[Any], str], Pairs]
"""Takes a request and the name of the broker's cluster. Raises ProtocolError for a body that cannot be read."""


# --- what names are taken from ---------------------------------------------------------------------------------------


def nothing(request: Request[Any], cluster: str) -> Pairs:
    return iter(())


def cluster_of(*actions: Action) -> PairsOf:
    def pairs(request: Request[Any], cluster: str) -> Pairs:
        yield Pair(Resource(ResourceType.CLUSTER, cluster), actions)

    return pairs


def named_cluster(field: str, *actions: Action) -> PairsOf:
    """The cluster that the request names; the broker's own if it names none."""

    def pairs(request: Request[Any], cluster: str) -> Pairs:
        yield Pair(Resource(ResourceType.CLUSTER, getattr(request.header, field, None) or cluster), actions)

    return pairs


_RESOURCES = {"topic": topic_resource, "group": group_resource}


def fields_of(*actions: Action, split: str = "", **fields: str) -> PairsOf:
    """``topic`` and ``group`` name fields of the header, in the order of judging. An absent field needs nothing.
    ``split`` separates several names in one field."""

    def pairs(request: Request[Any], cluster: str) -> Pairs:
        for kind, field in fields.items():
            text = getattr(request.header, field)
            for name in () if text is None else filter(None, text.split(split)) if split else (text,):
                yield Pair(_RESOURCES[kind](name), actions)

    return pairs


def both(one: PairsOf, other: PairsOf) -> PairsOf:
    def pairs(request: Request[Any], cluster: str) -> Pairs:
        yield from one(request, cluster)
        yield from other(request, cluster)

    return pairs


def send_pairs(request: Request[Any], cluster: str) -> Pairs:
    """A send to a retry topic needs that topic's group, whatever group the request names: a consumer whose message
    cannot be sent back sends it to the retry topic as CLIENT_INNER_PRODUCER."""
    topic = request.header.topic
    yield Pair(topic_resource(topic), (SUB,) if topic.startswith(RETRY_PREFIX) else (PUB,))


def end_transaction(request: Request[Any], cluster: str) -> Pairs:
    topic = request.header.topic
    if topic and topic.strip():
        yield Pair(Resource(ResourceType.TOPIC, topic), (PUB,))


def group_and_topic(*actions: Action) -> PairsOf:
    """With a retry topic, of any group, only the request's group is needed, as in Apache."""

    def pairs(request: Request[Any], cluster: str) -> Pairs:
        topic, group = request.header.topic or "", request.header.consumer_group or ""
        if not topic.startswith(RETRY_PREFIX):
            yield Pair(topic_resource(topic), actions)
        yield Pair(group_resource(group), actions)

    return pairs


def unregister(request: Request[Any], cluster: str) -> Pairs:
    group = request.header.consumer_group
    if group and group.strip():
        yield Pair(group_resource(group), (SUB,))


def plain_heartbeat(request: Request[Any], cluster: str) -> Pairs:
    """Unlike ``heartbeat``, includes retry topics, of any group."""
    for data in fastjson.loads_untrusted(request.body, Heartbeat).consumer_data_set:
        yield Pair(group_resource(data.group_name), (SUB,))
        for subscription in data.subscription_data_set:
            yield Pair(topic_resource(subscription.topic), (SUB,))


def heartbeat(request: Request[Any], cluster: str) -> Pairs:
    for data in fastjson.loads_untrusted(request.body, Heartbeat).consumer_data_set:
        yield Pair(group_resource(data.group_name), (SUB,))
        for subscription in data.subscription_data_set:
            if not subscription.topic.startswith(RETRY_PREFIX):
                yield Pair(topic_resource(subscription.topic), (SUB,))


def locks(request: Request[Any], cluster: str) -> Pairs:
    wanted = fastjson.loads_untrusted(request.body, LockRequest)
    yield Pair(group_resource(wanted.consumer_group), (SUB,))
    for topic in {queue.topic: None for queue in wanted.mq_set}:
        if not topic.startswith(RETRY_PREFIX):
            yield Pair(topic_resource(topic), (SUB,))


def batch_acks(request: Request[Any], cluster: str) -> Pairs:
    for ack in fastjson.loads_untrusted(request.body, BatchAcks).acks or () if request.body else ():
        yield Pair(group_resource(ack.consumer_group), (SUB,))
        yield Pair(topic_resource(ack.topic), (SUB,))


def lite_subscriptions(request: Request[Any], cluster: str) -> Pairs:
    for change in fastjson.loads_untrusted(request.body, LiteSubscriptionCtl).subscription_set or ():
        if change.group:
            yield Pair(group_resource(change.group), (SUB,))
        if change.topic:
            yield Pair(topic_resource(change.topic), (SUB,))


def route(request: Request[Any], cluster: str) -> Pairs:
    topic = request.header.topic
    yield Pair(topic_resource(topic), (SUB, GET) if topic.startswith(RETRY_PREFIX) else (PUB, SUB, GET))


def view_message_strict(request: Request[Any], cluster: str) -> Pairs:
    """Without a topic, a message of any topic can be asked for by its id, so the cluster is needed."""
    topic = request.header.topic
    yield Pair(topic_resource(topic) if topic else Resource(ResourceType.CLUSTER, cluster), (GET,))
