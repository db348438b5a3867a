"""Numbers over time, drawn as blocks on one line or on several."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
_STEPS = len(_BLOCKS) - 2
"""Steps between the smallest value above 0 and the highest."""
_UNKNOWN = " "


def sparkline(values: Sequence[float | None], width: int, *, top: float | None = None) -> str:
    """The last ``width`` values, newest at the end, each as a block. The lowest block is 0 and the highest ``top``, by
    default the largest of the values. Unknown values are blanks, as is missing history at the beginning."""
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
    """Like ``sparkline``, over ``height`` lines, the top line first."""
    last = values[-width:]
    highest = max((value for value in last if value is not None), default=0.0) if top is None else top
    eighths = [_eighths(value, highest, height) for value in last]
    return [
        "".join(_part(count - 8 * below) for count in eighths).rjust(width, _UNKNOWN)
        for below in range(height - 1, -1, -1)
    ]


def _eighths(value: float | None, top: float, height: int) -> int:
    """The height of a bar in eighths. A known value is always visible, even 0; an unknown one has height 0."""
    if value is None:
        return 0
    return max(1, round(min(max(value, 0.0) / top, 1.0) * height * 8)) if top > 0 else 1


def _part(eighths: int) -> str:
    """The part of a bar on one line, given how far the bar rises above that line's bottom."""
    return _UNKNOWN if eighths <= 0 else _BLOCKS[min(eighths, 8) - 1]
