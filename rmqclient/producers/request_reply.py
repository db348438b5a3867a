"""Requests and replies: a request that says where the reply goes, the reply, and the replies that a broker pushes to us
(``RequestFutureHolder``, ``MessageUtil``, ``ClientRemotingProcessor``, 5.5.0)."""

from __future__ import annotations

import dataclasses
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from rmqclient.message import Message, ReceivedMessage
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import PushReplyHeader
from rmqproto.hosts import split_address
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, body_crc, host_bytes
from rmqproto.names import reply_topic
from rmqproto.wire.command import Command

log = logging.getLogger(__name__)

REPLY = "reply"
"""Value of MSG_TYPE."""

NO_OFFSET = -1
"""The offset of a pushed reply, whose place is not known."""


def reply_to(request: ReceivedMessage, body: bytes) -> Message:
    """The message that answers ``request``, for any producer to send. UsageError if ``request`` is not a request, or
    came from a broker that does not name its cluster."""
    known = request.properties
    missing = [name for name in (props.CLUSTER, props.CORRELATION_ID, props.REPLY_TO_CLIENT) if name not in known]
    if missing:
        raise UsageError(
            f"message {request.message_id} cannot be replied to: it has no {', '.join(missing)}",
            hint="Only messages sent with Producer.request wait for a reply.",
        )
    properties = {
        props.MSG_TYPE: REPLY,
        props.CORRELATION_ID: known[props.CORRELATION_ID],
        props.REPLY_TO_CLIENT: known[props.REPLY_TO_CLIENT],
        props.TTL: known.get(props.TTL, "0"),
    }
    return Message(reply_topic(known[props.CLUSTER]), body, properties=properties)


def is_reply(message: Message) -> bool:
    return message.properties.get(props.MSG_TYPE) == REPLY


class OpenRequest:
    """One request that waits for its reply."""

    def __init__(self, correlation_id: str):
        self._correlation_id = correlation_id
        self._arrived = anyio.Event()
        self._reply: ReceivedMessage | None = None

    def request(self, message: Message, client_id: str, timeout_s: float) -> Message:
        """``message`` with the properties that say which client and request the reply belongs to."""
        properties = {
            **message.properties,
            props.CORRELATION_ID: self._correlation_id,
            props.REPLY_TO_CLIENT: client_id,
            props.TTL: str(int(timeout_s * 1000)),
        }
        return dataclasses.replace(message, properties=properties)

    def answer(self, reply: ReceivedMessage) -> None:
        self._reply = reply
        self._arrived.set()

    async def reply(self) -> ReceivedMessage:
        await self._arrived.wait()
        assert self._reply is not None
        return self._reply


class OpenRequests:
    """The open requests of one producer, by correlation id."""

    def __init__(self) -> None:
        self._open: dict[str, OpenRequest] = {}

    @contextmanager
    def opened(self) -> Iterator[OpenRequest]:
        """A new request, which is forgotten at the end of the context: a reply that comes later is ignored."""
        correlation_id = str(uuid.uuid4())
        self._open[correlation_id] = opened = OpenRequest(correlation_id)
        try:
            yield opened
        finally:
            del self._open[correlation_id]

    async def take_reply(self, pushed: Command) -> bytes:
        """326. ProtocolError if it is not a reply."""
        reply = ReceivedMessage(_reply_untrusted(pushed), broker_name="")
        correlation_id = reply.properties.get(props.CORRELATION_ID, "")
        opened = self._open.get(correlation_id)
        if opened is None:
            log.warning("reply to nobody correlation_id=%s topic=%s", correlation_id, reply.topic)
        else:
            opened.answer(reply)
        return b""


def _reply_untrusted(pushed: Command) -> StoredMessage:
    header = from_ext(pushed.ext, PushReplyHeader)
    properties = props.parse(header.properties or "")
    properties[props.ARRIVE_TIME] = str(time.time_ns() // 1_000_000)
    raw = props.joined(properties)  # the text as it came, because a value may hold a separator
    return StoredMessage(
        size_bytes=len(pushed.body) + len(raw),
        body_crc=body_crc(pushed.body),
        queue_id=header.queue_id,
        flag=header.flag,
        queue_offset=NO_OFFSET,
        log_offset=NO_OFFSET,
        sys_flag=header.sys_flag,
        born_timestamp_ms=header.born_timestamp,
        born_host=_host_untrusted(header.born_host),
        store_timestamp_ms=header.store_timestamp,
        store_host=_host_untrusted(header.store_host),
        reconsume_times=header.reconsume_times or 0,
        prepared_transaction_offset=0,
        body=pushed.body,
        topic=header.topic,
        properties_raw=raw,
    )


def _host_untrusted(address: str) -> bytes:
    """The encoded host. ProtocolError if it is not an address."""
    try:
        return host_bytes(*split_address(address.lstrip("/")))
    except (UsageError, ValueError) as error:
        raise ProtocolError(f"reply: {error}") from None
