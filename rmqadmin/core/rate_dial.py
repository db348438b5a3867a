"""The rate of a running redrive, and the keys that change it, in a terminal and in the dashboard."""

import time

RATE_STEP = 1.25
RATE_MIN = 0.1

_MEASURED_S_MIN = 1.0


def limits_text(rate: float | None, byte_rate: float | None = None) -> str:
    """The limits that were given, for a command line that continues a job: its plan does not keep them."""
    given = {"--rate": rate, "--byte-rate": byte_rate}
    return "".join(f" {name} {value:.15g}" for name, value in given.items() if value is not None)


class SpeedGauge:
    """The recent speed in messages a second."""

    def __init__(self) -> None:
        self.per_s = 0.0
        self._moved = (time.monotonic(), 0)

    def measure(self, sent_count: int) -> None:
        """``sent_count``: the total so far."""
        now, (then, before_count) = time.monotonic(), self._moved
        if now - then >= _MEASURED_S_MIN:
            self.per_s = (sent_count - before_count) / (now - then)
            self._moved = (now, sent_count)


class RateDial:
    """The rate that keys change: messages a second for the whole job, None for no limit."""

    def __init__(self, rate: float | None):
        self.rate = rate
        self.is_paused = False

    @property
    def setting(self) -> float | None:
        """The value for ``PermitService.set_rate``: 0 is a pause."""
        return 0.0 if self.is_paused else self.rate

    def press(self, key: str, per_s: float) -> bool:
        """Handles a key; whether anything has changed. ``per_s`` is the present speed, from which a job without a limit
        is slowed down."""
        before = self.setting
        if key == "p":
            self.is_paused = not self.is_paused
        elif key == "+" and self.rate is not None:
            self.rate *= RATE_STEP
        elif key == "-" and (self.rate is not None or per_s > 0):
            self.rate = max(RATE_MIN, (per_s if self.rate is None else self.rate) / RATE_STEP)
        return self.setting != before

    def __str__(self) -> str:
        if self.is_paused:
            return "paused"
        return "no limit" if self.rate is None else f"at most {self.rate:.4g}/s"
