"""Admin calls about lite topics on one broker."""

from __future__ import annotations

from rmqclient.admin.caller import AdminCaller
from rmqproto import bodies, headers
from rmqproto.codes import RequestCode


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
        header = headers.lite.LiteTopicHeader(parent_topic=parent_topic, lite_topic=lite_topic)
        return self.read(broker_addr, RequestCode.GET_LITE_TOPIC_INFO, header, bodies.lite.LiteTopicInfo)

    def lite_client_info(
        self, broker_addr: str, parent_topic: str, group: str, client_id: str
    ) -> bodies.lite.LiteClientInfo:
        """The lite topics of one client (200077)."""
        header = headers.lite.LiteClientHeader(parent_topic=parent_topic, group=group, client_id=client_id)
        return self.read(broker_addr, RequestCode.GET_LITE_CLIENT_INFO, header, bodies.lite.LiteClientInfo)

    def lite_group_info(
        self, broker_addr: str, group: str, lite_topic: str | None = None, *, top_count: int = 20
    ) -> bodies.lite.LiteGroupInfo:
        """A group's lag in one lite topic, or in the ``top_count`` lite topics with the largest lag (200078)."""
        header = headers.lite.LiteGroupHeader(group=group, lite_topic=lite_topic, top_k=top_count)
        return self.read(broker_addr, RequestCode.GET_LITE_GROUP_INFO, header, bodies.lite.LiteGroupInfo)

    def trigger_lite_dispatch(self, broker_addr: str, group: str, client_id: str | None = None) -> None:
        """Makes a broker offer a client, or every client of the group, its lite topics once more (200079)."""
        header = headers.lite.LiteDispatchHeader(group=group, client_id=client_id)
        self.call(broker_addr, RequestCode.TRIGGER_LITE_DISPATCH, header)
