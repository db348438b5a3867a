"""How expressions become filters, by expressionType (``ExpressionType``, ``FilterFactory``, 5.5.0), and the filters
that groups have asked for with expressions other than tags, by topic and group (``ConsumerFilterManager``). A group's
heartbeats bring them, and they go with its last member, so none is kept in a file: ``config/consumerFilter.json`` of an
Apache store stays as it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rmqproto.bodies.base import Body
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.errors import RocketMQError
from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqproto.filters.subscription import SQL92, TAG, parse_tags
from rmqproto.java.java_numbers import Int64

log = logging.getLogger(__name__)

FILTERS_MAX = 10_000
FILTERS_MAX_CHARS = 4 << 20
"""Characters of the expressions of all filters. Compiled, they take some twenty times as much. This limit is ours, and
so is the number of filters."""


def is_tags(kind: str | None) -> bool:
    """No type means tags."""
    return kind in (TAG, None, "")


def compile_tags(expression: str) -> MessageFilter:
    """Never fails."""
    wanted = parse_tags(expression)
    codes = wanted.codes
    return EVERYTHING if wanted.tags is None else MessageFilter(accepts_code=codes.__contains__, codes=codes)


def _compile_sql92(expression: str) -> MessageFilter:
    # Imported late: it takes 10 ms of a start, and few brokers need SQL92.
    from rmqproto.filters.sql92 import Sql92Error, compile_sql92_for_values

    try:
        accepts = compile_sql92_for_values(expression)
        return MessageFilter(accepts_properties=accepts.of_record, accepts_values=accepts)
    except Sql92Error as error:
        raise BadExpression(error.remark) from None


KINDS: dict[str, Callable[[str], MessageFilter]] = {TAG: compile_tags, SQL92: _compile_sql92}

_UNKNOWN_KIND = (
    'Cannot invoke "org.apache.rocketmq.filter.FilterSpi.compile(String)" because the return value of '
    '"org.apache.rocketmq.filter.FilterFactory.get(String)" is null'
)
"""Java's message for a missing filter."""


class BadExpression(RocketMQError):
    """An expression does not compile, or its type is not served. The message is Apache's remark."""


def compile_filter(kind: str | None, expression: str) -> MessageFilter:
    """Raises BadExpression."""
    compile_kind = KINDS.get(kind or TAG)
    if compile_kind is None:
        raise BadExpression(_UNKNOWN_KIND)
    return compile_kind(expression)


class ConsumerFilterData(Body, kw_only=True):
    """``client_version`` is the subscription's ``sub_version``. Times in ms. ``queryConsumeQueue`` shows it."""

    bloom_filter_data: None = None
    born_time: Int64
    client_version: Int64
    consumer_group: str
    dead: bool = False
    dead_time: Int64 = 0
    expression: str
    expression_type: str
    topic: str


@dataclass(frozen=True, slots=True)
class ConsumerFilter:
    """One group's filter of one topic."""

    data: ConsumerFilterData
    wanted: MessageFilter


class ConsumerFilters:
    def __init__(self, clock_ms: Callable[[], int]):
        self._clock_ms = clock_ms
        self._by_group: dict[str, dict[str, ConsumerFilter]] = {}
        self._count = 0
        self._char_count = 0

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        return self._by_group.get(group, {}).get(topic)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Takes the subscriptions of a group from a heartbeat. An expression that does not compile gets no filter, and
        the group's pulls are told so."""
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not is_tags(subscription.expression_type) and subscription.sub_string:
                self._register(group, subscription)
        for topic, one in list(self._by_group.get(group, {}).items()):
            if topic not in topics:
                self._remove(one)

    def unregister(self, group: str) -> None:
        """The group has lost its last member."""
        for one in list(self._by_group.get(group, {}).values()):
            self._remove(one)

    def _register(self, group: str, subscription: SubscriptionData) -> None:
        old = self.get(subscription.topic, group)
        if old is None:
            self._compile(group, subscription)
            return
        data, version = old.data, subscription.sub_version
        if version < data.client_version:
            return
        is_same = (data.expression, data.expression_type) == (subscription.sub_string, subscription.expression_type)
        if version == data.client_version or is_same:
            data.client_version = version
            return
        self._remove(old)
        self._compile(group, subscription)

    def _compile(self, group: str, subscription: SubscriptionData) -> None:
        topic, expression, kind = subscription.topic, subscription.sub_string, subscription.expression_type
        try:
            wanted = compile_filter(kind, expression)
        except BadExpression as error:
            log.info("event=filter-refused group=%s topic=%s reason=%r", group, topic, str(error))
            return
        if self._count >= FILTERS_MAX or self._char_count + len(expression) > FILTERS_MAX_CHARS:
            log.warning("event=filter-refused group=%s topic=%s reason='no room for one more'", group, topic)
            return
        data = ConsumerFilterData(
            born_time=self._clock_ms(),
            client_version=subscription.sub_version,
            consumer_group=group,
            expression=expression,
            expression_type=str(kind),
            topic=topic,
        )
        self._by_group.setdefault(group, {})[topic] = ConsumerFilter(data, wanted)
        self._count += 1
        self._char_count += len(expression)

    def _remove(self, one: ConsumerFilter) -> None:
        filters = self._by_group[one.data.consumer_group]
        del filters[one.data.topic]
        if not filters:
            del self._by_group[one.data.consumer_group]
        self._count -= 1
        self._char_count -= len(one.data.expression)
