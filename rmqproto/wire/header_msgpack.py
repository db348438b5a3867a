"""MessagePack headers (codec 2, only ours): a JSON header's members under the same names, ``code`` first, empty ones
left out. It is used only between our own client and server, and only after both have shown that they support it:

    client   its first request on a connection is JSON and has the ext field ``rmqCodec`` = ``MSGPACK`` (``offer``)
    server   answers in JSON and echoes the field; any other server leaves it out and always gets JSON
    client   writes codec 2 on this connection from then on, and is answered in it

It pays a little: the header of a send takes 196 bytes instead of JSON's 316, 0.6 µs to write instead of 1.15, and 0.55
µs to read by the typed decoder instead of 0.7. A client that waits for each answer does not notice (measured: the noise
of the round trip is larger)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.wire.header_json import HeaderFields

FIELD, VALUE = "rmqCodec", "MSGPACK"

CODE_AT, CODE_END, LONG_CODE_END = 6, 9, 11
"""{"code": 310, "extFields": …  Three bytes identify a code of at most 16 bits: they hold the code and, if it is
short, what follows it. A longer code takes five."""

_SHORT_CODE_MAX = 0xFFFF

_decode = msgspec.msgpack.Decoder(HeaderFields).decode
_encode = msgspec.msgpack.Encoder().encode


def peeked(code: int) -> bytes:
    """The bytes ``header[CODE_AT:CODE_END]`` for a code, as ``encode`` writes it; ``header[CODE_AT:LONG_CODE_END]`` for
    a code of more than 16 bits."""
    return _encode(code) if code > _SHORT_CODE_MAX else (_encode(code) + b"\xa9e")[:3]


def decode_untrusted(header: bytes) -> HeaderFields:
    """ProtocolError for anything but a map with a code, and for a number past 32 bits."""
    try:
        return _decode(header)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"MessagePack header: {error}") from None


def encode(
    code: int, language: str, version: int, opaque: int, flag: int, remark: str | None, ext: Mapping[str, str]
) -> bytes:
    members: dict[str, Any] = {
        "code": code, "extFields": ext, "flag": flag, "language": language, "opaque": opaque, "version": version,
    }  # fmt: skip
    if remark is not None:
        members["remark"] = remark
    return _encode(members)


def offer(
    code: int, language: str, version: int, opaque: int, flag: int, remark: str | None, ext: Mapping[str, str]
) -> bytes:
    """A JSON header that may carry the field, with the code after it. Our server's fast decoders require the code first
    and skip unknown fields. So the server sees an offer without searching other headers for one."""
    return msgspec.json.encode(
        {"extFields": ext, "code": code, "flag": flag, "language": language, "opaque": opaque, "version": version}
        | ({} if remark is None else {"remark": remark})
    )


def is_offered(ext: Mapping[str, str]) -> bool:
    """Whether a request offers MessagePack, or an answer accepts the offer."""
    return ext.get(FIELD) == VALUE
