"""Typed headers: the ext fields of each request and answer (the ``*RequestHeader`` and ``*ResponseHeader`` classes of
Apache RocketMQ 5.5.0).

A field without a default is required. Names are in snake case here and in camel case on the wire, unless a field says
otherwise.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, TypeVar, get_args

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import Int32, Int64
from rmqproto.wire.whole_types import whole


class Header(msgspec.Struct, kw_only=True, gc=False, rename="camel"):
    """Base of all typed headers."""


class NoFields(Header, kw_only=True):
    """For requests without ext fields of their own."""


H = TypeVar("H", bound=Header)

LenientBool = Annotated[bool, msgspec.Meta(extra={"takes_one": True})]
"""A boolean ext field for which "1" is also true. All others follow Apache's rule (``Boolean.parseBoolean``): "true" in
any case is true, all other text is false."""


_JAVA_NUMBER = r"[+-]?\d{1,40}"
"""The texts that ``Integer.parseInt`` and ``Long.parseLong`` accept, apart from their ranges. A plus and leading zeros
are allowed."""

_SHOWN_CHARS = 100
"""How much of a bad value an error shows."""


@cache
def java_bools(type: type[Header]) -> tuple[str, ...]:
    """The wire names of the fields that are booleans by Apache's rule."""
    return tuple(field.encode_name for field in msgspec.structs.fields(type) if field.type in (bool, bool | None))


@cache
def _lenient_bools(type: type[Header]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(type) if LenientBool in _kinds(field.type))


@cache
def _numbers(type: type[Header]) -> frozenset[str]:
    """The wire names of the fields that are numbers."""
    fields = msgspec.structs.fields(type)
    return frozenset(field.encode_name for field in fields if {int, Int32, Int64} & {*_kinds(field.type)})


def _kinds(kind: Any) -> tuple[Any, ...]:
    return (kind, *get_args(kind))


@cache
def ext_names(type: type[Header]) -> tuple[tuple[str, str], ...]:
    """Names of the ext fields and of the attributes that hold them."""
    return tuple(zip(type.__struct_encode_fields__, type.__struct_fields__, strict=True))


def to_ext(header: Header) -> dict[str, str]:
    """The header as ext fields: every value as text, without those that are None."""
    ext: dict[str, str] = {}
    for name, field in ext_names(header.__class__):
        value = getattr(header, field)
        if value is not None:
            ext[name] = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return ext


def from_ext(ext: dict[str, str], type: type[H]) -> H:
    """Ext fields as a typed header. Unknown fields are ignored; empty ones count as absent.

    ProtocolError, which names the field, if one is missing or not a number. Text that is not a boolean is false, as in
    Java.
    """
    bools = java_bools(type)
    if bools:
        ext = ext | {name: _java_bool(ext[name]) for name in bools if name in ext}
    try:
        return msgspec.convert(ext, whole(type), strict=False)
    except msgspec.ValidationError:
        pass
    given = _forgiving(ext, type)
    try:
        return msgspec.convert(given, type, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"header: {_problem(given, type) or error}") from None


def _forgiving(ext: dict[str, str], type: type[Header]) -> dict[str, str]:
    lenient, numbers = _lenient_bools(type), _numbers(type)
    given = {name: value for name, value in ext.items() if value}
    for name, value in given.items():
        if name in lenient and value != "1":
            given[name] = _java_bool(value)
        elif name in numbers and re.fullmatch(_JAVA_NUMBER, value):
            given[name] = str(int(value))
    return given


@cache  # each call would leave cycles to the garbage collector
def _fields(type: type[Header]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(type)


def _problem(given: dict[str, str], type: type[Header]) -> str | None:
    """What is wrong with the first field that is, in words that need no knowledge of Python's types."""
    for field in _fields(type):
        value = given.get(field.encode_name)
        if value is None:
            if field.required:
                return f"{field.encode_name} is missing"
        elif field.encode_name in _numbers(type):
            if not re.fullmatch(_JAVA_NUMBER, value):
                return f"{field.encode_name}={value[:_SHOWN_CHARS]} is not a number"
            try:
                msgspec.convert(value, field.type, strict=False)
            except msgspec.ValidationError:
                return f"{field.encode_name}={value[:_SHOWN_CHARS]} is out of range"
    return None


def _java_bool(text: str) -> str:
    return "true" if text.lower() == "true" else "false"
