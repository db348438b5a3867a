"""Headers of requests about lite topics."""

from __future__ import annotations

from rmqproto.headers.base import Header
from rmqproto.java.java_numbers import Int32, Int64


class LiteTopicHeader(Header, kw_only=True):
    """200076 GET_LITE_TOPIC_INFO."""

    parent_topic: str | None = None
    lite_topic: str | None = None


class LiteClientHeader(Header, kw_only=True):
    """200077 GET_LITE_CLIENT_INFO. The answer names at most ``max_count`` lite topics."""

    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: Int32 = 1000


class LiteGroupHeader(Header, kw_only=True):
    """200078 GET_LITE_GROUP_INFO. Without ``lite_topic``: the ``top_k`` lite topics with the most lag."""

    group: str
    lite_topic: str | None = None
    top_k: Int32 = 0


class LiteDispatchHeader(Header, kw_only=True):
    """200079 TRIGGER_LITE_DISPATCH: to one client, or to all of the group."""

    group: str
    client_id: str | None = None


class PopLiteHeader(Header, kw_only=True):
    """200070 POP_LITE_MESSAGE: messages of any of the lite topics that a client subscribes to below ``topic``. The
    broker holds it until ``born_time`` + ``poll_time``."""

    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    attempt_id: str | None = None


class PopLiteAnswer(Header, kw_only=True):
    """``order_count_info``: how often the group had each message before, separated by ``;``."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    order_count_info: str | None = None


class UnsubscribeLiteHeader(Header, kw_only=True):
    """200073 NOTIFY_UNSUBSCRIBE_LITE, broker to client: a lite topic went to another client, or was deleted."""

    lite_topic: str
    consumer_group: str
    client_id: str
