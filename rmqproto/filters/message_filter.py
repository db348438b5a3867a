"""Which messages a subscription wants, decided in two stages: first by the tags code in the consume queue; then, if
that cannot decide, by the properties of the record (``MessageFilter``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

AcceptsCode = Callable[[int], bool]
"""Decides by a unit's tags code."""
AcceptsProperties = Callable[[Mapping[str, str]], bool]
"""Decides by a message's properties."""
AcceptsRawProperties = Callable[[bytes], bool]
"""Decides by a message's properties as its record holds them: most ask for one or two of ten."""


class AcceptsValues(NamedTuple):
    """Decides by the values of properties that somebody else has found: by ``names``, each with its separator.
    ``accepts`` takes a value for each, in their order; None for a property that is missing."""

    names: tuple[bytes, ...]
    accepts: Callable[..., bool]


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Compiled once for a subscription. A stage that is None lets everything pass. A message is wanted if both stages
    take it. ``accepts_values``, if there is one, says the same as ``accepts_properties``."""

    accepts_code: AcceptsCode | None = None
    accepts_properties: AcceptsRawProperties | None = None
    accepts_values: AcceptsValues | None = None


EVERYTHING = MessageFilter()
