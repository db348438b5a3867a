"""Millions of lines in few objects."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import overload


class PackedLines(Sequence[str]):
    """Lines, each kept as a part of a longer text. As a list or a tuple, four million strings were all looked at by the
    garbage collector, 60 ms in which no key was answered. Strings and arrays are nothing to it."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._ends: list[array[int]] = []
        """For each text, where its lines end."""
        self._firsts: list[int] = []
        """For each text, the number of its first line."""
        self._count = 0

    def add(self, lines: Sequence[str]) -> None:
        """Adds lines at the end: some thousands at once, because Python runs no other thread meanwhile."""
        if lines:
            self._texts.append("".join(lines))
            self._ends.append(array("I", accumulate(map(len, lines))))
            self._firsts.append(self._count)
            self._count += len(lines)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(self._count))]
        if not -self._count <= at < self._count:
            raise IndexError(at)
        at %= self._count
        text = bisect_right(self._firsts, at) - 1
        ends, place = self._ends[text], at - self._firsts[text]
        return self._texts[text][ends[place - 1] if place else 0 : ends[place]]

    def __iter__(self) -> Iterator[str]:
        for text, ends in zip(self._texts, self._ends, strict=True):
            begin = 0
            for end in ends:
                yield text[begin:end]
                begin = end
