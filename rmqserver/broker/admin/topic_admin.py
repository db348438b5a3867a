"""Topics, for tools: create, change, delete, list, and how full their queues are (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from rmqproto import names
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig, TopicConfigList, TopicConfigs, TopicList
from rmqproto.bodies.static_topics import TopicQueueMappingDetail
from rmqproto.bodies.statistics import TopicOffset, TopicStats
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.tables import AllTopicsAnswer, AllTopicsHeader, TopicConfigHeader, TopicHeader
from rmqproto.queue_mapping import MappingError, succeeded
from rmqproto.topic_message_type import MESSAGE_TYPE, TopicMessageType
from rmqproto.wire.fastjson import ObjectMap, dumps, loads_untrusted
from rmqserver.broker.admin.paging import page
from rmqserver.broker.parts import BrokerParts
from rmqserver.broker.stats.queue_times import store_time_ms
from rmqserver.broker.tables.attributes import TOPIC_ATTRIBUTES, alter, parse_untrusted
from rmqserver.config.broker_config import QUEUE_NUMS_MAX
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, send_answer, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.service import Handler

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


class TopicAdmin:
    """``when_told`` calls back when the nameservers know all changes so far: a client that creates a topic asks for its
    route next, and must find it."""

    def __init__(self, parts: BrokerParts, when_told: Callable[[Callable[[], None]], None]):
        self._config = parts.config
        self._topics = parts.topics
        self._mappings = parts.mappings
        self._offsets = parts.offsets
        self._store = parts.store
        self._stats = parts.stats
        self._when_told = when_told

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.upsert,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.upsert_list,
            RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: self.upsert_static,
            RequestCode.GET_TOPIC_CONFIG: self.get,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.get_all,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_TOPIC_STATS_INFO: self.topic_stats,
        }

    # --- changing ----------------------------------------------------------------------------------------------------

    def upsert(self, request: Request[TopicConfigHeader], connection: Connection) -> None:
        self._check_name(request.header.topic)  # before the attributes, as Apache's broker does
        self.put(_config(request.header), parse_untrusted(request.header.attributes))
        self._answer_when_told(request, connection)

    def put(self, wanted: TopicConfig, attribute_changes: dict[str, str]) -> None:
        """Creates the topic, or gives it these settings. Raises Refused if its name, number of queues or attributes are
        not allowed, and TableFull."""
        self._check_name(wanted.topic_name)
        self._put(self._altered(wanted, attribute_changes))

    def upsert_list(self, request: Request[Any], connection: Connection) -> None:
        """All or none: every topic is checked before the first one is put."""
        wanted = loads_untrusted(request.body, TopicConfigList).topic_config_list
        for topic in wanted:
            self._check_name(topic.topic_name)
        self._put(*[self._altered(topic, topic.attributes) for topic in wanted])
        self._answer_when_told(request, connection)

    def upsert_static(self, request: Request[TopicConfigHeader], connection: Connection) -> None:
        """Puts the topic and its mapping, or neither. As in Apache's broker, ``order`` is the one setting not taken
        here."""
        header = request.header
        wanted: TopicConfig = msgspec.structs.replace(_config(header), order=False)
        self._check_name(wanted.topic_name)
        config = self._altered(wanted, {})
        detail = loads_untrusted(request.body, TopicQueueMappingDetail)
        for name, said, meant in (
            ("broker", detail.bname, self._config.broker_name),
            ("topic", detail.topic, wanted.topic_name),
        ):
            if said != meant:
                raise Refused(ResponseCode.SYSTEM_ERROR, f"the mapping is for {name} {said}, not for {meant}")
        try:
            kept = succeeded(self._mappings.get(detail.topic), detail, force=bool(header.force))
        except MappingError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        self._mappings.put(kept)
        self._topics.put(config)  # even if it is unchanged: nameservers take only a newer table
        self._answer_when_told(request, connection)

    def _answer_when_told(self, request: Request[Any], connection: Connection) -> None:
        frame = success(request, remark=UNSET_REMARK)
        self._when_told(lambda: send_answer(request, connection, frame))

    def _check_name(self, topic: str) -> None:
        problem = names.topic_problem(topic)
        if problem is not None:
            raise Refused(ResponseCode.INVALID_PARAMETER, problem)
        self._check_not_system(topic)

    def _check_not_system(self, topic: str) -> None:
        if self._config.validate_system_topic_when_update_topic and self._topics.is_system(topic):
            raise Refused(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")

    def _altered(self, wanted: TopicConfig, changes: dict[str, str]) -> TopicConfig:
        """``wanted`` with the topic's present attributes, changed by ``changes``."""
        if changes.get(f"+{MESSAGE_TYPE}") == TopicMessageType.MIXED and not self._config.enable_mixed_message_type:
            raise Refused(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
        for queue_nums in (wanted.read_queue_nums, wanted.write_queue_nums):
            if not 0 <= queue_nums <= QUEUE_NUMS_MAX:
                raise Refused(ResponseCode.INVALID_PARAMETER, f"queueNums {queue_nums} not in [0, {QUEUE_NUMS_MAX}]")
        found = self._topics.get(wanted.topic_name)
        attributes = alter(TOPIC_ATTRIBUTES, found.attributes if found is not None else None, changes)
        altered: TopicConfig = msgspec.structs.replace(wanted, attributes=attributes)
        return altered

    def _put(self, *topics: TopicConfig) -> None:
        self._topics.put(*(topic for topic in topics if self._topics.get(topic.topic_name) != topic))

    def delete(self, request: Request[TopicHeader], connection: Connection) -> bytes:
        """Deletes the topic, its queues and offsets, and its POP retry topics, which an Apache broker may have left
        here."""
        topic = request.header.topic
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
            self._mappings.delete(each)
            self._offsets.remove_topic(each)
            self._store.delete_topic(each)
            self._stats.forget_topic(each)
        return success(request)

    # --- reading -----------------------------------------------------------------------------------------------------

    def get(self, request: Request[TopicHeader], connection: Connection) -> bytes:
        found = self._topics.get(request.header.topic)
        if found is None:
            remark = f"No topic in this broker. topic: {request.header.topic}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        detail = self._mappings.get(found.topic_name) if request.header.logical else None
        if detail is None:
            return success(request, body=dumps(found))
        body = {**msgspec.to_builtins(found), "mappingDetail": detail}
        return success(request, body=dumps(dict(sorted(body.items()))))

    def get_all(self, request: Request[AllTopicsHeader], connection: Connection) -> bytes:
        header, table = request.header, self._topics
        topics = page(
            table.all(), table.data_version, self._config, header.topic_seq, header.data_version, header.max_topic_num
        )
        body = TopicConfigs(
            data_version=table.data_version,
            mapping_data_version=self._mappings.data_version,
            topic_config_table=dict(topics),
            topic_queue_mapping_detail_map={
                name: msgspec.to_builtins(detail) for name in topics if (detail := self._mappings.get(name)) is not None
            },
            topic_queue_mapping_info_map={},
        )
        return success(request, AllTopicsAnswer(total_topic_num=len(table.all())), dumps(body))

    def system_topics(self, request: Request[Any], connection: Connection) -> bytes:
        return success(request, body=dumps(TopicList(topic_list=sorted(self._topics.system_names))))

    def topic_stats(self, request: Request[TopicHeader], connection: Connection) -> bytes:
        topic = request.header.topic
        found = self._topics.get(topic)
        if found is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        offsets = {
            MessageQueue(topic, self._config.broker_name, queue_id): self._queue_stats(topic, queue_id)
            for queue_id in range(max(found.write_queue_nums, found.read_queue_nums))
        }
        body = TopicStats(offset_table=ObjectMap(offsets), topic_put_tps=self._stats.topic_put_tps(topic))
        return success(request, body=dumps(body))

    def _queue_stats(self, topic: str, queue_id: int) -> TopicOffset:
        max_offset = self._store.max_offset(topic, queue_id)
        return TopicOffset(
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
