"""Headers of POP, where messages are handed out for a time and acknowledged one by one, and of lite topics. Durations
are ms, times are ms since 1970; offsets are queue offsets."""

from __future__ import annotations

from rmqproto.headers.base import Header
from rmqproto.java.java_numbers import Int32, Int64

INIT_FROM_MIN, INIT_FROM_MAX = 0, 1
"""initMode for a group without an offset. INIT_FROM_MIN starts at the queue's first message, any other value at its
last one."""


class PopHeader(Header, kw_only=True):
    """200050 POP_MESSAGE. ``queue_id`` -1: all queues. The broker holds it until ``born_time`` + ``poll_time``."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64 = 0
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


class PopAnswer(Header, kw_only=True):
    """Answer of 200050 and 200052. The three infos are those of ``rmqproto.pop``."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    rest_num: Int64 = 0
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckHeader(Header, kw_only=True):
    """200051 ACK_MESSAGE. ``extra_info`` is the message's handle."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    lite_topic: str | None = None


class ChangeInvisibleTimeHeader(AckHeader, kw_only=True):
    """200053 CHANGE_MESSAGE_INVISIBLETIME."""

    invisible_time: Int64
    suspend: bool | None = None


class ChangeInvisibleTimeAnswer(Header, kw_only=True):
    """The parts of the message's new handle."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0


class PeekHeader(Header, kw_only=True):
    """200052 PEEK_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32


class NotificationHeader(Header, kw_only=True):
    """200054 NOTIFICATION asks whether there is something to pop."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool | None = None
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class NotificationAnswer(Header, kw_only=True):
    has_msg: bool = False
    polling_full: bool = False


class PollingInfoHeader(Header, kw_only=True):
    """200055 POLLING_INFO."""

    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoAnswer(Header, kw_only=True):
    polling_num: Int32 = 0


# --- lite topics -----------------------------------------------------------------------------------------------------


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
