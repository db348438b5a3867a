"""Assigns keys to places so that one more place moves as few keys as possible (``Hashing.consistentHash`` of Guava,
which is Lamping and Veach's jump consistent hash). Apache's proxy and broker, 5.5.0, use it to find the queue of a lite
topic."""

from __future__ import annotations

_FACTOR = 2862933555777941757
_MASK = (1 << 64) - 1
_STEPS = float(1 << 31)


def jump_hash(key: int, place_count: int) -> int:
    """A place from 0 to ``place_count`` - 1. ``key`` counts as a Java long."""
    state, place = key & _MASK, 0
    while True:
        state = (_FACTOR * state + 1) & _MASK
        following = int((place + 1) / (((state >> 33) + 1) / _STEPS))
        if following >= place_count:
            return place
        place = following
