"""The filter of a subscription, in two stages: first by the tags code in the consume queue; then, if that cannot
decide, by the properties of the record (``MessageFilter``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rmqproto.message.properties import find_bytes

AcceptsCode = Callable[[int], bool]
"""Decides by a unit's tags code."""
AcceptsProperties = Callable[[Mapping[str, str]], bool]
"""Decides by a message's properties."""
AcceptsRawProperties = Callable[[bytes], bool]
"""Decides by the raw properties of a record: most filters need only one or two of ten."""


class AcceptsValues(NamedTuple):
    """Decides by property values that the caller has looked up by ``names``, each with its separator. ``accepts`` takes
    a value for each in the same order; None for a missing property."""

    names: tuple[bytes, ...]
    accepts: Callable[..., bool]

    def of_record(self, properties: bytes) -> bool:
        """Decides by a record's raw properties."""
        return self.accepts(*[find_bytes(properties, name) or None for name in self.names])


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Compiled once for a subscription. A stage that is None accepts everything, and a message matches if both stages
    accept it. ``accepts_values``, if present, decides the same as ``accepts_properties``, and ``codes``, all that it
    accepts, the same as ``accepts_code``."""

    accepts_code: AcceptsCode | None = None
    accepts_properties: AcceptsRawProperties | None = None
    accepts_values: AcceptsValues | None = None
    codes: Collection[int] | None = None


EVERYTHING = MessageFilter()
