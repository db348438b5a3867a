"""Answers that are rendered by hand, and those to sends, given when the store has done what they promise. At 100,000
messages a second, building a header object and encoding it would cost as much as storing the message. So there are
templates for the answers to a plain send, to a plain batch, to pulls and pops that found messages. All others, those
with header codecs other than JSON, and those with something that JSON would escape, are rendered from their typed
headers."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from rmqproto.codes import RESPONSE_FLAG, VERSION
from rmqproto.headers.base import Header, NoFields
from rmqproto.headers.sending import SendAnswer
from rmqproto.wire import header_binary
from rmqserver.broker.sending.pending import STORED, OnDone, Outcome, PendingPut
from rmqserver.broker.sending.put import SendOutcome
from rmqserver.core import Appended
from rmqserver.remoting.answer import LANGUAGE, Request, answer_frame

if TYPE_CHECKING:
    from rmqserver.core import Puts
    from rmqserver.remoting.connection import Connection


# total size u32 | header codec u8 (0, JSON), header size u24
HEAD = struct.Struct(">II")
"""The first eight bytes of a frame. The total size counts everything after itself."""

FOUND = (
    '{"code":0,"extFields":{"groupSysFlag":"%d","maxOffset":"%d","minOffset":"%d","nextBeginOffset":"%d",'
    f'"suggestWhichBrokerId":"%d","topicSysFlag":"%d"}},"flag":1,"language":"{LANGUAGE}","opaque":%d,"remark":"FOUND",'
    f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
).encode()
"""To be filled with the group's sysFlag, the highest, the lowest and the next queue offset, the broker to ask next, the
topic's sysFlag, and the opaque."""


def found_pieces(group_sys_flag: int, topic_sys_flag: int) -> tuple[bytes, ...]:
    """FOUND of broker 0, cut where the highest, the lowest and the next queue offset and the opaque go."""
    filled = FOUND.decode().replace("%d", "%s") % (group_sys_flag, "\0", "\0", "\0", 0, topic_sys_flag, "\0")
    return tuple(filled.encode().split(b"\0"))


POP_FOUND = (
    '{"code":0,"extFields":{"popTime":"%d","invisibleTime":"%d","reviveQid":"%d","restNum":"%d","startOffsetInfo":"%s",'
    f'"msgOffsetInfo":"%s"}},"flag":1,"language":"{LANGUAGE}","opaque":%d,"remark":"FOUND",'
    f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
)
"""To be filled with the members of ``PopAnswer`` except ``order_count_info``, and the opaque."""


def sent_pieces(region: str, trace_on: str) -> tuple[bytes, ...]:
    """What stands before message ids, queue id, queue offset, unique key and opaque, and at the end."""
    pieces = (
        f'{{"code":0,"extFields":{{"MSG_REGION":{json.dumps(region)},"TRACE_ON":"{trace_on}","msgId":"',
        '","queueId":"',
        '","queueOffset":"',
        '","transactionId":"',
        f'"}},"flag":1,"language":"{LANGUAGE}","opaque":',
        f',"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}',
    )
    return tuple(piece.encode() for piece in pieces)


def binary_sent_pieces(region: str, trace_on: str) -> tuple[bytes, ...]:
    """The same in the binary codec: names before the sizes of their values; then more ext fields, and the begin of the
    header, up to the size of all ext fields."""
    names = ("msgId", "queueId", "queueOffset", "transactionId")
    header = header_binary.encode(0, LANGUAGE, VERSION, 0, RESPONSE_FLAG, None, {})
    more = header_binary.encode(0, LANGUAGE, VERSION, 0, 0, None, {"MSG_REGION": region, "TRACE_ON": trace_on})
    return *(struct.pack(">h", len(name)) + name.encode() for name in names), more[len(header) :], header[:-4]


def sent_template(region: str, trace_on: str, store_host: bytes) -> bytes:
    """A template to be filled with the log offset, further message ids, each behind a comma, the queue id, the queue
    offset of the first, further ext fields, and the opaque. It has the quotes around values, so a further field begins
    with the last one of the value before it, and lacks its own."""
    pieces = (piece.decode().replace("%", "%%") for piece in sent_pieces(region, trace_on))
    before, queue_id, queue_offset, _, opaque, end = pieces
    return f"{before}{store_host.hex().upper()}%016X%b{queue_id}%d{queue_offset}%d%b{opaque}%d{end}".encode()


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
        self.pieces = sent_pieces(region, trace_on) + binary_sent_pieces(region, trace_on)

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
        template = sent_template(self._region, self._trace_on, store_host)
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
