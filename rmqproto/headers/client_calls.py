"""Headers of a broker's requests to its clients, and of the requests that cause them."""

from __future__ import annotations

from rmqproto.headers.base import Header
from rmqproto.java.java_numbers import Int32, Int64


class RunningInfoHeader(Header, kw_only=True):
    """307 GET_CONSUMER_RUNNING_INFO."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyHeader(Header, kw_only=True):
    """309 CONSUME_MESSAGE_DIRECTLY. ``msg_id`` is the offset id; ``client_id`` must be online."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class TopicGroupHeader(Header, kw_only=True):
    """221 GET_CONSUMER_STATUS_FROM_CLIENT, 303 QUERY_CONSUME_TIME_SPAN."""

    topic: str
    group: str


class ConsumerStatusHeader(TopicGroupHeader, kw_only=True):
    """223 INVOKE_BROKER_TO_GET_CONSUMER_STATUS. ``client_addr`` is a client id."""

    client_addr: str | None = None


class PushReplyHeader(Header, kw_only=True):
    """326 PUSH_REPLY_MESSAGE_TO_CLIENT. Hosts are ``ip:port``; the body is the reply's, compressed if ``sys_flag``
    says so."""

    producer_group: str
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int32 = 0
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64


class ResetOffsetHeader(Header, kw_only=True):
    """222 INVOKE_BROKER_TO_RESET_OFFSET, 220 RESET_CONSUMER_CLIENT_OFFSET. A negative timestamp means the end."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None
