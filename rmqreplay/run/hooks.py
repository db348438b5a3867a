"""The callbacks by which a replay informs its caller and leaves decisions to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rmqreplay.plans.plan import Plan
from rmqreplay.run.canary import CanaryReport
from rmqreplay.sending.permit_service import PermitService


@dataclass(slots=True)
class ReplayProgress:
    """Passed to the caller's ``on_progress`` after every wave, and with each poll during a wave."""

    wave: int = 0
    wave_count: int = 0
    granted: int = 0
    """Messages that this run sent or may have sent."""
    delivered: int = 0
    """The messages delivered according to the ledger when this wave began."""
    found: int = 0
    """Messages that finished waves of this run did not send, because they were at the target already."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The caller's callbacks. ``confirm`` may raise to stop before anything is sent."""

    on_stage: Callable[[str], None] = lambda stage: None
    """Called with a text for people about a stage that begins and may take a while."""
    on_read: Callable[[int], None] = lambda count: None
    """Called with the number of messages of every pull, as progress of a stage that reads them in this process."""
    on_plan: Callable[[Plan], None] = lambda plan: None
    confirm: Callable[[Plan], None] = lambda plan: None
    on_progress: Callable[[ReplayProgress], None] = lambda progress: None
    on_service: Callable[[PermitService], None] = lambda service: None
    """Called with the permit service, which can change the rate from then on."""
    on_canary: Callable[[CanaryReport], bool] = lambda report: report.is_good
    """Returns whether to continue. It may ask, and raise."""


SILENT = Hooks()
"""No callbacks; the canary's report decides."""
