"""The filters that groups have asked for with expressions other than tags, by topic and group. Kept in
``config/consumerFilter.json`` (``ConsumerFilterManager``, ``ConsumerFilterData``, 5.5.0).

A filter whose group has left is dead. It is kept for a day, and lives again if the group comes back with the same one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from rmqproto.bodies.base import Body
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.filters.message_filter import EVERYTHING, MessageFilter
from rmqproto.java.java_numbers import Int32, Int64
from rmqserver.broker.consuming.kinds import BadExpression, compile_filter, is_tags
from rmqserver.broker.tables.bloom import Bloom
from rmqserver.broker.tables.config_table import from_file
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.disk.config_files import ConfigFiles

log = logging.getLogger(__name__)

FILE_NAME = "consumerFilter.json"

FILTERS_MAX = 10_000
FILTERS_MAX_CHARS = 4 << 20
"""Characters of the expressions of all filters. Compiled, they take some twenty times as much. This limit is ours, and
so is the number of filters."""

DEAD_SINCE_START_MS = 30_000
"""When the broker starts, a filter that was alive when it stopped counts as dead for this long, since nobody is online
yet."""


class BloomFilterData(Body):
    bit_num: Int32
    bit_pos: list[Int32]


class ConsumerFilterData(Body, kw_only=True):
    """``client_version`` is the subscription's ``sub_version``. Times in ms."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: Int64
    client_version: Int64
    consumer_group: str
    dead: bool = False
    dead_time: Int64 = 0
    expression: str
    expression_type: str
    topic: str

    def die(self, now_ms: int) -> None:
        self.dead_time, self.dead = now_ms, now_ms >= self.born_time

    def live_again(self) -> None:
        self.dead_time, self.dead = 0, False


class FilterDataMapByTopic(Body, kw_only=True):
    group_filter_data: dict[str, ConsumerFilterData] = {}
    topic: str | None = None


class ConsumerFilterFile(Body):
    filter_data_by_topic: dict[str, FilterDataMapByTopic] = {}


@dataclass(frozen=True, slots=True)
class ConsumerFilter:
    """One group's filter of one topic. ``wanted`` accepts everything if the expression in the file does not compile."""

    data: ConsumerFilterData
    wanted: MessageFilter


class ConsumerFilters:
    def __init__(self, config: BrokerConfig, files: ConfigFiles, clock_ms: Callable[[], int]):
        self._config = config
        self._files = files
        self._clock_ms = clock_ms
        self._bloom = Bloom.of(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
        self._by_group: dict[str, dict[str, ConsumerFilter]] = {}
        self._count = 0
        self._char_count = 0
        self._is_changed = False

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        return self._by_group.get(group, {}).get(topic)

    # --- the file ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Raises StorageError if the file is not ours. A file with another bloom filter is ignored, as by Apache's
        broker."""
        loaded = from_file(self._files.load(FILE_NAME), ConsumerFilterFile, FILE_NAME)
        found = [data for topic in loaded.filter_data_by_topic.values() for data in topic.group_filter_data.values()]
        if not all(map(self._is_of_bloom, found)):
            log.warning("event=filters-passed-over file=%s reason='another bloom filter'", FILE_NAME)
            return
        for data in found:
            data.die(data.dead_time or max(self._clock_ms() - DEAD_SINCE_START_MS, data.born_time))
            try:
                wanted = compile_filter(data.expression_type, data.expression)
            except BadExpression as error:
                log.warning("event=filter-not-compiled group=%s topic=%s reason=%r",
                            data.consumer_group, data.topic, str(error))  # fmt: skip
                wanted = EVERYTHING
            self._put(ConsumerFilter(data, wanted))

    def _is_of_bloom(self, data: ConsumerFilterData) -> bool:
        bloom, own = data.bloom_filter_data, self._bloom
        return bloom is not None and (bloom.bit_num, len(bloom.bit_pos)) == (own.bit_count, own.hash_count)

    def save(self) -> None:
        """Forgets filters that have been dead for too long. Saves if anything changed since the last time."""
        self._forget_dead()
        if not self._is_changed:
            return
        self._is_changed = False
        file = ConsumerFilterFile()
        for filters in self._by_group.values():
            for topic, one in filters.items():
                by_topic = file.filter_data_by_topic.setdefault(topic, FilterDataMapByTopic(topic=topic))
                by_topic.group_filter_data[one.data.consumer_group] = one.data
        self._files.save(FILE_NAME, msgspec.to_builtins(file))

    def _forget_dead(self) -> None:
        oldest_ms = self._clock_ms() - self._config.filter_data_clean_time_span_ms
        for one in [one for filters in self._by_group.values() for one in filters.values()]:
            if one.data.dead and one.data.dead_time <= oldest_ms:
                self._remove(one)

    # --- groups come and go ------------------------------------------------------------------------------------------

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Takes the subscriptions of a group from a heartbeat. An expression that does not compile gets no filter, and
        the group's pulls are told so."""
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not is_tags(subscription.expression_type) and subscription.sub_string:
                self._register(group, subscription)
        for topic, one in self._by_group.get(group, {}).items():
            if topic not in topics:
                self._die(one)

    def unregister(self, group: str) -> None:
        """Marks the group's filters as dead, because it has lost its last member."""
        for one in self._by_group.get(group, {}).values():
            self._die(one)

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
            if data.dead or version > data.client_version:
                data.client_version = version
                data.live_again()
                self._is_changed = True
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
            bloom_filter_data=BloomFilterData(
                bit_num=self._bloom.bit_count, bit_pos=self._bloom.positions(group, topic)
            ),
            born_time=self._clock_ms(),
            client_version=subscription.sub_version,
            consumer_group=group,
            expression=expression,
            expression_type=str(kind),
            topic=topic,
        )
        self._put(ConsumerFilter(data, wanted))
        self._is_changed = True

    def _die(self, one: ConsumerFilter) -> None:
        if not one.data.dead:
            one.data.die(self._clock_ms())
            self._is_changed = True

    def _put(self, one: ConsumerFilter) -> None:
        self._by_group.setdefault(one.data.consumer_group, {})[one.data.topic] = one
        self._count += 1
        self._char_count += len(one.data.expression)

    def _remove(self, one: ConsumerFilter) -> None:
        filters = self._by_group[one.data.consumer_group]
        del filters[one.data.topic]
        if not filters:
            del self._by_group[one.data.consumer_group]
        self._count -= 1
        self._char_count -= len(one.data.expression)
        self._is_changed = True
