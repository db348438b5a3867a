"""SEND_REPLY_MESSAGE (324, 325): a consumer answers a request. The reply is stored like any message, and pushed (326)
to the producer that waits for it. The consumer is told whether the producer took it (``ReplyMessageProcessor``,
5.5.0)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rmqproto.codes import REPLY_CODES, RequestCode, ResponseCode
from rmqproto.headers.client_calls import PushReplyHeader
from rmqproto.headers.sending import SendAnswer, SendHeader
from rmqproto.message import properties as props
from rmqproto.message.message_id import offset_id
from rmqserver.broker.sending.answers import RefusedSendAnswer, without_content
from rmqserver.broker.sending.pending import Outcome
from rmqserver.broker.sending.properties import added_by_broker
from rmqserver.broker.sending.put import Put
from rmqserver.broker.sending.send_checks import TopicCheck
from rmqserver.broker.sending.targets import Target
from rmqserver.operation import PeerAnswer, Refused
from rmqserver.remoting.answer import Request, answer_frame, send_answer
from rmqserver.store.new_message import NewMessage
from rmqserver.store.results import Appended, MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

log = logging.getLogger(__name__)

PUSH_TIMEOUT_S = 10.0
"""How long the producer may take to say that it has the reply (``Broker2Client.callClient``)."""

NOT_STORED_ID = "0"
"""The message id of a reply that was pushed and is not stored."""


class Replies:
    def __init__(self, parts: BrokerParts, put: Put):
        self._parts = parts
        self._put = put
        self._check = TopicCheck(parts.config, parts.topics, parts.clock_ms)

    def handlers(self) -> dict[int, Handler]:
        return dict.fromkeys(REPLY_CODES, self._handle)

    def _handle(self, request: Request[SendHeader], connection: Connection) -> None:
        message = self._message(request, connection)
        client_id = message.properties.get(props.REPLY_TO_CLIENT)
        header = self._push_header(request.header, connection, message)  # before the put, which may change the message
        answer = _ReplyAnswer(request, connection, self._parts, self._stored(message), message)
        if answer.is_stored:
            self._put.when_stored(message.properties, answer.stored)
        self._push(client_id, header, bytes(message.body), answer)

    def _message(self, request: Request[SendHeader], connection: Connection) -> NewMessage:
        """The reply as a message. Raises Refused if nothing may be sent to its topic."""
        header, parts = request.header, self._parts
        try:
            config = self._check.topic_of(header, parts.address.ip(connection.local_addr))
            target = Target(config, parts.stats.puts[header.topic])
            queue_id = header.queue_id
            if not 0 <= queue_id < target.queue_limit:
                queue_id = target.choose_queue(queue_id, connection.address)
        except Refused as refused:
            refused.header = _refused_header(parts)
            raise
        return NewMessage(
            topic=header.topic,
            queue_id=queue_id,
            flag=header.flag,
            sys_flag=header.sys_flag | target.sys_flag,
            born_timestamp_ms=header.born_timestamp,
            born_host=connection.born_host,
            store_host=parts.address.record_host(connection),
            reconsume_times=header.reconsume_times,
            body=request.body,
            properties=props.parse(header.properties),
        )

    def _stored(self, message: NewMessage) -> Appended | None:
        """Stores the reply. None if replies are not stored, or this one could not be: it is pushed anyway."""
        if not self._parts.config.store_reply_message_enable:
            return None
        try:
            return self._put.put(message)
        except (MessageRefused, Refused) as refused:
            log.warning("event=reply-not-stored topic=%s reason=%r", message.topic, str(refused))
            return None

    def _push(self, client_id: str | None, header: PushReplyHeader, body: bytes, answer: _ReplyAnswer) -> None:
        if client_id is None:
            answer.push_failed(f"reply message properties[{props.REPLY_TO_CLIENT}] is null")
            return
        producer = self._parts.clients.producer(client_id)
        if producer is None:
            answer.push_failed(f"push reply message fail, channel of <{client_id}> not found.")
            return

        def on_answer(pushed: PeerAnswer | None) -> None:
            if pushed is not None and pushed.code == ResponseCode.SUCCESS:
                answer.pushed()
            else:
                answer.push_failed(f"push reply message to {client_id}fail.")

        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        producer.peer.ask(code, header, body, on_answer, PUSH_TIMEOUT_S)

    def _push_header(self, header: SendHeader, connection: Connection, message: NewMessage) -> PushReplyHeader:
        added = added_by_broker(self._parts.config)
        now_ms = self._parts.clock_ms()
        properties = {
            **message.properties,
            props.MSG_REGION: added[props.MSG_REGION],
            props.TRACE_ON: added[props.TRACE_ON],
            props.PUSH_REPLY_TIME: str(now_ms),
        }
        return PushReplyHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=message.queue_id,
            sys_flag=message.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=props.joined(properties).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=header.is_unit,
            born_host=connection.address,
            store_host=self._parts.address.address(connection),
            store_timestamp=now_ms,
        )


class _ReplyAnswer:
    """The consumer's answer, given once the producer has answered and the store has done what it promised."""

    def __init__(
        self,
        request: Request[SendHeader],
        connection: Connection,
        parts: BrokerParts,
        appended: Appended | None,
        message: NewMessage,
    ):
        self.is_stored = appended is not None
        self._request = without_content(request)
        self._connection = connection
        self._outcome: Outcome | None = None
        self._is_waiting_for_store = self.is_stored
        added = _refused_header(parts)
        self._header = SendAnswer(
            message_id=_message_id(message, appended),
            queue_id=message.queue_id if appended is not None else 0,
            queue_offset=appended.queue_offset if appended is not None else 0,
            msg_region=added.msg_region,
            trace_on=added.trace_on,
        )

    def stored(self, outcome: Outcome) -> None:
        """To be called however storing ended: as in Apache's broker, the push alone decides what the consumer hears."""
        self._is_waiting_for_store = False
        self._answer()

    def pushed(self) -> None:
        self._outcome = Outcome(ResponseCode.SUCCESS)
        self._answer()

    def push_failed(self, remark: str) -> None:
        self._outcome = Outcome(ResponseCode.SYSTEM_ERROR, remark)
        self._answer()

    def _answer(self) -> None:
        if self._outcome is None or self._is_waiting_for_store:
            return
        frame = answer_frame(self._request, self._outcome.code, self._outcome.remark, self._header, b"")
        send_answer(self._request, self._connection, frame)


def _message_id(message: NewMessage, appended: Appended | None) -> str:
    return NOT_STORED_ID if appended is None else offset_id(message.store_host, appended.log_offset)


def _refused_header(parts: BrokerParts) -> RefusedSendAnswer:
    added = added_by_broker(parts.config)
    return RefusedSendAnswer(msg_region=added[props.MSG_REGION], trace_on=added[props.TRACE_ON])
