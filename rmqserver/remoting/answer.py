"""Answer frames: a handler's result in the request's own header codec, with the stamps of Apache's 5.5.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from rmqproto.codes import ONEWAY_FLAG, RESPONSE_FLAG, VERSION
from rmqproto.headers.base import Header, to_ext
from rmqproto.java.java_numbers import Int32
from rmqproto.wire.command import ENCODERS
from rmqproto.wire.frames import frame

if TYPE_CHECKING:
    from rmqserver.remoting.connection import Connection

H = TypeVar("H", bound=Header)

LANGUAGE = "JAVA"
"""The language that a real broker sends. Some clients decide by it how to read a body."""


class Request(msgspec.Struct, Generic[H], gc=False):
    """One request with its ext fields typed. A JSON header is decoded straight into it, so the first five fields have
    the wire's names. ``body``, ``codec`` (a HeaderCodec) and ``raw_header`` are set after decoding and replace anything
    that a peer put there."""

    code: Int32
    opaque: Int32
    header: H = msgspec.field(name="extFields")
    flag: Int32 = 0
    language: str | int | None = "JAVA"
    version: Int32 = 0
    body: bytes = b""
    codec: int = 0
    raw_header: bytes = b""
    """As it came, if it was decoded straight."""

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)


_SUCCESS = (
    f'{{"code":0,%b"flag":{RESPONSE_FLAG},"language":"{LANGUAGE}","opaque":%d,"serializeTypeCurrentRPC":"JSON",'
    f'"version":{VERSION}}}'
).encode()
"""The JSON header of a success without a remark, for the member of its ext fields, if there are any, and an opaque."""

_encode = msgspec.json.Encoder().encode


def success(request: Request[Any], header: Header | None = None, body: bytes = b"", remark: str | None = None) -> bytes:
    return answer_frame(request, 0, remark, header, body)


def refusal(request: Request[Any], code: int, remark: str | None, header: Header | None = None) -> bytes:
    return answer_frame(request, code, remark, header, b"")


def answer_frame(request: Request[Any], code: int, remark: str | None, header: Header | None, body: bytes) -> bytes:
    ext = {} if header is None else to_ext(header)
    if not (code or remark is not None or request.codec):
        return frame(_SUCCESS % (b'"extFields":%b,' % _encode(ext) if ext else b"", request.opaque), body)
    raw = ENCODERS[request.codec](code, LANGUAGE, VERSION, request.opaque, RESPONSE_FLAG, remark, ext)
    return frame(raw, body, request.codec)


def send_answer(request: Request[Any], connection: Connection, frame: bytes) -> None:
    """Sends the answer; a oneway request gets none."""
    if not request.flag & ONEWAY_FLAG:
        connection.send(frame)
