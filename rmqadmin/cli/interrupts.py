"""Ctrl-C while a command line starts, and while the process ends: there is nothing to put in order, so the process ends
at once. An exception in the middle of an import would be shown as a traceback, be lost, or crash a module written in
C."""

import os
import signal
from types import FrameType

INTERRUPTED = 130
"""``ExitCode.INTERRUPTED``, which may not be loaded yet."""


def end_at_once() -> None:
    """From now on, Ctrl-C ends the process. A program that was started to ignore it goes on doing so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """From now on, Ctrl-C raises KeyboardInterrupt again: a command has begun. Does nothing without
    ``end_at_once``."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
