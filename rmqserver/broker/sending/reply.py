"""Replies: a consumer answers a request. The reply is stored like any message, and pushed (326) to the producer that
waits for it. The consumer is told whether the producer took it (``ReplyMessageProcessor``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.consuming import PushReplyHeader
from rmqproto.headers.sending import SendHeader
from rmqproto.message import properties as props
from rmqproto.message.message_id import offset_id
from rmqserver.broker.sending.pending import Outcome
from rmqserver.broker.sending.properties import added_by_broker
from rmqserver.broker.sending.put import Put
from rmqserver.broker.sending.targets import Target
from rmqserver.core import Appended
from rmqserver.operation import PeerAnswer, Refused
from rmqserver.store.new_message import NewMessage
from rmqserver.store.results import MessageRefused

if TYPE_CHECKING:
    from rmqserver.broker.clients.clients import Clients
    from rmqserver.broker.own_address import OwnAddress
    from rmqserver.broker.sending.targets import Targets
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer

log = logging.getLogger(__name__)

PUSH_TIMEOUT_S = 10.0
"""How long the producer may take to say that it has the reply (``Broker2Client.callClient``)."""


class Replied(NamedTuple):
    """How a reply ended, with the code and the remark of its answer, and where it is stored."""

    code: int
    remark: str | None
    message_id: str
    queue_id: int
    queue_offset: int


class Replies:
    def __init__(
        self, config: BrokerConfig, targets: Targets, clients: Clients, stats: BrokerStats, address: OwnAddress,
        put: Put, clock_ms: Callable[[], int],
    ):  # fmt: skip
        self._config = config
        self._targets = targets
        self._clients = clients
        self._stats = stats
        self._address = address
        self._put = put
        self._clock_ms = clock_ms

    def put(self, header: SendHeader, body: bytes, peer: Peer, on_replied: Callable[[Replied], None]) -> None:
        """Stores the reply and pushes it. ``on_replied`` is called once, when the producer has answered and the store
        has done what it promised. Raises Refused if nothing may be sent to the reply's topic."""
        message = self._message(header, body, peer)
        client_id = message.properties.get(props.REPLY_TO_CLIENT)
        push_header = self._push_header(header, peer, message)  # before the put, which may change the message
        reply = _Reply(on_replied, message, self._stored(message))
        if reply.is_stored:
            self._put.when_stored(message.properties, reply.stored)
        self._push(client_id, push_header, bytes(message.body), reply)

    def _message(self, header: SendHeader, body: bytes, peer: Peer) -> NewMessage:
        """The reply as a message. Raises Refused if nothing may be sent to its topic."""
        target = Target(
            self._targets.topic_of(header, self._address.ip(peer.local_addr)), self._stats.puts[header.topic]
        )
        queue_id = target.choose_queue(header.queue_id, peer.address)
        return NewMessage(
            topic=header.topic,
            queue_id=queue_id,
            flag=header.flag,
            sys_flag=header.sys_flag | target.sys_flag,
            born_timestamp_ms=header.born_timestamp,
            born_host=peer.born_host,
            store_host=self._address.record_host(peer),
            reconsume_times=header.reconsume_times,
            body=body,
            properties=props.parse(header.properties),
        )

    def _stored(self, message: NewMessage) -> Appended | None:
        """Stores the reply. None if replies are not stored, or this one could not be: it is pushed anyway."""
        if not self._config.store_reply_message_enable:
            return None
        try:
            return self._put.put(message)
        except (MessageRefused, Refused) as refused:
            log.warning("event=reply-not-stored topic=%s reason=%r", message.topic, str(refused))
            return None

    def _push(self, client_id: str | None, header: PushReplyHeader, body: bytes, reply: _Reply) -> None:
        if client_id is None:
            reply.push_failed(f"reply message properties[{props.REPLY_TO_CLIENT}] is null")
            return
        producer = self._clients.producer(client_id)
        if producer is None:
            reply.push_failed(f"push reply message fail, channel of <{client_id}> not found.")
            return

        def on_answer(pushed: PeerAnswer | None) -> None:
            if pushed is not None and pushed.code == ResponseCode.SUCCESS:
                reply.pushed()
            else:
                reply.push_failed(f"push reply message to {client_id}fail.")

        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        producer.peer.ask(code, header, body, on_answer, PUSH_TIMEOUT_S)

    def _push_header(self, header: SendHeader, peer: Peer, message: NewMessage) -> PushReplyHeader:
        added = added_by_broker(self._config)
        now_ms = self._clock_ms()
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
            born_host=peer.address,
            store_host=self._address.address(peer),
            store_timestamp=now_ms,
        )


class _Reply:
    """A reply on its way."""

    def __init__(self, on_replied: Callable[[Replied], None], message: NewMessage, appended: Appended | None):
        self.is_stored = appended is not None
        self._on_replied = on_replied
        self._outcome: Outcome | None = None
        self._is_waiting_for_store = self.is_stored
        self._place = "0", 0, 0  # of a reply that is pushed and not stored
        if appended is not None:
            message_id = offset_id(message.store_host, appended.log_offset)
            self._place = message_id, message.queue_id, appended.queue_offset

    def stored(self, outcome: Outcome) -> None:
        """To be called however storing ended: as in Apache's broker, the push alone decides what the consumer hears."""
        self._is_waiting_for_store = False
        self._tell()

    def pushed(self) -> None:
        self._outcome = Outcome(ResponseCode.SUCCESS)
        self._tell()

    def push_failed(self, remark: str) -> None:
        self._outcome = Outcome(ResponseCode.SYSTEM_ERROR, remark)
        self._tell()

    def _tell(self) -> None:
        if self._outcome is not None and not self._is_waiting_for_store:
            code, remark = self._outcome
            self._on_replied(Replied(code, remark, *self._place))
