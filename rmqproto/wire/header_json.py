"""JSON headers (codec 0): tolerant in reading, strict and compact in writing (``RemotingSerializable``, 5.5.0).

Real clients mix ext values of text, numbers, booleans and null. They leave ``extFields`` out or null. They give the
language as a name or a number. Bytes that are not UTF-8, as Windows clients write in names and properties, are replaced
as Java replaces them, by U+FFFD. We write every ext value as a JSON string: C++ clients silently read a number as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rmqproto.codes import LANGUAGES
from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import Int32
from rmqproto.wire import fastjson


class HeaderFields(msgspec.Struct, rename={"ext": "extFields"}):
    """The result of decoding a header of any codec."""

    code: Int32
    language: str = "OTHER"
    version: Int32 = 0
    opaque: Int32 = 0
    flag: Int32 = 0
    remark: str | None = None
    ext: dict[str, str] = {}


class _Loose(msgspec.Struct, rename="camel"):
    code: Int32
    language: str | int | None = None
    version: Int32 | None = None
    opaque: Int32 | None = None
    flag: Int32 | None = None
    remark: str | None = None
    ext_fields: dict[str, Any] | None = None


class _Ext(msgspec.Struct, rename={"ext": "extFields"}, gc=False):
    ext: dict[str, str] = {}


_decode_ext = msgspec.json.Decoder(_Ext).decode
_decode_strict = msgspec.json.Decoder(HeaderFields).decode
_decode_loose = msgspec.json.Decoder(_Loose, strict=False).decode


def decode_untrusted(header: bytes) -> HeaderFields:
    """ProtocolError for anything but a JSON object with a code, and for a number past 32 bits."""
    try:
        return _decode_strict(header)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _decode_loose_untrusted(header)


def ext_untrusted(header: bytes) -> dict[str, str]:
    """Only the ext fields, as ``decode_untrusted`` reads them."""
    try:
        return _decode_ext(header).ext
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _decode_loose_untrusted(header).ext


def _decode_loose_untrusted(header: bytes) -> HeaderFields:
    try:
        loose = _decode_loose(header)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        loose = fastjson.loads_untrusted(header.decode(errors="replace"), _Loose)
    ext = {} if not loose.ext_fields else {k: _text(v) for k, v in loose.ext_fields.items() if v is not None}
    return HeaderFields(
        loose.code,
        _language(loose.language),
        loose.version or 0,
        loose.opaque or 0,
        loose.flag or 0,
        loose.remark,
        ext,
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    import json  # 1 ms, for a few odd clients

    try:
        return json.dumps(value, separators=(",", ":"))
    except (RecursionError, ValueError) as error:  # nested too deep, or a number with too many digits
        raise ProtocolError(f"header: a value that is not text: {error}") from None


def _language(value: str | int | None) -> str:
    if isinstance(value, int):
        return LANGUAGES[value] if 0 <= value < len(LANGUAGES) else "OTHER"
    return value or "OTHER"


class _Written(msgspec.Struct, gc=False):
    """Keys in alphabetical order."""

    code: int
    extFields: Mapping[str, str] | msgspec.UnsetType
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str
    version: int


_encode = msgspec.json.Encoder().encode


def encode(
    code: int, language: str, version: int, opaque: int, flag: int, remark: str | None, ext: Mapping[str, str]
) -> bytes:
    """Keys in alphabetical order, no white space, null members left out, as fastjson writes a RemotingCommand."""
    shown = msgspec.UNSET if remark is None else remark
    return _encode(_Written(code, ext or msgspec.UNSET, flag, language, opaque, shown, "JSON", version))
