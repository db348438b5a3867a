"""Addresses that need no signature: the patterns of ACL 1.0 (``RemoteAddressStrategyFactory``, 5.3.2).

    *                        every address, like *.*.*.* and *:*:*:*:*:*:*:*
    10.0.0.5                 one
    10.0.0.5,10.0.1.7        several
    10.0.0.{5,7}             several that differ in their last part, also 5::7:{1,ac}
    10.0.*, 10.0.*.*         any value for parts that are * or missing at the end
    10.0.1-20.*, 10.0.0.1-9  ranges of parts; those of IPv6 are hexadecimal: 5::7:1-200:*

Every part is checked. Apache ignores the parts after the first range.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from typing import NamedTuple

_EVERY = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})


class _Kind(NamedTuple):
    separator: str
    part_count: int
    base: int
    part_max: int


_V4 = _Kind(".", 4, 10, 255)
_V6 = _Kind(":", 8, 16, 0xFFFF)

_Ranges = tuple[tuple[int, int], ...]
"""The first and the last number of each part."""


class WhiteAddresses:
    """The addresses that one text matches; a blank one matches none."""

    def __init__(self, text: str):
        """Raises ValueError, which says what is wrong, for an invalid pattern."""
        text = text.strip()
        self._is_every = text in _EVERY
        self._patterns: list[_Ranges] = [] if self._is_every or not text else [_ranges(one) for one in _split(text)]

    @property
    def is_any(self) -> bool:
        """Whether it matches anything."""
        return self._is_every or bool(self._patterns)

    def has(self, address: str) -> bool:
        """``address`` has no port and no zone, and is written as IPv4 if possible."""
        if self._is_every:
            return True
        if not self._patterns:
            return False
        parts = _parts(address)
        return any(
            len(pattern) == len(parts)
            and all(low <= part <= high for part, (low, high) in zip(parts, pattern, strict=True))
            for pattern in self._patterns
        )


def _split(text: str) -> list[str]:
    """Splits a text into single patterns."""
    head, brace, rest = text.partition("{")
    if brace and text.endswith("}"):
        return [head + last.strip() for last in rest[:-1].split(",")]
    return [one.strip() for one in text.split(",")]


def _ranges(text: str) -> _Ranges:
    kind = _V6 if ":" in text else _V4
    if kind is _V6 and "." in text:
        text = _without_dots(text)
    if kind is _V6 and "::" in text:
        head, _, tail = text.partition("::")
        before, after = (part.split(":") if part else [] for part in (head, tail))
        missing = kind.part_count - len(before) - len(after)
        if missing < 1 or "::" in tail:
            raise ValueError(f"{text} is not an address")
        parts = [*before, *["0"] * missing, *after]
    else:
        parts = text.split(kind.separator)
        if parts[-1] == "*":
            parts += ["*"] * (kind.part_count - len(parts))
    if len(parts) != kind.part_count:
        raise ValueError(f"{text} is not an address: {kind.part_count} parts are needed, or a * at the end")
    return tuple(_range(part.strip(), kind, text) for part in parts)


def _without_dots(text: str) -> str:
    """Turns ``::ffff:10.0.0.5`` into ``::ffff:a00:5``."""
    head, _, tail = text.rpartition(":")
    try:
        high, low = struct.unpack(">2H", ipaddress.IPv4Address(tail).packed)
    except ipaddress.AddressValueError:
        raise ValueError(f"{text} is not an address: {tail} follows the last :") from None
    return f"{head}:{high:x}:{low:x}"


def _range(part: str, kind: _Kind, text: str) -> tuple[int, int]:
    if part == "*":
        return 0, kind.part_max
    low, _, high = part.partition("-") if "-" in part else (part, "", part)
    if not all(re.fullmatch("[0-9a-fA-F]{1,4}" if kind is _V6 else "[0-9]{1,3}", each) for each in (low, high)):
        raise ValueError(f"{text} is not an address: {part} is no number, and not * nor two numbers with a - between")
    first, last = int(low, kind.base), int(high, kind.base)
    if not first <= last <= kind.part_max:
        raise ValueError(f"{text} is not an address: {part} is past {kind.part_max:{'x' if kind is _V6 else 'd'}}")
    return first, last


def _parts(address: str) -> tuple[int, ...]:
    found = ipaddress.ip_address(address)
    return struct.unpack("4B" if isinstance(found, ipaddress.IPv4Address) else ">8H", found.packed)
