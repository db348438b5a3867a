"""The filters of pulls: compiled once from each group's heartbeats, and, up to a bound, from subscriptions that pulls
carry (``PullMessageProcessor``, ``ExpressionMessageFilter``, ``ExpressionForRetryMessageFilter``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.bodies.groups import SubscriptionData
from rmqproto.codes import ResponseCode
from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqproto.filters.subscription import ALL, TAG_SEPARATOR
from rmqproto.message.properties import RETRY_TOPIC, find_bytes
from rmqproto.names import RETRY_PREFIX
from rmqserver.broker.tables.consumer_filters import BadExpression, compile_filter, compile_tags, is_tags
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqserver.broker.clients.clients import ConsumerGroup
    from rmqserver.broker.tables.consumer_filters import ConsumerFilters
    from rmqserver.config.broker_config import BrokerConfig

COMPILED_MAX = 4096
"""How many expressions of pulls are remembered; with one more, all are forgotten."""

EXPRESSION_REMEMBERED_CHARS = 1024
"""A longer expression is compiled for each pull that carries it: one of 16 MiB would fit a frame."""

NOT_PARSED = "parse the consumer's subscription failed"

_RETRY_TOPIC = f"{RETRY_TOPIC}\x01".encode()


class Filters:
    def __init__(self, config: BrokerConfig, registered: ConsumerFilters):
        self._config = config
        self._registered = registered
        self._compiled: dict[tuple[str | None, str], MessageFilter] = {}

    def carried(self, kind: str | None, expression: str | None) -> MessageFilter:
        """The filter of a pull that carries its subscription. Raises Refused with 1 if the kind is not served, and with
        23 if a kind other than tags has no expression, or tags are only separators. An expression that does not compile
        accepts everything, as in Apache's broker."""
        if not is_tags(kind):
            if not expression:
                raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, NOT_PARSED)
            self.check_kind(kind)
        elif expression == ALL:
            return EVERYTHING
        key = kind, expression or ""
        found = self._compiled.get(key)
        if found is None:
            if is_tags(kind) and expression and not expression.replace(TAG_SEPARATOR, ""):
                raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, NOT_PARSED)
            try:
                found = compile_filter(*key)
            except BadExpression:
                found = EVERYTHING
            if len(key[1]) <= EXPRESSION_REMEMBERED_CHARS:
                if len(self._compiled) >= COMPILED_MAX:
                    self._compiled.clear()
                self._compiled[key] = found
        return found

    def subscribed(self, group: ConsumerGroup, subscription: SubscriptionData, version: int) -> MessageFilter:
        """The filter of a pull that relies on its group's heartbeats; ``version`` is the one that the pull knows.
        Raises Refused with 27 if the heartbeats' expression does not compile, with 28 if they are older, and with 1 if
        the kind is not served."""
        topic, kind = subscription.topic, subscription.expression_type
        if is_tags(kind):
            found = group.filters.get(topic)
            if found is None:
                found = group.filters[topic] = compile_tags(subscription.sub_string)
            return found
        registered = self._registered.get(topic, group.group)
        if registered is None:
            text = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise Refused(ResponseCode.FILTER_DATA_NOT_EXIST, text)
        if registered.data.client_version < version:
            raise Refused(ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest")
        self.check_kind(kind)
        if self._config.filter_support_retry and topic.startswith(RETRY_PREFIX):
            return self._of_retries(group.group)
        return registered.wanted

    def check_kind(self, kind: str | None) -> None:
        """Raises Refused with 1 if expressions of the kind are not served. An unknown kind passes if filters by
        property are enabled, as in Apache's broker."""
        if not is_tags(kind) and not self._config.enable_property_filter:
            text = f"The broker does not support consumer to filter message by {kind}"
            raise Refused(ResponseCode.SYSTEM_ERROR, text)

    def check_subscription(self, subscription: SubscriptionData) -> None:
        """Raises Refused if nothing can be filtered by it."""
        if not is_tags(subscription.expression_type):
            self.check_expression(subscription.expression_type, subscription.sub_string)

    def check_expression(self, kind: str | None, expression: str) -> None:
        """Raises Refused as above, and with 23 if the expression does not compile."""
        self.check_kind(kind)
        try:
            compile_filter(kind, expression)
        except BadExpression as error:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None

    def _of_retries(self, group: str) -> MessageFilter:
        """The filter of a retry topic: each message is judged by the group's subscription to its first topic."""

        def is_wanted(properties: bytes) -> bool:
            topic = find_bytes(properties, _RETRY_TOPIC).decode("utf-8", "replace")
            first = self._registered.get(topic, group)
            asks = first.wanted.accepts_properties if first is not None else None
            return asks is None or asks(properties)

        return MessageFilter(accepts_properties=is_wanted)
