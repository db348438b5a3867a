"""The topics of this broker: their queues and permissions, the built-in topics, and how a first send creates a topic
(``TopicConfigManager``, 5.5.0). Kept in ``config/topics.json``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from rmqproto import names
from rmqproto.attributes import CLEANUP_POLICY, QUEUE_TYPE
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import PERM_INHERIT, PERM_MAX, PERM_READ_WRITE, perm_text
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.message.sys_flag import UNIT
from rmqserver.broker.tables.config_table import ConfigTable

if TYPE_CHECKING:
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.disk.config_files import ConfigFiles, Document


log = logging.getLogger(__name__)

BENCHMARK_QUEUE_NUMS = 1024
CLUSTER_TOPIC_QUEUE_NUMS = 16

_INSTEAD = {
    f"{QUEUE_TYPE}=BatchCQ": "leave queue.type out, and batches are stored and read message by message",
    f"{CLEANUP_POLICY}=COMPACTION": "leave cleanup.policy out, and let consumers keep the last message of each key",
}
"""Attributes that ask for queues which this broker does not write, and what to do instead. A topic that claims to be
compacted and is not would mislead its owner."""


def served_otherwise(attributes: Mapping[str, str]) -> list[str]:
    """Those of a topic from an Apache broker."""
    return [each for each in _INSTEAD if each in {f"{name}={value}" for name, value in attributes.items()}]


def check_served(changes: Mapping[str, str]) -> None:
    """ProtocolError for a change of attributes that asks for one of them."""
    for signed, value in changes.items():
        if instead := _INSTEAD.get(f"{signed[1:]}={value}"):
            raise ProtocolError(f"value {value} is not supported by this broker: {instead}")


def config_text(config: TopicConfig) -> str:
    """A topic as Apache prints it in remarks (``TopicConfig.toString``, 5.5.0)."""
    attributes = ", ".join(f"{name}={value}" for name, value in config.attributes.items())
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={'true' if config.order else 'false'}, attributes={{{attributes}}}]"
    )


class TopicTable(ConfigTable[TopicConfig]):
    """Topics by name. ``get`` is on the path of every message."""

    def __init__(self, config: BrokerConfig, files: ConfigFiles, clock_ms: Callable[[], int]):
        super().__init__(files, "topics.json", "topicConfigTable", TopicConfig, clock_ms)
        self._config = config
        self._has_light_queues = config.has_light_queues
        self.on_automatic: Callable[[TopicConfig], None] = lambda topic: None
        """Called with a topic that a first send has created."""
        self.system_names = frozenset(names.SYSTEM_TOPICS | {topic.topic_name for topic in self._built_in()})
        """Topics that no tool may delete, and that 305 lists."""

    def load(self) -> Document:
        """Sets the built-in topics, then loads what the file says about them and all others."""
        for topic in self._built_in():
            self._set(topic.topic_name, topic)
        document = super().load()
        for topic in self._entries.values():
            for attribute in served_otherwise(topic.attributes):
                log.warning(
                    "event=topic-served-otherwise topic=%s attribute=%s reason=%r",
                    topic.topic_name, attribute, "see docs/compatibility.md",
                )  # fmt: skip
        template = self._entries.get(names.AUTO_CREATE_TOPIC)
        if template is not None and not self._config.auto_create_topic_enable:
            lowered = msgspec.structs.replace(template, perm=PERM_READ_WRITE)
            self._set(names.AUTO_CREATE_TOPIC, lowered)
        self.save()
        return document

    def get(self, name: str) -> TopicConfig | None:
        """The topic, or None. If the broker has light queues, each of them counts as a topic with one queue."""
        found = self._entries.get(name)
        if found is None and self._has_light_queues and name.startswith(names.LIGHT_QUEUE_PREFIX):
            return TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1)
        return found

    def put(self, *topics: TopicConfig) -> None:
        """Creates or replaces topics, as one change. Raises TableFull."""
        self.put_entries({topic.topic_name: topic for topic in topics})

    def is_system(self, topic: str) -> bool:
        return topic in self.system_names or topic.startswith(names.SYSTEM_TOPIC_PREFIX)

    def create_on_send(
        self, topic: str, default_topic: str, queue_nums: int, unit_mode: bool = False
    ) -> TopicConfig | None:
        """The topic, created with the settings of ``default_topic``. None if that one does not pass them on."""
        found = self._entries.get(topic)
        if found is not None:
            return found
        template = self._entries.get(default_topic)
        if template is None or not template.perm & PERM_INHERIT:
            return None
        if default_topic == names.AUTO_CREATE_TOPIC and not self._config.auto_create_topic_enable:
            return None
        queue_nums = max(0, min(queue_nums, template.write_queue_nums))
        created = TopicConfig(
            topic_name=topic,
            read_queue_nums=queue_nums,
            write_queue_nums=queue_nums,
            perm=template.perm & ~PERM_INHERIT,
            topic_filter_type=template.topic_filter_type,
            topic_sys_flag=UNIT if unit_mode else 0,
        )
        self.put(created)
        self.on_automatic(created)
        return created

    def create_system(self, topic: str, queue_nums: int, topic_sys_flag: int = 0) -> TopicConfig:
        """The topic, which the broker itself needs (retry, dead letters). It is created if it does not exist."""
        found = self._entries.get(topic)
        if found is not None:
            return found
        created = TopicConfig(
            topic_name=topic, read_queue_nums=queue_nums, write_queue_nums=queue_nums, topic_sys_flag=topic_sys_flag
        )
        self.put(created)
        return created

    def _built_in(self) -> list[TopicConfig]:
        """The topics that every broker has (``TopicConfigManager.init``, 5.5.0)."""
        config = self._config
        cluster, broker = config.broker_cluster_name, config.broker_name
        built_in = [
            (names.SELF_TEST_TOPIC, 1, PERM_READ_WRITE),
            (names.BENCHMARK_TOPIC, BENCHMARK_QUEUE_NUMS, PERM_READ_WRITE),
            (cluster, CLUSTER_TOPIC_QUEUE_NUMS, PERM_MAX if config.cluster_topic_enable else PERM_INHERIT),
            (broker, 1, PERM_MAX if config.broker_topic_enable else PERM_INHERIT),
            (names.OFFSET_MOVED_TOPIC, 1, PERM_READ_WRITE),
            (names.SCHEDULE_TOPIC, 18, PERM_READ_WRITE),
            (names.reply_topic(cluster), 1, PERM_READ_WRITE),
            (names.revive_topic(cluster), config.revive_queue_num, PERM_READ_WRITE),
            (names.member_group_topic(broker), 1, PERM_INHERIT),
            (names.TRANSACTION_HALF_TOPIC, 1, PERM_READ_WRITE),
            (names.TRANSACTION_OP_TOPIC, 1, PERM_READ_WRITE),
            (names.ROCKSDB_TRANSACTION_HALF_TOPIC, 1, PERM_READ_WRITE),
            (names.ROCKSDB_TRANSACTION_OP_TOPIC, 1, PERM_READ_WRITE),
        ]
        if config.auto_create_topic_enable:
            built_in.append((names.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, PERM_MAX))
        if config.trace_topic_enable:
            built_in.append((config.msg_trace_topic_name, 1, PERM_READ_WRITE))
        if config.timer_wheel_enable:
            built_in.append((names.TIMER_TOPIC, 1, PERM_READ_WRITE))
        return [
            TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
            for name, queues, perm in built_in
        ]


def tell_static_topics(files: ConfigFiles, topics: TopicTable) -> None:
    """Logs which topics are static by an Apache broker's ``config/topicQueueMapping.json``. It stays as it is; they are
    served as plain topics, by the queues and offsets of this broker."""
    try:
        mappings = files.load("topicQueueMapping.json").get("topicQueueMappingInfoMap")
    except StorageError as error:
        log.warning("event=static-topics-unread reason=%r", str(error))
        return
    found = sorted(name for name in mappings if topics.get(name)) if isinstance(mappings, dict) else []
    if found:
        log.warning(
            "event=static-topics count=%d topics=%s reason='served as plain topics, by the queues and offsets of this "
            "broker: see docs/topics.md'",
            len(found), ",".join(found),
        )  # fmt: skip
