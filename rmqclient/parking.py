"""Tasks that wait until another task of the same loop wakes them; an ``anyio.Event`` serves one wait only."""

from __future__ import annotations

from collections import deque

import anyio


class ParkingLot:
    def __init__(self) -> None:
        self._parked: deque[anyio.Event] = deque()

    def __bool__(self) -> bool:
        return bool(self._parked)

    async def park(self) -> None:
        """Waits for ``unpark`` or ``unpark_all``."""
        woken = anyio.Event()
        self._parked.append(woken)
        try:
            await woken.wait()
        except BaseException:
            if woken.is_set():  # cancelled as it was woken: another task takes its turn
                self.unpark()
            else:
                self._parked.remove(woken)
            raise

    def unpark(self) -> None:
        """Wakes the task that has waited longest, if there is one."""
        if self._parked:
            self._parked.popleft().set()

    def unpark_all(self) -> None:
        while self._parked:
            self._parked.popleft().set()
