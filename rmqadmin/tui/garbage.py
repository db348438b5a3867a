"""When Python looks for garbage among all objects: while nobody presses keys. With thousands of topics that takes some
tenths of a second, for which a key would wait."""

from __future__ import annotations

import gc

LOOK_S = 2.0
"""Between two looks whether it is time."""
YOUNG_MAX, YOUNG_MAX_IN_USE = 10, 100
"""How many searches among young objects come before one among all: as Python has it, and while keys are pressed."""
_NEVER = 1 << 30


class Garbage:
    """Searches among young objects go on as Python makes them, and Python 3.14 searches in small steps by itself."""

    def __init__(self) -> None:
        self._is_in_use = False
        self._thresholds = gc.get_threshold()

    def begin(self) -> None:
        """From now on all objects are searched by ``look`` only."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*self._thresholds[:2], _NEVER)

    def end(self) -> None:
        """As it was before ``begin``."""
        gc.set_threshold(*self._thresholds)

    def touched(self) -> None:
        """The user has pressed a key."""
        self._is_in_use = True

    def look(self) -> None:
        """To be called every ``LOOK_S``."""
        if gc.get_count()[2] >= (YOUNG_MAX_IN_USE if self._is_in_use else YOUNG_MAX):
            gc.collect()
        self._is_in_use = False
