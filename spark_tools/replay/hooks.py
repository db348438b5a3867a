"""What a replay tells its caller while it plans and runs, and what it leaves to the caller to decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_tools.replay.canary import CanaryReport
from spark_tools.replay.plans.plan import Plan
from spark_tools.replay.sending.permit_service import PermitService


@dataclass(slots=True)
class ReplayProgress:
    """Handed to the caller's ``on_progress`` after every wave, and with each poll while one runs."""

    wave: int = 0
    wave_count: int = 0
    granted: int = 0
    """Messages that this run put on the wire, or may have put there."""
    delivered: int = 0
    """By the ledger, when this wave began."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the caller wants to hear and to decide. ``confirm`` may raise to stop before anything is sent."""

    on_stage: Callable[[str], None] = lambda stage: None
    """Called with a text, for people, about what begins now and may take a while."""
    on_read: Callable[[int], None] = lambda count: None
    """Called with the messages of every pull: how a stage goes that reads them in this process."""
    on_plan: Callable[[Plan], None] = lambda plan: None
    confirm: Callable[[Plan], None] = lambda plan: None
    on_progress: Callable[[ReplayProgress], None] = lambda progress: None
    on_service: Callable[[PermitService], None] = lambda service: None
    """Called with the permits' home, at which the rate can be changed from then on."""
    on_canary: Callable[[CanaryReport], bool] = lambda report: report.is_good
    """Whether to go on. May ask, and raise."""


SILENT = Hooks()
"""Nobody listens; a canary is judged by its report."""
