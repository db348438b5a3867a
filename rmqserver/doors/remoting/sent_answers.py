"""Answers to sends, given when the store has done what they promise. Answers to plain messages come from a template.
Requests with a header codec other than JSON, which are rare, are answered the ordinary way."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.headers.base import Header, NoFields
from rmqproto.headers.sending import SendAnswer
from rmqserver.broker.sending.pending import STORED, OnDone, Outcome, PendingPut
from rmqserver.broker.sending.send import SendOutcome
from rmqserver.core import Appended
from rmqserver.doors.remoting import answer_templates
from rmqserver.doors.remoting.answer_templates import HEAD
from rmqserver.remoting.answer import Request, answer_frame

if TYPE_CHECKING:
    from rmqserver.core import Puts
    from rmqserver.remoting.connection import Connection

STORE_HOSTS_MAX = 64
"""How many of our addresses are remembered as hex. A machine has only a handful."""

_NO_FIELDS = NoFields()
_Make = Callable[[str, str, bytes], bytes]


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
        self._timer_templates: dict[bytes, bytes] = {}
        self._batch_template = answer_templates.sent_batch(region, trace_on)
        self.pieces = answer_templates.sent_pieces(region, trace_on) + answer_templates.binary_sent_pieces(
            region, trace_on
        )

    def plain(self, outcome: Outcome, put: PendingPut) -> None:
        """Answers a plain JSON request. ``put`` holds, after this function: connection, opaque, store host, where the
        message went (Appended), queue id, unique key (alphanumeric bytes)."""
        _, connection, opaque, store_host, appended, queue_id, unique_key = put
        if outcome is STORED:
            template = self._templates.get(store_host) or self._made(self._templates, answer_templates.sent, store_host)
            header = template % (appended.log_offset, queue_id, appended.queue_offset, unique_key, opaque)
            connection.send(HEAD.pack(4 + len(header), len(header)) + header)
        else:
            request = Request(code=0, opaque=opaque, header=NoFields())
            sent = SendOutcome(appended, queue_id, store_host, unique_key.decode())
            connection.send(_frame(request, outcome, self._answer(sent)))

    def timer(self, outcome: Outcome, put: PendingPut) -> None:
        """As ``plain``; ``put`` ends with the recall handle (ASCII bytes)."""
        _, connection, opaque, store_host, appended, queue_id, unique_key, handle = put
        if outcome is STORED:
            template = self._timer_templates.get(store_host) or self._made(
                self._timer_templates, answer_templates.sent_timer, store_host
            )
            header = template % (appended.log_offset, queue_id, appended.queue_offset, handle, unique_key, opaque)
            connection.send(HEAD.pack(4 + len(header), len(header)) + header)
        else:
            request = Request(code=0, opaque=opaque, header=NoFields())
            sent = SendOutcome(appended, queue_id, store_host, unique_key.decode(), handle.decode())
            connection.send(_frame(request, outcome, self._answer(sent)))

    def of_puts(self, outcome: Outcome, puts: Puts) -> Iterator[tuple[Connection, bytes]]:
        """The answers to plain sends that the native core took, if they are not simply stored."""
        for connection, opaque, queue_id, store_host, log_offset, queue_offset, unique_key, batch, codec in puts.all():
            request = Request(code=0, opaque=opaque, header=_NO_FIELDS, codec=codec)
            appended = Appended(log_offset, 0, queue_offset)
            sent = SendOutcome(appended, queue_id, store_host, unique_key.decode() or None, batch=batch)
            yield connection, _frame(request, outcome, self._answer(sent))

    def when_done(self, request: Request[Any], connection: Connection, sent: SendOutcome) -> OnDone:
        """The function that answers a batch, or a request that is not plain."""
        request = without_content(request)
        is_plain_batch = sent.unique_key is None and not request.codec and not sent.is_repeat

        def on_done(outcome: Outcome) -> None:
            if is_plain_batch and outcome is STORED:
                ids = _offset_ids(sent).encode()
                header = self._batch_template % (ids, sent.queue_id, sent.appended.queue_offset, request.opaque)
                connection.send(HEAD.pack(4 + len(header), len(header)) + header)
            else:
                connection.send(_frame(request, outcome, self._answer(sent)))

        return on_done

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

    def _made(self, templates: dict[bytes, bytes], make: _Make, store_host: bytes) -> bytes:
        if len(templates) >= STORE_HOSTS_MAX:
            templates.clear()
        made = templates[store_host] = make(self._region, self._trace_on, store_host)
        return made


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


def _frame(request: Request[Any], outcome: Outcome, answer: SendAnswer) -> bytes:
    header = None if outcome.is_lost else answer
    return answer_frame(request, outcome.code, outcome.remark, header, b"")


def _offset_ids(sent: SendOutcome) -> str:
    """The message ids, joined by commas. A batch has many: writing all numbers as hex at once costs a quarter."""
    host, log_offsets = sent.store_host.hex().upper(), sent.batch or [sent.appended.log_offset]
    numbers = struct.pack(f">{len(log_offsets)}Q", *log_offsets).hex(",", 8).upper()
    return host + numbers.replace(",", f",{host}")
