"""Numbers over time as blocks, on one line or on several."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
_STEPS = len(_BLOCKS) - 2
"""Between a value that is just not 0 and the highest."""
_UNKNOWN = " "


def sparkline(values: Sequence[float | None], width: int, *, top: float | None = None) -> str:
    """The last ``width`` values, the newest at the end, each as a block: the lowest is 0 and the highest ``top``, by
    default the largest of them. Unknown ones are blanks, and so is what is missing at the beginning."""
    last = values[-width:]
    known = [value for value in last if value is not None]
    highest = max(known, default=0.0) if top is None else top
    if highest <= 0:
        blocks = [_UNKNOWN if value is None else _BLOCKS[0] for value in last]
    else:  # one expression, because a screen draws thousands of values at each refresh
        blocks = [
            _UNKNOWN if value is None
            else _BLOCKS[0] if value <= 0
            else _BLOCKS[-1] if value >= highest
            else _BLOCKS[1 + int(value / highest * _STEPS)]
            for value in last
        ]  # fmt: skip
    return "".join(blocks).rjust(width, _UNKNOWN)


def bars(values: Sequence[float | None], width: int, height: int, *, top: float | None = None) -> list[str]:
    """As ``sparkline``, over ``height`` lines, the highest first."""
    last = values[-width:]
    highest = max((value for value in last if value is not None), default=0.0) if top is None else top
    eighths = [_eighths(value, highest, height) for value in last]
    return [
        "".join(_part(count - 8 * below) for count in eighths).rjust(width, _UNKNOWN)
        for below in range(height - 1, -1, -1)
    ]


def _eighths(value: float | None, top: float, height: int) -> int:
    """How high a bar is. What is known is seen, also if it is 0; what is not is 0 high."""
    if value is None:
        return 0
    return max(1, round(min(max(value, 0.0) / top, 1.0) * height * 8)) if top > 0 else 1


def _part(eighths: int) -> str:
    """What of a bar is on a line that it exceeds by so much."""
    return _UNKNOWN if eighths <= 0 else _BLOCKS[min(eighths, 8) - 1]
