"""Answers to sends, given when the store has done what they promise. Nearly all come from a template: those in JSON
that say where a message is, and have nothing that JSON would escape."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.headers.base import Header, NoFields
from rmqproto.headers.sending import SendAnswer
from rmqproto.wire.frames import frame
from rmqserver.broker.sending.pending import STORED, OnDone, Outcome, PendingPut
from rmqserver.broker.sending.put import SendOutcome
from rmqserver.core import Appended
from rmqserver.doors.remoting import answer_templates
from rmqserver.remoting.answer import Request, answer_frame

if TYPE_CHECKING:
    from rmqserver.core import Puts
    from rmqserver.remoting.connection import Connection

_NO_FIELDS = NoFields()


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
        self._template = answer_templates.sent(region, trace_on)
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
            sent = SendOutcome(appended, queue_id, store_host, unique_key.decode() or None, batch=batch)
            yield connection, self._frame(outcome, opaque, codec, sent)

    def when_done(self, request: Request[Any], connection: Connection, sent: SendOutcome) -> OnDone:
        """The function that answers a request."""
        opaque, codec = request.opaque, request.codec
        return lambda outcome: connection.send(self._frame(outcome, opaque, codec, sent))

    def _frame(self, outcome: Outcome, opaque: int, codec: int, sent: SendOutcome) -> bytes:
        key, handle, is_plain = sent.unique_key or "", sent.recall_handle, outcome is STORED and not codec
        if is_plain and not sent.is_repeat and (not key or (key.isascii() and key.isalnum())):
            more = f'","recallHandle":"{handle}' if handle is not None else ""
            more += f'","transactionId":"{key}' if key else ""
            header = self._template % (_offset_ids(sent), sent.queue_id, sent.appended.queue_offset, more, opaque)
            return frame(header.encode())
        answer = None if outcome.is_lost else self._answer(sent)
        request = Request(code=0, opaque=opaque, header=_NO_FIELDS, codec=codec)
        return answer_frame(request, outcome.code, outcome.remark, answer, b"")

    def _answer(self, sent: SendOutcome) -> SendAnswer:
        return SendAnswer(
            message_id=_offset_ids(sent),
            queue_id=sent.queue_id,
            queue_offset=sent.appended.queue_offset,
            transaction_id=sent.unique_key,
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
    host = _in_hex(sent.store_host)
    if sent.batch is None:
        return f"{host}{sent.appended.log_offset:016X}"
    numbers = struct.pack(f">{len(sent.batch)}Q", *sent.batch).hex(",", 8).upper()
    return host + numbers.replace(",", f",{host}")


@lru_cache(maxsize=64)
def _in_hex(store_host: bytes) -> str:
    return store_host.hex().upper()
