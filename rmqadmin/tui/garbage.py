"""Decides when garbage is collected, and keeps it small. A full collection takes 10 ms or more and stops all keys, and
Python begins one whenever an object is made: during a key, or in a thread that parses a body. So Python's own full
collections are off here. One runs while no key comes, or between two keys if much has accumulated."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence

from textual.strip import Strip

WAITED_S = 2.0
"""This long after the last key or click, the user is not waiting for a response."""

SEARCHES_MIN = 3
"""How many collections of the middle generation make a full one worthwhile. Python's own rule is ten: by then a full
one takes 20 to 45 ms on a busy machine, mostly to free closed screens, and a key waits for it."""

LOOKED_EVERY_S = 0.25
"""How often to look whether that many have gathered. A quick user needs a second to gather more than three."""

AWAY_S, PASSED_OVER_MAX = 30.0, 30
"""A full collection skips the objects that survived the one before, which are all that is shown and would take 20 ms.
Garbage among them is found once the dashboard is untouched for this long, or at rest after this many collections."""

_NEVER = 1_000_000_000

_divide = Strip.divide


def _divided(strip: Strip, cuts: Iterable[int]) -> Sequence[Strip]:
    """As Textual's, but an uncut strip is not put into its own cache. There, each line drawn over the whole width
    becomes fourteen objects that only a collection can free: nine tenths of all garbage."""
    within = [cut for cut in cuts if cut <= strip.cell_length]
    return [strip] if within == [strip.cell_length] else _divide(strip, within)


class RestfulCollector:
    """Collects garbage between ``begin`` and ``end``. Call ``untouched_for`` every LOOKED_EVERY_S."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        self._passed_over_count = 0
        """Full collections since the last one that skipped nothing."""
        self._was_away = False

    def begin(self) -> None:
        """Call it when the first frame has been drawn. Nothing of it is garbage yet."""
        gc.freeze()
        young, middle, _ = self._before
        gc.set_threshold(young, middle, _NEVER)
        Strip.divide = _divided  # type: ignore[method-assign, assignment]

    def untouched_for(self, elapsed_s: float) -> None:
        rests, is_away = elapsed_s >= WAITED_S, elapsed_s >= AWAY_S
        self._was_away = self._was_away and is_away
        if gc.get_count()[2] < SEARCHES_MIN:
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
