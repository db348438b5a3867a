"""Encoding of this client's requests: language and version, the ext fields of a typed header, and a signature if there
are credentials."""

from __future__ import annotations

from rmqproto.codes import ONEWAY_FLAG, RESPONSE_FLAG, VERSION, RequestCode, ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.headers.base import Header, to_ext
from rmqproto.wire import header_msgpack
from rmqproto.wire.command import Command, HeaderCodec, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.frames import frame

LANGUAGE = "PYTHON"
CONNECT_HINT = "Is the server running, and is this its address?"

OPAQUE_MASK = 0x7FFFFFFF
"""Opaques are signed 32-bit numbers on the wire; ours stay positive and wrap."""


Fields = Header | dict[str, str]
"""The ext fields of a request: a typed header, or a dict, to which fields are then added."""


class Codec:
    """The encoding for the peer of one connection: JSON, until the peer accepts our offer of MessagePack."""

    __slots__ = ("_is_offered", "is_open", "known")

    def __init__(self) -> None:
        self.known = HeaderCodec.JSON
        self.is_open = True  # whether an answer may still change it
        self._is_offered = False

    def is_to_be_offered(self) -> bool:
        """True once, for the request that makes the offer."""
        was_offered, self._is_offered = self._is_offered, True
        return not was_offered

    def note(self, answer: Command) -> None:
        """Examines an answer, while ``is_open``."""
        if header_msgpack.is_offered(answer.ext):
            self.known, self.is_open = HeaderCodec.MSGPACK, False


def encode_request(
    code: int,
    opaque: int,
    header: Fields | None = None,
    body: bytes = b"",
    *,
    credentials: Credentials | None = None,
    oneway: bool = False,
    codec: Codec | None = None,
) -> bytes:
    """The whole frame of one request, in the ``codec`` of its connection."""
    ext = to_ext(header) if isinstance(header, Header) else header or {}
    is_offer = codec is not None and not oneway and codec.is_to_be_offered()
    if is_offer:
        ext = {**ext, header_msgpack.FIELD: header_msgpack.VALUE}
    if credentials is not None:
        from rmqproto.wire.signing import sign  # 3 ms, not needed without credentials

        sign(ext, body, credentials)
    flag = ONEWAY_FLAG if oneway else 0
    if is_offer:
        return frame(header_msgpack.offer(code, LANGUAGE, VERSION, opaque, flag, None, ext), body)
    known = HeaderCodec.JSON if codec is None else codec.known
    return encode_frame(
        Command(code=code, opaque=opaque, flag=flag, language=LANGUAGE, ext=ext, body=body, codec=known)
    )


def encode_answer(request: Command, code: int, body: bytes = b"", remark: str | None = None) -> bytes:
    """The whole frame of our answer to a broker's request."""
    return encode_frame(
        Command(code=code, opaque=request.opaque, flag=RESPONSE_FLAG, language=LANGUAGE, remark=remark, body=body)
    )


def encode_not_supported(request: Command) -> bytes:
    """Our answer to a request without a handler, in Apache's words."""
    remark = f" request type {request.code} not supported"
    return encode_answer(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)


def refusal(answer: Command, address: str) -> RefusedError:
    """The error for an answer with a failure code."""
    return RefusedError(answer.code, answer.remark or "", address=address)


def request_label(code: int) -> str:
    """``34 HEART_BEAT``: for messages."""
    try:
        return f"{code} {RequestCode(code).name}"
    except ValueError:
        return str(code)
