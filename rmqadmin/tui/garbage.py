"""When garbage is looked for, and how much there is. A full search takes 10 ms and more, and Python begins one in the
middle of whatever has just made an object: of a key, or of a thread that takes a body apart, which stops all keys. So
Python begins none here. It is done while no key comes, or between two keys if much has come together."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence

from textual.strip import Strip

WAITED_S = 2.0
"""So long after a key or a click nobody waits for the next answer."""

SEARCHES_MIN, SEARCHES_MAX = 3, 10
"""So many searches among young objects make a full one worth while at rest, and so many for a user who never rests.
Ten is Python's own rule. The longer one waits, the longer it takes: from thirty on, 20 ms and more."""

AWAY_S, PASSED_OVER_MAX = 30.0, 30
"""A search passes over what the one before has left: all that is shown, and 20 ms long. What becomes garbage of that is
found once nobody has touched the dashboard for so long, and at rest after so many searches."""

_NEVER = 1_000_000_000

_divide = Strip.divide


def _divided(strip: Strip, cuts: Iterable[int]) -> Sequence[Strip]:
    """Textual's puts a strip that is not cut into the strip's own cache. Each line that was drawn over the whole width
    then is fourteen objects that only a search frees: nine tenths of all garbage."""
    within = [cut for cut in cuts if cut <= strip.cell_length]
    return [strip] if within == [strip.cell_length] else _divide(strip, within)


class RestfulCollector:
    """From ``begin`` to ``end``, it is told about every second how long nobody has touched the dashboard."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        self._passed_over_count = 0
        """Searches since the last one that passed over nothing."""
        self._was_away = False

    def begin(self) -> None:
        young, middle, _ = self._before
        gc.set_threshold(young, middle, _NEVER)
        Strip.divide = _divided  # type: ignore[method-assign, assignment]

    def untouched_for(self, elapsed_s: float) -> None:
        rests, is_away = elapsed_s >= WAITED_S, elapsed_s >= AWAY_S
        self._was_away = self._was_away and is_away
        if gc.get_count()[2] < (SEARCHES_MIN if rests else SEARCHES_MAX):
            return
        self._passed_over_count += 1
        if (is_away and not self._was_away) or (rests and self._passed_over_count > PASSED_OVER_MAX):
            gc.unfreeze()
            self._passed_over_count, self._was_away = 0, is_away
        gc.collect()
        gc.freeze()

    def end(self) -> None:
        gc.set_threshold(*self._before)
        Strip.divide = _divide  # type: ignore[method-assign]
