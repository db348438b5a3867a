"""A slot of the wheel that is due: its units are taken a portion at a time."""

from __future__ import annotations

from array import array

from rmqserver.store.timers.log import TimerLog, Unit
from rmqserver.store.timers.wheel import Slot

WALK_UNITS = 1024
"""Units of a slot's chain read in one step: a millisecond's work."""


class DueSlot:
    """First ``walk`` goes back along the chain, step by step; then the units are taken in the order in which they came.
    Units before ``start_position`` were delivered earlier; a recall among them still counts."""

    def __init__(self, slot: Slot, log: TimerLog, start_position: int = 0):
        self.time = slot.time
        self.delete_units: list[Unit] = []
        """The units that recall others; complete when ``is_walked``."""
        self.is_walked = False
        self.recalled: set[str] | None = None
        """The keys of the recalled messages; None until the user has read ``delete_units``."""
        self._log = log
        self._chain = log.chain(slot.last_position)
        self._start_position = start_position
        self._positions = array("q")

    def walk(self) -> None:
        """Reads some more units of the chain."""
        for _ in range(WALK_UNITS):
            unit = next(self._chain, None)
            if unit is None:
                self.is_walked = True
                return
            if unit.is_recall:
                self.delete_units.append(unit)
            elif unit.position >= self._start_position:
                self._positions.append(unit.position)

    @property
    def is_done(self) -> bool:
        return self.is_walked and not self._positions and (self.recalled is not None or not self.delete_units)

    @property
    def next_position(self) -> int:
        """Timer log position of the first unit that is not passed yet."""
        return self._positions[-1] if self.is_walked and self._positions else self._start_position

    def portion(self, count: int) -> list[Unit]:
        """The next units, oldest first. They stay the next ones until they are ``passed``."""
        assert self.is_walked
        while positions := self._positions[: -count - 1 : -1]:
            if units := [unit for unit in self._log.units(positions) if unit is not None]:
                return units
            del self._positions[-len(positions) :]  # their file is gone, and so are the messages
        return []

    def passed(self, position: int) -> None:
        """Takes note that the units up to the one at ``position`` are dealt with."""
        while self._positions and self._positions[-1] <= position:
            self._start_position = self._positions.pop() + 1
