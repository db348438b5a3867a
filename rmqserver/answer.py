"""Answer frames: what a handler returns, in the request's own header codec and with the stamps of Apache's 5.5.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from rmqproto import header_msgpack
from rmqproto.codes import ONEWAY_FLAG, RESPONSE_FLAG, VERSION
from rmqproto.command import ENCODERS, HeaderCodec, frame
from rmqproto.headers import Header, to_ext
from rmqproto.java_numbers import Int32

if TYPE_CHECKING:
    from rmqserver.connection import Connection

H = TypeVar("H", bound=Header)

LANGUAGE = "JAVA"
"""What a real broker says; some clients decide by it how to read a body."""


UNSET_REMARK = "not set any response code"
"""The remark of a successful answer in which Apache's handler sets none. Only the code tells success."""


MSGPACK_OFFERED = 0x100
"""The ``codec`` of a JSON request that offers MessagePack: its answer is JSON too, and echoes the offer."""


class Request(msgspec.Struct, Generic[H], gc=False):
    """One request, its ext fields typed. Decoded straight from a JSON header where that is possible, so the names are
    the wire's; the last two are no part of a header and are always set after decoding, whatever a peer puts there."""

    code: Int32
    opaque: Int32
    header: H = msgspec.field(name="extFields")
    flag: Int32 = 0
    language: str | int | None = "JAVA"
    version: Int32 = 0
    body: bytes = msgspec.field(default=b"", name="/body")
    codec: int = msgspec.field(default=0, name="/codec")

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)


class Deferred:
    """What a handler returns that answers later, by ``connection.send``: the constant DEFERRED."""

    __slots__ = ()


DEFERRED = Deferred()


class Refused(Exception):
    """Raised in a handler: the request is answered with ``code`` and ``remark``, and ``header`` if there is one."""

    def __init__(self, code: int, remark: str, header: Header | None = None):
        super().__init__(code, remark)
        self.code = code
        self.remark = remark
        self.header = header


def success(request: Request[Any], header: Header | None = None, body: bytes = b"", remark: str | None = None) -> bytes:
    return answer_frame(request, 0, remark, header, body)


def refusal(request: Request[Any], code: int, remark: str | None, header: Header | None = None) -> bytes:
    return answer_frame(request, code, remark, header, b"")


def answer_frame(request: Request[Any], code: int, remark: str | None, header: Header | None, body: bytes) -> bytes:
    ext = {} if header is None else to_ext(header)
    codec = request.codec
    if codec == MSGPACK_OFFERED:
        codec, ext[header_msgpack.FIELD] = HeaderCodec.JSON, header_msgpack.VALUE
    raw = ENCODERS[codec](code, LANGUAGE, VERSION, request.opaque, RESPONSE_FLAG, remark, ext)
    return frame(raw, body, codec)


def send_answer(request: Request[Any], connection: Connection, frame: bytes) -> None:
    """Nobody waits for the answer of a oneway request."""
    if not request.is_oneway:
        connection.send(frame)
