"""Admin calls about topics and lite topics on one broker."""

from __future__ import annotations

from rmqclient.admin.caller import PAGE_COUNT, AdminCaller, Page, body_of, read_pages
from rmqproto import bodies, headers
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.base import from_ext
from rmqproto.names import AUTO_CREATE_TOPIC
from rmqproto.wire import fastjson

GAP_MAX = 16
"""So many queue ids in a row without a queue end the search for queues past a topic's counts."""


class TopicCalls(AdminCaller):
    """``broker_addr`` is ``host:port`` throughout. RefusedError with code 17 for an unknown topic, unless stated
    otherwise."""

    def create_topic(self, broker_addr: str, config: bodies.routes.TopicConfig) -> None:
        """Creates a topic, or gives it a new configuration (17). Names in ``config.attributes`` have a sign, + to set
        and - to remove: ``{"+message.type": "DELAY", "-reserve.time": ""}``. RefusedError with code 29 for a name that
        is not legal or is a system topic's."""
        header = _header_of(config)
        header.attributes = ",".join(f"{name}={value}" if value else name for name, value in config.attributes.items())
        self.call(broker_addr, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    def create_topics(self, broker_addr: str, configs: list[bodies.routes.TopicConfig]) -> None:
        """As ``create_topic``, several at once (18)."""
        body = fastjson.dumps({"topicConfigList": configs})
        self.call(broker_addr, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)

    def delete_topic_in_broker(self, broker_addr: str, topic: str) -> None:
        """Deletes a topic, its queues and offsets (215); an unknown one is no error. The name servers keep its route:
        ``delete_topic_in_namesrv``."""
        self.call(broker_addr, RequestCode.DELETE_TOPIC_IN_BROKER, headers.tables.TopicHeader(topic=topic))

    def topic_config(self, broker_addr: str, topic: str) -> bodies.routes.TopicConfig:
        """A topic's configuration on one broker (351)."""
        return self.read(
            broker_addr,
            RequestCode.GET_TOPIC_CONFIG,
            headers.tables.TopicHeader(topic=topic),
            bodies.routes.TopicConfig,
        )

    def all_topics(self, broker_addr: str) -> bodies.routes.TopicConfigs:
        """Every topic of one broker (21), page by page if the broker answers in pages."""

        def read_page(seq: int, version: str | None) -> Page[bodies.routes.TopicConfigs]:
            header = headers.tables.AllTopicsHeader(topic_seq=seq, data_version=version, max_topic_num=PAGE_COUNT)
            answer = self.call(broker_addr, RequestCode.GET_ALL_TOPIC_CONFIG, header)
            body = body_of(answer, bodies.routes.TopicConfigs)
            total = from_ext(answer.ext, headers.tables.AllTopicsAnswer).total_topic_num
            return Page(body, len(body.topic_config_table), total, fastjson.dumps(body.data_version).decode())

        first, *others = read_pages(read_page)
        for page in others:
            first.topic_config_table.update(page.topic_config_table)
        return first

    def static_topic(self, broker_addr: str, topic: str) -> bodies.routes.TopicConfigAndQueueMapping:
        """A topic's configuration on one broker, with the queue mapping if it is a static topic (351)."""
        header = headers.tables.TopicHeader(topic=topic, logical=True)
        return self.read(broker_addr, RequestCode.GET_TOPIC_CONFIG, header, bodies.routes.TopicConfigAndQueueMapping)

    def create_static_topic(
        self,
        broker_addr: str,
        config: bodies.routes.TopicConfig,
        mapping: bodies.routes.TopicQueueMappingDetail,
        *,
        force: bool = False,
    ) -> None:
        """Creates a static topic, or gives it a new mapping (513). RefusedError with code 1 for a mapping that must not
        follow the current one, unless ``force``."""
        header = _header_of(config)
        header.force = force
        self.call(broker_addr, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, header, fastjson.dumps(mapping))

    def system_topics_of_broker(self, broker_addr: str) -> list[str]:
        """The topics that a broker keeps for itself (305)."""
        return self.read(
            broker_addr, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, None, bodies.routes.TopicList
        ).topic_list

    def topic_stats(self, broker_addr: str, topic: str) -> bodies.statistics.TopicStats:
        """The ends of a topic's queues on one broker (202)."""
        header = headers.tables.TopicHeader(topic=topic)
        return self.read(broker_addr, RequestCode.GET_TOPIC_STATS_INFO, header, bodies.statistics.TopicStats)

    def queues_past(self, broker_addr: str, topic: str, queue_nums: int) -> list[int]:
        """The ids of queues that a broker keeps past a topic's counts, whose larger one is ``queue_nums`` (321, up to
        GAP_MAX at once). After a topic was given fewer queues, the broker goes on keeping the messages of the others,
        but lists no queue past both counts. One further than GAP_MAX past all others is not found."""
        found: list[int] = []
        asked_end, codes = queue_nums, (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
        while asked_end < (end := (found[-1] + 1 if found else queue_nums) + GAP_MAX):
            ids = range(asked_end, end)
            # Not by their ends: Apache's broker would create the queues that are asked for.
            asked = [headers.tables.QueryConsumeQueueHeader(topic=topic, queue_id=id, index=0, count=1) for id in ids]
            answers = self.call_all(broker_addr, RequestCode.QUERY_CONSUME_QUEUE, asked, codes)
            found += [id for id, answer in zip(ids, answers, strict=True) if answer.code == ResponseCode.SUCCESS]
            asked_end = end
        return found

    def groups_of_topic(self, broker_addr: str, topic: str) -> list[str]:
        """Groups that subscribe to a topic now, or have offsets in it (300). [] for an unknown topic."""
        header = headers.tables.TopicHeader(topic=topic)
        return self.read(
            broker_addr, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header, bodies.statistics.GroupList
        ).group_list

    def query_consume_queue(
        self, broker_addr: str, topic: str, queue_id: int, queue_offset: int, count: int, group: str | None = None
    ) -> bodies.statistics.ConsumeQueueAnswer | None:
        """Raw units of a consume queue (321); None if ``queue_offset`` is past its end. RefusedError with code 1 for a
        queue that does not exist."""
        header = headers.tables.QueryConsumeQueueHeader(
            topic=topic, queue_id=queue_id, index=queue_offset, count=count, consumer_group=group
        )
        answer = self.call(broker_addr, RequestCode.QUERY_CONSUME_QUEUE, header)
        return body_of(answer, bodies.statistics.ConsumeQueueAnswer) if answer.body else None


def _header_of(config: bodies.routes.TopicConfig) -> headers.tables.TopicConfigHeader:
    """All but the attributes."""
    return headers.tables.TopicConfigHeader(
        topic=config.topic_name,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
    )


class LiteCalls(AdminCaller):
    """``broker_addr`` is ``host:port`` throughout. RefusedError with code 17 or 26 for an unknown parent topic or
    group, 29 for one that is not for lite topics, 3 from brokers before 5.5."""

    def broker_lite_info(self, broker_addr: str) -> bodies.lite.BrokerLiteInfo:
        """A broker's counts of light queues and lite subscriptions (200074)."""
        return self.read(broker_addr, RequestCode.GET_BROKER_LITE_INFO, None, bodies.lite.BrokerLiteInfo)

    def parent_topic_info(self, broker_addr: str, parent_topic: str) -> bodies.lite.ParentTopicInfo:
        """The count of a topic's lite topics, and the groups bound to it (200075)."""
        header = headers.tables.TopicHeader(topic=parent_topic)
        return self.read(broker_addr, RequestCode.GET_PARENT_TOPIC_INFO, header, bodies.lite.ParentTopicInfo)

    def lite_topic_info(self, broker_addr: str, parent_topic: str, lite_topic: str) -> bodies.lite.LiteTopicInfo:
        """The ends and the subscribers of a lite topic (200076); offsets are 0 for one without messages."""
        header = headers.popping.LiteTopicHeader(parent_topic=parent_topic, lite_topic=lite_topic)
        return self.read(broker_addr, RequestCode.GET_LITE_TOPIC_INFO, header, bodies.lite.LiteTopicInfo)

    def lite_client_info(
        self, broker_addr: str, parent_topic: str, group: str, client_id: str
    ) -> bodies.lite.LiteClientInfo:
        """The lite topics of one client (200077)."""
        header = headers.popping.LiteClientHeader(parent_topic=parent_topic, group=group, client_id=client_id)
        return self.read(broker_addr, RequestCode.GET_LITE_CLIENT_INFO, header, bodies.lite.LiteClientInfo)

    def lite_group_info(
        self, broker_addr: str, group: str, lite_topic: str | None = None, *, top_count: int = 20
    ) -> bodies.lite.LiteGroupInfo:
        """A group's lag in one lite topic, or in the ``top_count`` lite topics with the largest lag (200078)."""
        header = headers.popping.LiteGroupHeader(group=group, lite_topic=lite_topic, top_k=top_count)
        return self.read(broker_addr, RequestCode.GET_LITE_GROUP_INFO, header, bodies.lite.LiteGroupInfo)

    def trigger_lite_dispatch(self, broker_addr: str, group: str, client_id: str | None = None) -> None:
        """Makes a broker offer a client, or every client of the group, its lite topics once more (200079)."""
        header = headers.popping.LiteDispatchHeader(group=group, client_id=client_id)
        self.call(broker_addr, RequestCode.TRIGGER_LITE_DISPATCH, header)
