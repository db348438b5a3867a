"""Admin calls about consumer groups and about online consumers and producers."""

from __future__ import annotations

from rmqclient.admin.caller import PAGE_COUNT, AdminCaller, Page, body_of, read_pages
from rmqproto import bodies, headers
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode
from rmqproto.headers.base import from_ext
from rmqproto.wire import fastjson

_FROM_CLIENT_TIMEOUT_S = 12.0
"""A broker waits 10 s for the client before it answers with code 207."""


class GroupCalls(AdminCaller):
    """``broker_addr`` is ``host:port`` throughout."""

    def create_group(self, broker_addr: str, config: bodies.groups.SubscriptionGroupConfig) -> None:
        """Creates a consumer group, or gives it a new configuration (200). RefusedError with code 29 for a name that
        is not legal."""
        self.call(broker_addr, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=fastjson.dumps(config))

    def create_groups(self, broker_addr: str, configs: list[bodies.groups.SubscriptionGroupConfig]) -> None:
        """As ``create_group``, several at once (225)."""
        body = fastjson.dumps({"groupConfigList": configs})
        self.call(broker_addr, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)

    def delete_group(self, broker_addr: str, group: str, *, clean_offset: bool = False) -> None:
        """Deletes a group (207), and its offsets with ``clean_offset``. An unknown group is no error. Its retry and
        dead-letter topics stay."""
        header = headers.tables.DeleteGroupHeader(group_name=group, clean_offset=clean_offset)
        self.call(broker_addr, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    def group_config(self, broker_addr: str, group: str) -> bodies.groups.SubscriptionGroupConfig:
        """A group's configuration on one broker (352). A broker that creates groups automatically creates an unknown
        one; ``all_groups`` does not."""
        header = headers.tables.GroupHeader(group=group)
        return self.read(
            broker_addr, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header, bodies.groups.SubscriptionGroupConfig
        )

    def all_groups(self, broker_addr: str) -> bodies.groups.SubscriptionGroups:
        """Every group of one broker (201), page by page if the broker answers in pages."""

        def read_page(seq: int, version: str | None) -> Page[bodies.groups.SubscriptionGroups]:
            header = headers.tables.AllGroupsHeader(group_seq=seq, data_version=version, max_group_num=PAGE_COUNT)
            answer = self.call(broker_addr, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
            body = body_of(answer, bodies.groups.SubscriptionGroups)
            total = from_ext(answer.ext, headers.tables.AllGroupsAnswer).total_group_num
            return Page(body, len(body.subscription_group_table), total, fastjson.dumps(body.data_version).decode())

        first, *others = read_pages(read_page)
        for page in others:
            first.subscription_group_table.update(page.subscription_group_table)
            first.forbidden_table.update(page.forbidden_table)
        return first

    def group_forbidden(
        self, broker_addr: str, group: str, topic: str, *, readable: bool | None = None
    ) -> bodies.statistics.GroupForbidden:
        """Whether a group may read a topic (353). ``readable`` sets it first."""
        header = headers.tables.GroupForbiddenHeader(group=group, topic=topic, readable=readable)
        return self.read(
            broker_addr, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header, bodies.statistics.GroupForbidden
        )

    def topics_of_group(self, broker_addr: str, group: str) -> list[str]:
        """Topics in which a group has offsets (343)."""
        header = headers.tables.GroupHeader(group=group)
        return self.read(broker_addr, RequestCode.QUERY_TOPICS_BY_CONSUMER, header, bodies.routes.TopicList).topic_list

    def subscription_of_group(self, broker_addr: str, group: str, topic: str) -> bodies.groups.SubscriptionData | None:
        """The subscription of an online group to a topic (345); None if the group is not online."""
        header = headers.tables.SubscriptionQueryHeader(group=group, topic=topic)
        code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
        return self.read(broker_addr, code, header, bodies.statistics.SubscriptionAnswer).subscription_data

    def request_modes(self, broker_addr: str) -> bodies.popping.RequestModes:
        """The modes in which groups get messages of topics, if set (402)."""
        return self.read(broker_addr, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, None, bodies.popping.RequestModes)

    def set_request_mode(self, broker_addr: str, mode: bodies.popping.RequestMode) -> None:
        """Sets the mode in which a group gets a topic's messages (401). RefusedError with code 16 for a retry topic."""
        self.call(broker_addr, RequestCode.SET_MESSAGE_REQUEST_MODE, body=fastjson.dumps(mode))

    # --- clients online ----------------------------------------------------------------------------------------------

    def consumer_connection(self, broker_addr: str, group: str) -> bodies.groups.ConsumerConnection:
        """A group's clients and subscriptions (203). RefusedError with code 206 if none is online."""
        header = headers.consuming.ConsumerGroupHeader(consumer_group=group)
        return self.read(
            broker_addr, RequestCode.GET_CONSUMER_CONNECTION_LIST, header, bodies.groups.ConsumerConnection
        )

    def consumer_ids(self, broker_addr: str, group: str) -> list[str]:
        """Client ids of a group, by the request that its clients use (38). RefusedError with code 1 if none is
        online."""
        header = headers.consuming.ConsumerGroupHeader(consumer_group=group)
        return self.read(
            broker_addr, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header, bodies.groups.ConsumerIds
        ).consumer_id_list

    def consumer_running_info(
        self, broker_addr: str, group: str, client_id: str, *, jstack: bool = False
    ) -> bodies.statistics.ConsumerRunningInfo:
        """A consumer's report about itself, through its broker (307). RefusedError with code 1 if it is not online, 207
        if it does not answer."""
        header = headers.consuming.RunningInfoHeader(consumer_group=group, client_id=client_id, jstack_enable=jstack)
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        return self.read(
            broker_addr, code, header, bodies.statistics.ConsumerRunningInfo, timeout_s=_FROM_CLIENT_TIMEOUT_S
        )

    def consumer_status(
        self, broker_addr: str, topic: str, group: str, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """The queue offsets that consumers hold, by client id, through their broker (223)."""
        header = headers.consuming.ConsumerStatusHeader(topic=topic, group=group, client_addr=client_id)
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        status = self.read(
            broker_addr, code, header, bodies.statistics.ConsumerStatus, timeout_s=_FROM_CLIENT_TIMEOUT_S
        )
        return {client: dict(offsets) for client, offsets in status.consumer_table.items()}

    def consume_message_directly(
        self, broker_addr: str, group: str, client_id: str, offset_message_id: str, topic: str | None = None
    ) -> bodies.statistics.ConsumeDirectlyResult:
        """Makes one consumer consume one stored message now, through the broker that stores it (309)."""
        header = headers.consuming.ConsumeDirectlyHeader(
            consumer_group=group, client_id=client_id, msg_id=offset_message_id, topic=topic
        )
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        return self.read(
            broker_addr, code, header, bodies.statistics.ConsumeDirectlyResult, timeout_s=_FROM_CLIENT_TIMEOUT_S
        )

    def check_client_config(
        self, broker_addr: str, group: str, client_id: str, subscription: bodies.groups.SubscriptionData
    ) -> None:
        """Makes a broker check a subscription (46). RefusedError with code 23 for an SQL92 expression that does not
        parse, 1 if the broker has SQL92 turned off."""
        request = bodies.groups.CheckClientRequest(client_id=client_id, group=group, subscription_data=subscription)
        self.call(broker_addr, RequestCode.CHECK_CLIENT_CONFIG, body=fastjson.dumps(request))

    def producer_connection(self, broker_addr: str, group: str) -> bodies.groups.ProducerConnection:
        """A producer group's clients (204). RefusedError with code 1 if none is online."""
        header = headers.consuming.ProducerGroupHeader(producer_group=group)
        return self.read(
            broker_addr, RequestCode.GET_PRODUCER_CONNECTION_LIST, header, bodies.groups.ProducerConnection
        )

    def all_producers(self, broker_addr: str) -> dict[str, list[bodies.groups.ProducerInfo]]:
        """Every producer of one broker, by group (328)."""
        return self.read(broker_addr, RequestCode.GET_ALL_PRODUCER_INFO, None, bodies.groups.ProducerTable).data
