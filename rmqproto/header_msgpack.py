"""MessagePack headers (codec 2, ours alone): a JSON header's members under the same names, ``code`` in front, without
what says nothing. Only between our own two ends, and only after both have shown that they know it:

    client   its first request on a connection is JSON and has the ext field ``rmqCodec`` = ``MSGPACK`` (``offer``)
    server   answers in JSON and echoes the field; any other server leaves it out, and hears JSON for ever
    client   writes codec 2 on this connection from then on, and is answered in it

Does it pay? A little: the header of a send is 196 bytes where JSON needs 316, is written in 0.6 µs instead of 1.15, and
read by the typed decoder in 0.55 instead of 0.7. One client that waits for each answer does not notice (measured: the
difference drowns in the noise of the round trip).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.header_json import HeaderFields

FIELD, VALUE = "rmqCodec", "MSGPACK"

CODE_AT, CODE_END = 6, 9
"""{"code": 310, "extFields": …  Three bytes tell the code: they hold it, and where it is short what follows it."""

_decode = msgspec.msgpack.Decoder(HeaderFields).decode
_encode = msgspec.msgpack.Encoder().encode


def peeked(code: int) -> bytes:
    """What ``header[CODE_AT:CODE_END]`` is for a code, as ``encode`` writes it."""
    return (_encode(code) + b"\xa9e")[:3]


def decode_untrusted(header: bytes) -> HeaderFields:
    """ProtocolError for what is no map with a code, or has a number past 32 bits."""
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
    """A JSON header that may carry the field, with the code behind it. Our server's fast decoders want the code in
    front, and skip fields that they do not know: so an offer is seen, and what is none is not searched for one."""
    return msgspec.json.encode(
        {"extFields": ext, "code": code, "flag": flag, "language": language, "opaque": opaque, "version": version}
        | ({} if remark is None else {"remark": remark})
    )


def is_offered(ext: Mapping[str, str]) -> bool:
    """Whether a request offers MessagePack, or an answer takes the offer up."""
    return ext.get(FIELD) == VALUE
