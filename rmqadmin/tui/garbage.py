"""When garbage is looked for. A full search takes 30 ms with a thousand topics, and Python begins one in the middle of
whatever has just made an object: of a key. So here it is done while no key comes, and otherwise only if much has come
together."""

from __future__ import annotations

import gc

WAITED_S = 2.0
"""So long after a key or a click nobody waits for the next answer."""

_SEARCHES_MIN = 10
"""So many searches among young objects make a full one worth while: Python's own rule."""
_WITHOUT_REST = 20
"""A user who never rests has the full ones so many times rarer."""


class RestfulCollector:
    """From ``begin`` to ``end``, it is told about every second how long nobody has touched the dashboard."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()

    def begin(self) -> None:
        young, middle, _ = self._before
        gc.set_threshold(young, middle, _SEARCHES_MIN * _WITHOUT_REST)

    def untouched_for(self, elapsed_s: float) -> None:
        if elapsed_s >= WAITED_S and gc.get_count()[2] >= _SEARCHES_MIN:
            gc.collect()

    def end(self) -> None:
        gc.set_threshold(*self._before)
