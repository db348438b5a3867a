"""Recalls: a timer message is taken back before its time (``RecallMessageProcessor``, 5.5.0). The recall is stored as a
timer message, too, and meets the other one in its slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqproto.codes import PERM_WRITE, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.sending import RecallHeader
from rmqproto.message import properties as props
from rmqproto.message.special_messages import RecallHandle, parse_recall_untrusted
from rmqproto.names import RETRY_PREFIX
from rmqserver.broker.sending.pending import Outcome
from rmqserver.broker.sending.put import Put
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.store.new_message import NewMessage
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer

RECALL_TAG = "_RECALL_TAG_"
_DONE = Outcome(ResponseCode.SUCCESS, UNSET_REMARK)
_FAILED = Outcome(ResponseCode.SYSTEM_ERROR, "recall failed, execute error")

OnRecalled = Callable[[Outcome, str], None]
"""Takes how the recall ended, and the unique key of the message that was recalled."""


class Recalls:
    def __init__(
        self, config: BrokerConfig, topics: TopicTable, address: OwnAddress, clock_ms: Callable[[], int], put: Put
    ):
        self._config = config
        self._topics = topics
        self._address = address
        self._clock_ms = clock_ms
        self._put = put

    def recall(self, header: RecallHeader, peer: Peer, on_recalled: OnRecalled | None) -> None:
        """Puts the recall into this round. ``on_recalled`` is called once, when it is as safe as promised, or is lost.
        Raises Refused if nothing can be recalled so."""
        handle = self._checked(header)
        message = self._message(handle, header.producer_group, peer)
        try:
            self._put.put(message)
        except MessageRefused:
            raise Refused(*_FAILED) from None
        if on_recalled is not None:
            self._put.when_stored(
                message.properties,
                lambda outcome: on_recalled(_FAILED if outcome.is_lost else _DONE, handle.unique_key),
            )

    def _checked(self, header: RecallHeader) -> RecallHandle:
        """The request's handle. Raises Refused if nothing can be recalled by it."""
        config, now_ms = self._config, self._clock_ms()
        if not config.recall_message_enable:
            raise Refused(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        is_writeable = config.broker_permission & PERM_WRITE or config.allow_recall_when_broker_not_writeable
        if now_ms < config.start_accept_send_request_ms or not is_writeable:
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
        if self._topics.get(header.topic) is None:
            text = f"recall failed, the topic[{header.topic}] not exist"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, text)
        try:
            handle = parse_recall_untrusted(header.recall_handle)
        except ProtocolError as error:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
        problem = None
        if handle.topic != header.topic:
            problem = "recall failed, topic not match"
        elif handle.broker_name != config.broker_name:
            problem = "recall failed, broker service not available"
        elif not 0 < _time_ms(handle.deliver_ms) - now_ms < config.timer_max_delay_s * 1000:
            problem = "recall failed, timestamp invalid"
        if problem is not None:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, problem)
        return handle

    def _message(self, handle: RecallHandle, group: str | None, peer: Peer) -> NewMessage:
        now_ms = self._clock_ms()
        with_topic = self._config.append_topic_for_timer_delete_key
        properties = {
            props.TAGS: RECALL_TAG,
            props.TIMER_DELETE_UNIQUE_KEY: f"{handle.topic}+{handle.unique_key}" if with_topic else handle.unique_key,
            props.UNIQUE_KEY: handle.unique_key,
            props.TIMER_DELIVER_MS: handle.deliver_ms,
            props.BORN_TIMESTAMP: str(now_ms),
            props.TRACE_CONTEXT: "",
            props.PRODUCER_GROUP: group or "",
        }
        return NewMessage(
            topic=handle.topic,
            queue_id=0,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=now_ms,
            born_host=peer.born_host,
            store_host=self._address.record_host(peer),
            reconsume_times=0,
            body=b"0",
            properties=properties,
        )


def _time_ms(text: str) -> int:
    """The time in a text; -1 if it is none (``NumberUtils.toLong``)."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else -1


def recall_handle_of(message: NewMessage, broker_name: str) -> str | None:
    """The handle by which a producer can recall a timer message (``attachRecallHandle``); None for other messages."""
    properties = message.properties
    topic, out_ms = properties.get(props.REAL_TOPIC), properties.get(props.TIMER_OUT_MS)
    if topic is None or out_ms is None or topic.startswith(RETRY_PREFIX):
        return None
    return recall_handle(topic, broker_name, int(out_ms), properties[props.UNIQUE_KEY])


def recall_handle(topic: str, broker_name: str, out_ms: int, unique_key: str) -> str:
    """The handle's time is the slot's plus one millisecond, so that it is rounded down to the same slot."""
    return RecallHandle(topic, broker_name, str(out_ms + 1), unique_key).render()
