"""How this client's requests look on the wire: its language and version, the ext fields of a typed header, the
signature where there are credentials."""

from __future__ import annotations

from rmqproto.codes import ONEWAY_FLAG, RESPONSE_FLAG, RequestCode, ResponseCode
from rmqproto.command import Command, encode_frame
from rmqproto.errors import RefusedError
from rmqproto.headers import Header, to_ext
from rmqproto.signing import Credentials, sign

LANGUAGE = "PYTHON"
OPAQUE_MASK = 0x7FFFFFFF
"""Opaques are signed 32-bit numbers on the wire; ours stay positive and wrap."""


Fields = Header | dict[str, str]
"""The ext fields of a request: a typed header, or the fields themselves, which are then ours to add to."""


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
        sign(ext, body, credentials)
    flag = ONEWAY_FLAG if oneway else 0
    return encode_frame(Command(code=code, opaque=opaque, flag=flag, language=LANGUAGE, ext=ext, body=body))


def encode_answer(request: Command, code: int, body: bytes = b"", remark: str | None = None) -> bytes:
    """The whole frame of our answer to a request that the broker sent us."""
    return encode_frame(
        Command(code=code, opaque=request.opaque, flag=RESPONSE_FLAG, language=LANGUAGE, remark=remark, body=body)
    )


def encode_not_supported(request: Command) -> bytes:
    """Our answer to a request that we have no handler for, in Apache's words."""
    remark = f" request type {request.code} not supported"
    return encode_answer(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)


def refusal(answer: Command, address: str) -> RefusedError:
    """The error that an answer with a code of failure stands for."""
    return RefusedError(answer.code, answer.remark or "", address=address)


def request_label(code: int) -> str:
    """``34 HEART_BEAT``: for messages."""
    try:
        return f"{code} {RequestCode(code).name}"
    except ValueError:
        return str(code)
