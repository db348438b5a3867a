"""How and where timers are stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimerPaths:
    wheel: str
    log: str
    check: str

    @classmethod
    def below(cls, root: str) -> TimerPaths:
        """Paths in a store directory, as Apache's broker has them."""
        return cls(f"{root}/timerwheel", f"{root}/timerlog", f"{root}/config/timercheck")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerOptions:
    """The comment of a field is Apache's key."""

    precision_ms: int = 1000  # timerPrecisionMs
    log_file_size_bytes: int = 100 << 20  # mappedFileSizeTimerLog
    roll_window_slots: int = 2 * 24 * 3600  # timerRollWindowSlot
