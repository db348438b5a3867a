"""Limits per second for names, and meters that tell whether one more is within them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

BURST_S = 1.0
"""An unused rate may be used up at once, up to this long."""

RATE_MAX = 1_000_000
NAMES_MAX = 10_000
"""Names that a meter remembers. A new one replaces the name that was added first, whose rate then starts from zero."""

_ROUNDING_S = 1e-6


class NamedRates(NamedTuple):
    """Rates a second; 0 means no limit. ``others`` is the rate of each name that is not in ``by_name``."""

    others: int = 0
    by_name: Mapping[str, int] = MappingProxyType({})

    @property
    def is_any(self) -> bool:
        return bool(self.others or any(self.by_name.values()))


def parse_rates(text: str) -> NamedRates:
    """Parses ``1000``, ``orders=50;audit=10`` or ``1000;orders=50;audit=0``. ValueError for anything else."""
    others, by_name = 0, {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, number = (each.strip() for each in part.rpartition("="))
        if not (number.isascii() and number.isdecimal()) or int(number) > RATE_MAX or bool(name) != bool(equals):
            raise ValueError(f"must be 1000, or NAME=50, or several with ; between them, each {RATE_MAX} at most")
        if name:
            by_name[name] = int(number)
        else:
            others = int(number)
    return NamedRates(others, by_name)


class Meter:
    """Counts by name. A name that has used up its rate may continue when there is room again."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic):
        self._clock_s = clock_s
        self._used_until_s: dict[str, float] = {}
        """Until when each name has used its rate, if its requests had come evenly."""

    def takes(self, name: str, rate: int) -> bool:
        """Whether one more is within ``rate`` a second, which is above 0; if so, it is counted."""
        now_s = self._clock_s()
        until_s = max(self._used_until_s.get(name, now_s), now_s) + 1 / rate
        if until_s - now_s > BURST_S + _ROUNDING_S:
            return False
        if name not in self._used_until_s and len(self._used_until_s) >= NAMES_MAX:
            del self._used_until_s[next(iter(self._used_until_s))]
        self._used_until_s[name] = until_s
        return True
