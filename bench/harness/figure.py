"""A figure outside the table of rows: the measured value, what it is compared with, and the bar that it must reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """``ours`` and ``beside`` have the same unit. At most one bar is given. A figure with ``errors`` does not count."""

    name: str
    unit: str
    ours: float
    beside: float | None = None
    beside_name: str = ""
    at_most: float | None = None
    """The bar for ``ours``."""
    ratio_at_most: float | None = None
    ratio_at_least: float | None = None
    errors: int = 0

    @property
    def ratio(self) -> float | None:
        return self.ours / self.beside if self.beside else None

    @property
    def bar(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:g} {self.unit}"
        if self.ratio_at_most is not None:
            return f"ratio <= {self.ratio_at_most:g}"
        return "" if self.ratio_at_least is None else f"ratio >= {self.ratio_at_least:g}"

    @property
    def is_reached(self) -> bool | None:
        """Whether the bar is reached; None if there is no bar, or nothing to compare."""
        if self.at_most is not None:
            return self.ours <= self.at_most
        if self.ratio is None:
            return None
        if self.ratio_at_most is not None:
            return self.ratio <= self.ratio_at_most
        return None if self.ratio_at_least is None else self.ratio >= self.ratio_at_least

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "is_reached": self.is_reached}


def percentile(values: Sequence[float], percent: float) -> float:
    """A percentile of sorted values; 100 is the largest. IndexError if there are none."""
    return values[min(int(len(values) * percent / 100), len(values) - 1)]


def show(figures: list[Figure]) -> None:
    print(f"{'figure':52} {'ours':>12} {'beside':>12} {'ratio':>7}  {'bar':14}        beside is")
    for each in figures:
        ours = f"{_short(each.ours)} {each.unit}"
        beside = "" if each.beside is None else f"{_short(each.beside)} {each.unit}"
        ratio = "" if each.ratio is None else f"{each.ratio:.3f}"
        name = "" if each.beside is None else each.beside_name
        verdict = {None: "", True: "ok", False: "MISSED"}[each.is_reached]
        note = f"  {each.errors} ERRORS" if each.errors else ""
        print(f"{each.name:52} {ours:>12} {beside:>12} {ratio:>7}  {each.bar:14} {verdict:6} {name}{note}")


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
