r"""Format strings: what is written for each message, and nothing else. ``%`` and a letter is a field, ``{...}`` after
it its format, and ``\n`` and the like a character.

Letters that kcat also has mean the same here. ``docs/messages.md`` lists all.
"""

import base64
import re
import struct
import time
from collections.abc import Callable
from typing import Any

import msgspec

from rmqadmin.core.messages.lookup import FoundMessage
from rmqproto.errors import UsageError
from rmqproto.message import properties as props
from rmqproto.message.record import host_text
from rmqproto.times import TIMESTAMP_MAX_MS, iso_local

Part = bytes | Callable[[FoundMessage], bytes]

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "e": b"\x1b", "\\": b"\\"}
_TOKEN = re.compile(
    r"%(?P<letter>.)(?:\{(?P<modifier>(?:[^{}\[\]]|\[[^\]]*\])*)\})?"  # a bracket may hold braces
    r"|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.)|(?P<text>[^%\\]+)",
    re.DOTALL,
)
_BODY_LENGTH = struct.Struct(">i")


class Field(msgspec.Struct, frozen=True):
    """``value`` is bytes, text, a number, a time in ms (``is_time``) or properties."""

    description: str
    value: Callable[[FoundMessage], Any]
    is_time: bool = False


FIELDS: dict[str, Field] = {
    "t": Field("topic", lambda one: one.stored.topic),
    "b": Field("broker name", lambda one: one.broker_name),
    "p": Field("queue id", lambda one: one.stored.queue_id),
    "o": Field("queue offset", lambda one: one.stored.queue_offset),
    "O": Field("commit log offset", lambda one: one.stored.log_offset),
    "s": Field("body", lambda one: one.stored.body),
    "S": Field("size of the body in bytes", lambda one: len(one.stored.body)),
    "R": Field("size of the body as four bytes, big-endian", lambda one: _BODY_LENGTH.pack(len(one.stored.body))),
    "k": Field("keys, separated by blanks", lambda one: one.properties.get(props.KEYS, "")),
    "K": Field("size of the keys in bytes", lambda one: len(one.properties.get(props.KEYS, "").encode())),
    "g": Field("tag", lambda one: one.properties.get(props.TAGS, "")),
    "h": Field("properties", lambda one: one.properties),
    "T": Field("when it was stored, in ms", lambda one: one.stored.store_timestamp_ms, is_time=True),
    "B": Field("when it was made, in ms", lambda one: one.stored.born_timestamp_ms, is_time=True),
    "H": Field("address of the producer", lambda one: host_text(one.stored.born_host)),
    "i": Field("unique key", lambda one: one.message_id),
    "I": Field("offset id", lambda one: one.stored.message_id),
    "r": Field("how often it has come back", lambda one: one.stored.reconsume_times),
    "f": Field("the application's own number (flag)", lambda one: one.stored.flag),
}  # fmt: skip
"""Fields by letter. ``%P{NAME}`` is one property; ``%%`` is a percent sign."""

_PROPERTY, _PERCENT = "P", "%"


class FormatString:
    """A compiled format string. UsageError, which says where, if it is invalid."""

    def __init__(self, text: str):
        self._parts: list[Part] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise _wrong(text, at, "nothing follows")
            self._parts.append(_part(text, found))
            at = found.end()

    def render(self, message: FoundMessage) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(message) for part in self._parts)


def _part(text: str, found: re.Match[str]) -> Part:
    if found["text"] is not None:
        return found["text"].encode("utf-8", "surrogateescape")
    if found["hex"] is not None:
        return bytes.fromhex(found["hex"])
    if found["escape"] is not None:
        known = _ESCAPES.get(found["escape"])
        if known is None:
            raise _wrong(text, found.start(), f"\\{found['escape']} is no escape", r"\n \t \r \0 \e \\ and \xNN are.")
        return known
    letter, modifier = found["letter"], found["modifier"]
    if letter == _PERCENT:
        return b"%" + (f"{{{modifier}}}".encode() if modifier is not None else b"")
    if letter == _PROPERTY:
        if not modifier:
            raise _wrong(text, found.start(), "%P needs the property's name", "Write %P{region}.")
        return lambda one: one.properties.get(modifier, "").encode("utf-8", "surrogatepass")
    field = FIELDS.get(letter)
    if field is None:
        raise _wrong(text, found.start(), f"%{letter} is no field", f"The fields are %{' %'.join(FIELDS)} %P{{NAME}}.")
    if modifier is None:
        return lambda one: _plain(field.value(one))
    modified = _modifier(text, found.start(), field, modifier)
    return lambda one: modified(field.value(one))


def _plain(value: Any) -> bytes:
    match value:
        case bytes():
            return value
        case dict():
            return ",".join(f"{name}={text}" for name, text in value.items()).encode("utf-8", "surrogatepass")
        case _:
            return str(value).encode("utf-8", "surrogatepass")


# --- how a field is written ------------------------------------------------------------------------------------------


def _modifier(text: str, at: int, field: Field, modifier: str) -> Callable[[Any], bytes]:
    if field.is_time:
        return _time_modifier(text, at, modifier)
    name, _, rest = modifier.partition("[")
    match name:
        case "hex":
            return lambda value: _plain(value).hex().encode()
        case "base64":
            return lambda value: base64.b64encode(_plain(value))
        case "json":
            return _json
        case "unpack" if rest.endswith("]"):
            return _unpack(text, at, rest[:-1])
    raise _wrong(
        text, at, f"{{{modifier}}} is no way to write it", "hex, base64, json, unpack[>iH]; times: iso, %H:%M."
    )


def _json(value: Any) -> bytes:
    """Bytes and text as a string, in which bytes that are not UTF-8 appear as ``\\xff``; properties as an object."""
    return msgspec.json.encode(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value)


def _time_modifier(text: str, at: int, modifier: str) -> Callable[[Any], bytes]:
    """A time in the format of the modifier. A time outside the calendar is written as a number."""
    if modifier == "iso":
        return lambda ms: iso_local(ms).encode()
    if "%" not in modifier:
        raise _wrong(text, at, f"{{{modifier}}} is no way to write a time", "Write {iso}, or as strftime: {%H:%M:%S}.")

    def write(ms: int) -> bytes:
        if not 0 <= ms <= TIMESTAMP_MAX_MS:
            return f"@{ms}".encode()
        return time.strftime(modifier, time.localtime(ms / 1000)).encode()

    return write


def _unpack(text: str, at: int, layout: str) -> Callable[[Any], bytes]:
    """The first bytes as Python's ``struct`` reads them, with values separated by blanks. Empty if there are too few
    bytes."""
    try:
        found = struct.Struct(layout)
    except struct.error as error:
        raise _wrong(text, at, f"unpack[{layout}]: {error}", "As in Python's module struct: >iH") from None

    def write(value: Any) -> bytes:
        data = _plain(value)
        values = found.unpack_from(data) if len(data) >= found.size else ()
        return b" ".join(map(_plain, values))

    return write


def _wrong(text: str, at: int, problem: str, hint: str | None = None) -> UsageError:
    return UsageError(f"-f '{text}': at character {at + 1}: {problem}", hint=hint)
