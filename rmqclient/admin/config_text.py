"""Configuration in admin requests and answers: lines ``key=value``, whose format differs between the two.

An answer lists the configuration raw (``MixAll.properties2String``, 5.5.0): a backslash is a backslash. A request is
read as Java properties (``MixAll.string2Properties``): a backslash begins an escape, and bytes are Latin-1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rmqproto.errors import ProtocolError

_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
# Compiled on use: every command imports this file, and few change a configuration.
_ESCAPED_IN_VALUE = r"[\t\n\r\f\\]|^ |[^\x20-\x7e]"
_ESCAPED_IN_KEY = r"[\t\n\r\f\\ =:#!]|[^\x20-\x7e]"


def config_values_untrusted(answer_body: bytes, *, with_own_defaults: bool = False) -> dict[str, str]:
    """The values of a configuration answer; lines that are not ``key=value`` are skipped. ProtocolError if not UTF-8.

    ``with_own_defaults``: also returns settings that only rmqserver has and that are at their defaults. rmqserver lists
    these as comments."""
    from rmqproto.java.java_properties import COMMENT  # 1 ms, only for calls about a configuration

    try:
        text = answer_body.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"configuration is not UTF-8: {error}") from None
    lines = text.split("\n")
    if with_own_defaults:
        lines = [line.removeprefix(COMMENT) for line in lines]
    pairs = (line.partition("=") for line in lines if not line.startswith(COMMENT))
    return {key.strip(): value.rstrip("\r") for key, equals, value in pairs if equals and key.strip()}


def config_request(values: Mapping[str, str]) -> bytes:
    """Body of a configuration request. Every value arrives as given, with its white space and backslashes."""
    lines = (
        f"{re.sub(_ESCAPED_IN_KEY, _escape, key)}={re.sub(_ESCAPED_IN_VALUE, _escape, value)}\n"
        for key, value in values.items()
    )
    return "".join(lines).encode("ascii")


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character in " =:#!":
        return "\\" + character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
