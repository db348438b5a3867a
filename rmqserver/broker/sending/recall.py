"""RECALL_MESSAGE (370): takes back a timer message before its time (``RecallMessageProcessor``, 5.5.0). The recall is
stored as a timer message, too, and meets the other one in its slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.headers.sending import RecallAnswer, RecallHeader
from rmqproto.message import properties as props
from rmqproto.message.recall_handle import RecallHandle, parse_untrusted
from rmqproto.perm import PERM_WRITE
from rmqserver.broker.sending.answers import without_content
from rmqserver.broker.sending.pending import OnDone, Outcome
from rmqserver.broker.sending.put import Put
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, refusal, success
from rmqserver.store.new_message import NewMessage
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.operation import Peer
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

RECALL_TAG = "_RECALL_TAG_"
_FAILED = "recall failed, execute error"


class Recalls:
    def __init__(self, parts: BrokerParts, put: Put):
        self._config = parts.config
        self._topics = parts.topics
        self._address = parts.address
        self._clock_ms = parts.clock_ms
        self._put = put

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.RECALL_MESSAGE: self.recall}

    def recall(self, request: Request[RecallHeader], connection: Connection) -> None:
        region = RecallAnswer(msg_region=self._config.region_id)
        try:
            handle = self._checked(request.header)
            message = self._message(handle, request.header.producer_group, connection)
            self._put.put(message)
        except Refused as refused:
            refused.header = region
            raise
        except MessageRefused:
            raise Refused(ResponseCode.SYSTEM_ERROR, _FAILED, region) from None
        if not request.is_oneway:
            answer = RecallAnswer(message_id=handle.unique_key, msg_region=region.msg_region)
            self._put.when_stored(message.properties, _when_done(request, connection, answer))

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
            handle = parse_untrusted(header.recall_handle)
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


def _when_done(request: Request[RecallHeader], connection: Connection, answer: RecallAnswer) -> OnDone:
    kept = without_content(request)

    def on_done(outcome: Outcome) -> None:
        if outcome.is_lost:
            region = RecallAnswer(msg_region=answer.msg_region)
            connection.send(refusal(kept, ResponseCode.SYSTEM_ERROR, _FAILED, region))
        else:
            connection.send(success(kept, answer, remark=UNSET_REMARK))

    return on_done
