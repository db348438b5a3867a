"""ROCKETMQ binary headers (codec 1; ``RocketMQSerializable``, 5.5.0).

 0  code      i16     2  language  u8     3  version  i16     5  opaque  i32     9  flag  i32
13  remark length  i32, UTF-8 bytes; 0 = none
 …  ext length     i32, then entries: name length i16, name, value length i32, value (UTF-8)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from rmqproto.codes import LANGUAGES
from rmqproto.errors import ProtocolError
from rmqproto.wire.header_json import HeaderFields

_FIXED = struct.Struct(">hBhiii")
_EXT_SIZE = struct.Struct(">i")
_NAME_SIZE = struct.Struct(">h")


CODE_MAX = (1 << 15) - 1
"""The limit, because the field of a code is a signed 16-bit number."""


def decode_untrusted(header: bytes) -> HeaderFields:
    """The fields of a header. ProtocolError for a length that does not fit. Bytes that are not UTF-8 are replaced as
    ``header_json`` replaces them."""
    if len(header) < _FIXED.size + _EXT_SIZE.size:
        raise ProtocolError(f"binary header of {len(header)} bytes is shorter than its fixed fields")
    code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
    remark_end = _FIXED.size + remark_size
    if remark_size < 0 or remark_end + _EXT_SIZE.size > len(header):
        raise ProtocolError(f"binary header: remark length {remark_size} does not fit")
    (ext_size,) = _EXT_SIZE.unpack_from(header, remark_end)
    ext_at = remark_end + _EXT_SIZE.size
    if ext_size < 0 or ext_at + ext_size > len(header):
        raise ProtocolError(f"binary header: ext length {ext_size} does not fit")
    remark = _text(header[_FIXED.size : remark_end]) or None
    ext = _decode_ext_untrusted(header, ext_at, ext_at + ext_size)
    name = LANGUAGES[language] if language < len(LANGUAGES) else "OTHER"
    return HeaderFields(code, name, version, opaque, flag, remark, ext)


def _decode_ext_untrusted(header: bytes, at: int, end: int) -> dict[str, str]:
    ext: dict[str, str] = {}
    while at < end:
        if end - at < _NAME_SIZE.size:
            raise ProtocolError("binary header: ext entry is cut short")
        name_end = at + _NAME_SIZE.size + _NAME_SIZE.unpack_from(header, at)[0]
        if not at + _NAME_SIZE.size <= name_end <= end - _EXT_SIZE.size:
            raise ProtocolError("binary header: ext name length does not fit")
        value_at = name_end + _EXT_SIZE.size
        value_end = value_at + _EXT_SIZE.unpack_from(header, name_end)[0]
        if not value_at <= value_end <= end:
            raise ProtocolError("binary header: ext value length does not fit")
        ext[_text(header[at + _NAME_SIZE.size : name_end])] = _text(header[value_at:value_end])
        at = value_end
    return ext


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def encode(
    code: int, language: str, version: int, opaque: int, flag: int, remark: str | None, ext: Mapping[str, str]
) -> bytes:
    """The bytes of a header. ValueError for a value that does not fit its field: a code past 16 bits (POP's codes
    cannot travel in a binary header), or a name of more than 32,767 bytes."""
    if not -CODE_MAX - 1 <= code <= CODE_MAX:
        raise ValueError(f"code {code} does not fit a binary header; use JSON")
    try:
        return _encoded(code, language, version, opaque, flag, remark, ext)
    except struct.error as error:
        raise ValueError(f"a field does not fit a binary header: {error}; use JSON") from None


def _encoded(
    code: int, language: str, version: int, opaque: int, flag: int, remark: str | None, ext: Mapping[str, str]
) -> bytes:
    remark_bytes = (remark or "").encode()
    parts: list[bytes] = []
    for name, value in ext.items():
        name_bytes, value_bytes = name.encode(), value.encode()
        parts += (_NAME_SIZE.pack(len(name_bytes)), name_bytes, _EXT_SIZE.pack(len(value_bytes)), value_bytes)
    block = b"".join(parts)
    number = LANGUAGES.index(language) if language in LANGUAGES else LANGUAGES.index("OTHER")
    fixed = _FIXED.pack(code, number, version, opaque, flag, len(remark_bytes))
    return fixed + remark_bytes + _EXT_SIZE.pack(len(block)) + block
