"""Encoding of this client's requests: language and version, the ext fields of a typed header, and a signature if there
are credentials."""

from __future__ import annotations

from rmqproto.codes import ONEWAY_FLAG, RESPONSE_FLAG, RequestCode, ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.headers.base import Header, to_ext
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.credentials import Credentials

LANGUAGE = "PYTHON"
CONNECT_HINT = "Is the server running, and is this its address?"

OPAQUE_MASK = 0x7FFFFFFF
"""Opaques are signed 32-bit numbers on the wire; ours stay positive and wrap."""


Fields = Header | dict[str, str]
"""The ext fields of a request: a typed header, or a dict, to which fields are then added."""


def encode_request(
    code: int,
    opaque: int,
    header: Fields | None = None,
    body: bytes = b"",
    *,
    credentials: Credentials | None = None,
    oneway: bool = False,
) -> bytes:
    """The whole frame of one request."""
    ext = to_ext(header) if isinstance(header, Header) else header or {}
    if credentials is not None:
        from rmqproto.wire.signing import sign  # 3 ms, not needed without credentials

        sign(ext, body, credentials)
    flag = ONEWAY_FLAG if oneway else 0
    return encode_frame(Command(code=code, opaque=opaque, flag=flag, language=LANGUAGE, ext=ext, body=body))


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
