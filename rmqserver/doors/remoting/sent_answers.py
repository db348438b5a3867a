"""Answers to sends, given when the store has done what they promise. Nearly all come from a template: those in JSON
that say where a message is, and have nothing that JSON would escape."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.headers.base import Header, NoFields
from rmqproto.headers.sending import SendAnswer
from rmqserver.broker.sending.pending import STORED, OnDone, Outcome, PendingPut
from rmqserver.broker.sending.put import SendOutcome
from rmqserver.core import Appended
from rmqserver.doors.remoting import answer_templates
from rmqserver.doors.remoting.answer_templates import HEAD
from rmqserver.remoting.answer import Request, answer_frame

if TYPE_CHECKING:
    from rmqserver.core import Puts
    from rmqserver.remoting.connection import Connection

_NO_FIELDS = NoFields()

STORE_HOSTS_MAX = 64
"""Templates kept. A machine has only a handful of addresses."""


class RefusedSendAnswer(Header, kw_only=True):
    """Goes with every refusal of a send."""

    msg_region: str = msgspec.field(name="MSG_REGION")
    trace_on: str = msgspec.field(name="TRACE_ON")


class SentAnswers:
    """The answers to sends. Made anew whenever a setting changes."""

    def __init__(self, region: str, trace_on: str):
        self.refused_header = RefusedSendAnswer(msg_region=region, trace_on=trace_on)
        self._region = region
        self._trace_on = trace_on
        self._templates: dict[bytes, bytes] = {}
        self.pieces = answer_templates.sent_pieces(region, trace_on) + answer_templates.binary_sent_pieces(
            region, trace_on
        )

    def put(self, outcome: Outcome, put: PendingPut) -> None:
        """Answers a put that holds, after this function: connection, opaque, header codec, and SendOutcome."""
        _, connection, opaque, codec, sent = put
        connection.send(self._frame(outcome, opaque, codec, sent))

    def of_puts(self, outcome: Outcome, puts: Puts) -> Iterator[tuple[Connection, bytes]]:
        """The answers to plain sends that the native core took, if they are not simply stored."""
        for connection, opaque, queue_id, store_host, log_offset, queue_offset, unique_key, batch, codec in puts.all():
            appended = Appended(log_offset, 0, queue_offset)
            sent = SendOutcome(appended, queue_id, store_host, unique_key, batch=batch)
            yield connection, self._frame(outcome, opaque, codec, sent)

    def when_done(self, request: Request[Any], connection: Connection, sent: SendOutcome) -> OnDone:
        """The function that answers a request."""
        opaque, codec = request.opaque, request.codec
        return lambda outcome: connection.send(self._frame(outcome, opaque, codec, sent))

    def _frame(self, outcome: Outcome, opaque: int, codec: int, sent: SendOutcome) -> bytes:
        key, host, appended = sent.unique_key, sent.store_host, sent.appended
        if outcome is STORED and not codec and not sent.is_repeat and (not key or key.isalnum()):
            template = self._templates.get(host) or self._add_template(host)
            more_ids = b"" if sent.batch is None else _offset_ids(sent)[2 * len(host) + 16 :].encode()
            more = b'","transactionId":"' + key if key else b""
            if sent.recall_handle is not None:
                more = b'","recallHandle":"%b%b' % (sent.recall_handle.encode(), more)
            header = template % (appended.log_offset, more_ids, sent.queue_id, appended.queue_offset, more, opaque)
            return HEAD.pack(4 + len(header), len(header)) + header
        answer = None if outcome.is_lost else self._answer(sent)
        request = Request(code=0, opaque=opaque, header=_NO_FIELDS, codec=codec)
        return answer_frame(request, outcome.code, outcome.remark, answer, b"")

    def _add_template(self, store_host: bytes) -> bytes:
        if len(self._templates) >= STORE_HOSTS_MAX:
            self._templates.clear()
        template = answer_templates.sent(self._region, self._trace_on, store_host)
        self._templates[store_host] = template
        return template

    def _answer(self, sent: SendOutcome) -> SendAnswer:
        return SendAnswer(
            message_id=_offset_ids(sent),
            queue_id=sent.queue_id,
            queue_offset=sent.appended.queue_offset,
            transaction_id=sent.unique_key.decode() or None,
            msg_region=self._region,
            trace_on=self._trace_on,
            recall_handle=sent.recall_handle,
            repeated="true" if sent.is_repeat else None,
        )


def without_content(request: Request[Any]) -> Request[Any]:
    """The part of a request that an answer needs: keeping the body until a flush would cost more than the message."""
    return Request(
        request.code, request.opaque, _NO_FIELDS, request.flag, request.language, request.version, b"", request.codec
    )  # fmt: skip


def telling(request: Request[Any], connection: Connection) -> OnDone | None:
    """Answers a request with its outcome. None for a oneway request, for which nothing need wait."""
    if request.is_oneway:
        return None
    kept = without_content(request)
    return lambda outcome: connection.send(answer_frame(kept, outcome.code, outcome.remark, None, b""))


def _offset_ids(sent: SendOutcome) -> str:
    """The message ids, joined by commas. A batch has many: writing all numbers as hex at once costs a quarter."""
    host, log_offsets = sent.store_host.hex().upper(), sent.batch or [sent.appended.log_offset]
    numbers = struct.pack(f">{len(log_offsets)}Q", *log_offsets).hex(",", 8).upper()
    return host + numbers.replace(",", f",{host}")
