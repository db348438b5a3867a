"""Topics and consumer groups, for tools: create, change, delete, list, and how full queues are
(``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import msgspec

from rmqproto import names
from rmqproto.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, alter, parse_untrusted
from rmqproto.bodies.base import DataVersion, MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig, SubscriptionGroups
from rmqproto.bodies.routes import QUEUE_NUMS_MAX, TopicConfig, TopicConfigs, TopicList
from rmqproto.bodies.statistics import GroupForbidden, TopicOffset, TopicStats
from rmqproto.codes import MESSAGE_TYPE, ResponseCode, TopicMessageType
from rmqproto.errors import ProtocolError
from rmqproto.headers.tables import AllGroupsHeader, AllTopicsHeader, TopicConfigHeader
from rmqproto.names import group_problem
from rmqproto.wire.fastjson import ObjectMap, loads_untrusted
from rmqserver.broker.stats import BrokerStats, store_time_ms
from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
from rmqserver.broker.tables.groups import GroupTable
from rmqserver.broker.tables.topics import TopicTable, check_served
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.operation import Refused
from rmqserver.store.disk.cached_reads import one_by_one
from rmqserver.store.message_store import MessageStore

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


class TopicAdmin:
    """``when_told`` calls back when the nameservers know all changes so far: a client that creates a topic asks for its
    route next, and must find it."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicTable, offsets: ConsumerOffsets,
        stats: BrokerStats, when_told: Callable[[Callable[[], None]], None],
    ):  # fmt: skip
        self._config = config
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._stats = stats
        self._when_told = when_told

    # --- changing ----------------------------------------------------------------------------------------------------

    def upsert(self, header: TopicConfigHeader, then: Callable[[], None]) -> None:
        """As ``put``; ``then`` is called when the nameservers know it."""
        self._check_name(header.topic)  # before the attributes, as Apache's broker does
        self.put(_config(header), parse_untrusted(header.attributes))
        self._when_told(then)

    def put(self, wanted: TopicConfig, attribute_changes: dict[str, str]) -> None:
        """Creates the topic, or gives it these settings. Raises Refused if its name, number of queues or attributes are
        not allowed, and TableFull."""
        self._check_name(wanted.topic_name)
        self._put(self._altered(wanted, attribute_changes))

    def upsert_list(self, wanted: list[TopicConfig], then: Callable[[], None]) -> None:
        """All or none: every topic is checked before the first one is put."""
        for topic in wanted:
            self._check_name(topic.topic_name)
        self._put(*[self._altered(topic, topic.attributes) for topic in wanted])
        self._when_told(then)

    def _check_name(self, topic: str) -> None:
        problem = names.topic_problem(topic)
        if problem is not None:
            raise Refused(ResponseCode.INVALID_PARAMETER, problem)
        self._check_not_system(topic)

    def _check_not_system(self, topic: str) -> None:
        if self._config.validate_system_topic_when_update_topic and self._topics.is_system(topic):
            raise Refused(ResponseCode.INVALID_PARAMETER, names.SYSTEM_TOPIC_PROBLEM.format(topic))

    def _altered(self, wanted: TopicConfig, changes: dict[str, str]) -> TopicConfig:
        """``wanted`` with the topic's present attributes, changed by ``changes``."""
        if changes.get(f"+{MESSAGE_TYPE}") == TopicMessageType.MIXED and not self._config.enable_mixed_message_type:
            raise Refused(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
        for queue_nums in (wanted.read_queue_nums, wanted.write_queue_nums):
            if not 0 <= queue_nums <= QUEUE_NUMS_MAX:
                raise Refused(ResponseCode.INVALID_PARAMETER, f"queueNums {queue_nums} not in [0, {QUEUE_NUMS_MAX}]")
        found = self._topics.get(wanted.topic_name)
        attributes = alter(TOPIC_ATTRIBUTES, found.attributes if found is not None else None, changes)
        check_served(changes)
        altered: TopicConfig = msgspec.structs.replace(wanted, attributes=attributes)
        return altered

    def _put(self, *topics: TopicConfig) -> None:
        self._topics.put(*(topic for topic in topics if self._topics.get(topic.topic_name) != topic))

    def delete(self, topic: str) -> None:
        """Deletes the topic, its queues and offsets, and its POP retry topics, which an Apache broker may have left
        here."""
        if not topic.strip():
            raise Refused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        self._check_not_system(topic)
        doomed = [topic]
        if self._config.clear_retry_topic_when_delete_topic:
            for group in self._offsets.groups_of(topic):
                retries = (f"{names.retry_topic(group)}{mark}{topic}" for mark in ("+", "_"))
                doomed += [retry for retry in retries if self._topics.get(retry) is not None]
        for each in doomed:
            self._topics.delete(each)
            self._offsets.remove_topic(each)
            self._store.delete_topic(each)
            self._stats.forget_topic(each)

    # --- reading -----------------------------------------------------------------------------------------------------

    def get(self, topic: str) -> TopicConfig:
        """Raises Refused if there is none."""
        found = self._topics.get(topic)
        if found is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}")
        return found

    @property
    def count(self) -> int:
        return len(self._topics.all())

    def get_all(self, header: AllTopicsHeader) -> TopicConfigs:
        """One page of the table."""
        table = self._topics
        topics = page(
            table.all(), table.data_version, self._config, header.topic_seq, header.data_version, header.max_topic_num
        )
        return TopicConfigs(
            data_version=table.data_version,
            mapping_data_version=DataVersion(),
            topic_config_table=dict(topics),
            topic_queue_mapping_detail_map={},
            topic_queue_mapping_info_map={},
        )

    def system_topics(self) -> TopicList:
        return TopicList(topic_list=sorted(self._topics.system_names))

    def topic_stats(self, topic: str) -> Callable[[], TopicStats]:
        """A function for ``Reads`` that returns it. Raises Refused if there is no such topic."""
        found = self._topics.get(topic)
        if found is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        queue_ids = range(max(found.write_queue_nums, found.read_queue_nums))
        read_queues = one_by_one(partial(self._queue_stats, topic), queue_ids)

        def read() -> TopicStats:
            return TopicStats(
                offset_table=ObjectMap(dict(read_queues())), topic_put_tps=self._stats.topic_put_tps(topic)
            )

        return read

    def _queue_stats(self, topic: str, queue_id: int) -> tuple[MessageQueue, TopicOffset]:
        max_offset = self._store.max_offset(topic, queue_id)
        return MessageQueue(topic, self._config.broker_name, queue_id), TopicOffset(
            min_offset=self._store.min_offset(topic, queue_id),
            max_offset=max_offset,
            last_update_timestamp=store_time_ms(self._store, topic, queue_id, max_offset - 1) if max_offset > 0 else 0,
        )


def _config(header: TopicConfigHeader) -> TopicConfig:
    """The topic that a request asks for, without attributes."""
    if header.topic_filter_type not in FILTER_TYPES:
        raise ProtocolError(f"topicFilterType = [{header.topic_filter_type}] value invalid")
    return TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type,
        topic_sys_flag=header.topic_sys_flag,
        order=header.order,
    )


E = TypeVar("E")


def page(
    entries: Mapping[str, E],
    version: DataVersion,
    config: BrokerConfig,
    first: int | None,
    version_text: str | None,
    count_max: int | None,
) -> Mapping[str, E]:
    """The entries from number ``first`` on, in the order of their names. A reader that names no bound gets all of them.

    ``version_text`` is the version of the pages that the reader already has. If the table has changed since, the answer
    starts from the beginning, which the reader recognizes by the version.
    """
    if not config.enable_split_metadata or (first is None and version_text is None and count_max is None):
        return entries
    count = config.split_metadata_size if count_max is None else min(count_max, config.split_metadata_size)
    start = first or 0
    if start and not _is_version(version_text, version):
        start = 0
    names = sorted(entries)[max(start, 0) :][: max(count, 0)]
    return {name: entries[name] for name in names}


def _is_version(text: str | None, version: DataVersion) -> bool:
    if not text:
        return False
    try:
        return loads_untrusted(text, DataVersion) == version
    except ProtocolError:
        return False


LITE_ATTRIBUTE = "lite.bind.topic"


class GroupAdmin:
    def __init__(self, config: BrokerConfig, groups: GroupTable, offsets: ConsumerOffsets, stats: BrokerStats):
        self._config = config
        self._groups = groups
        self._offsets = offsets
        self._stats = stats

    def put(self, wanted: SubscriptionGroupConfig) -> None:
        """Creates the group, or gives it these settings; its attributes carry signs. Raises Refused if its name, queues
        or attributes are not allowed, and TableFull."""
        self._groups.put(self._checked(wanted))

    def put_list(self, wanted: list[SubscriptionGroupConfig]) -> None:
        """All or none: every group is checked before the first one is put."""
        self._groups.put(*[self._checked(group) for group in wanted])

    def _checked(self, wanted: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """``wanted`` with the group's present attributes, changed by those of the request, which carry signs."""
        problem = group_problem(wanted.group_name)
        if problem is not None:
            raise Refused(ResponseCode.INVALID_PARAMETER, problem)
        if not 0 <= wanted.retry_queue_nums <= QUEUE_NUMS_MAX:  # those of its retry topic
            remark = f"retryQueueNums {wanted.retry_queue_nums} not in [0, {QUEUE_NUMS_MAX}]"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        found = self._groups.get(wanted.group_name)
        attributes = alter(GROUP_ATTRIBUTES, found.attributes if found is not None else None, wanted.attributes)
        checked: SubscriptionGroupConfig = msgspec.structs.replace(wanted, attributes=attributes)
        return checked

    def get(self, group: str) -> SubscriptionGroupConfig:
        """Asking for an unknown group creates it, if the broker may create groups; otherwise it raises Refused."""
        found = self._groups.find(group)
        if found is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return found

    @property
    def count(self) -> int:
        return len(self._groups.all())

    def get_all(self, header: AllGroupsHeader) -> SubscriptionGroups:
        """One page of the table."""
        table = self._groups
        groups = page(
            table.all(), table.data_version, self._config, header.group_seq, header.data_version, header.max_group_num
        )
        return SubscriptionGroups(
            data_version=table.data_version,
            forbidden_table=table.forbidden,
            subscription_group_table=dict(groups),
        )

    def delete(self, group: str, *, clean_offset: bool) -> None:
        """An unknown group is not an error. A lite group always loses its offsets."""
        found = self._groups.get(group)
        is_lite = found is not None and LITE_ATTRIBUTE in found.attributes
        self._groups.delete(group)
        if clean_offset or is_lite:
            self._offsets.remove_group(group)
        self._stats.forget_group(group)

    def forbidden(self, group: str, topic: str, readable: bool | None) -> GroupForbidden:
        """Sets ``readable`` unless it is None. Returns whether the group may read the topic."""
        if readable is not None:
            self._groups.set_forbidden(group, topic, not readable)
        is_readable = not self._groups.is_forbidden(group, topic)
        return GroupForbidden(group=group, readable=is_readable, topic=topic)
