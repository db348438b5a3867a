"""Numbers over time, drawn as blocks on one line or on several: from the least of the values to the largest. A change
under a tenth of the largest is drawn flat, at half the height."""

from collections.abc import Sequence

_BLOCKS = " ▁▂▃▄▅▆▇█"
_UNKNOWN = " "
_STEPS = len(_BLOCKS) - 1
"""Of one line."""
_FLAT_RATIO = 0.1


def sparkline(values: Sequence[float | None], width: int, *, top: float | None = None) -> str:
    """The last ``width`` values, newest at the end, each as a block. With a ``top``, the lowest block is 0 and the
    highest ``top``. Unknown values are blanks, as is missing history at the beginning."""
    return bars(values, width, 1, top=top)[0]


def bars(values: Sequence[float | None], width: int, height: int, *, top: float | None = None) -> list[str]:
    """Like ``sparkline``, over ``height`` lines, the top line first."""
    last = values[-width:]
    known = [value for value in last if value is not None]
    least, most = (min(known, default=0.0), max(known, default=0.0)) if top is None else (0.0, top)
    steps = height * _STEPS - 1
    if most - least <= most * _FLAT_RATIO:
        eighths = [0 if value is None else 1 if value <= 0 else (steps + 1) // 2 for value in last]
    else:  # one expression, because a screen draws thousands of values at each refresh
        scale = steps / (most - least)
        eighths = [
            0 if value is None else 1 + round(min(max(value - least, 0), most - least) * scale) for value in last
        ]
    return [
        "".join([_BLOCKS[min(max(count - _STEPS * below, 0), _STEPS)] for count in eighths]).rjust(width, _UNKNOWN)
        for below in range(height - 1, -1, -1)
    ]
