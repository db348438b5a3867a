"""The signals that end a command: Ctrl-C, SIGTERM (``timeout``, a supervisor) and SIGHUP (the terminal went away).

While a command line starts, and while the process ends, there is nothing to put in order, so they end the process at
once: an exception in the middle of an import would be shown as a traceback, be lost, or crash a module written in C.
While a command runs, each raises KeyboardInterrupt, so that the command says what it has done and how to undo it, and
removes what it began. SIGTERM and SIGHUP then end the process after all, as its parent expects."""

import os
import signal
import sys
from threading import Timer
from types import FrameType

INTERRUPTED = 130
"""``ExitCode.INTERRUPTED``, which may not be loaded yet."""

_OTHERS = (signal.SIGTERM, signal.SIGHUP)
_RAISED_AGAIN_AFTER_S = 0.05

_ends_at_once = False
_ended_by: int | None = None


def end_at_once() -> None:
    """From now on, the signals end the process. A program that was started to ignore one goes on doing so."""
    global _ends_at_once
    _ends_at_once = True
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    for number in _OTHERS:
        if signal.getsignal(number) is _raise:
            signal.signal(number, signal.SIG_DFL)


def raise_again() -> None:
    """From now on, the signals raise KeyboardInterrupt: a command has begun. Does nothing without ``end_at_once``."""
    global _ends_at_once
    if not _ends_at_once:
        return
    _ends_at_once = False
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in _OTHERS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise)


def is_ended() -> bool:
    """Whether SIGTERM or SIGHUP came, so that nothing more is to be begun."""
    return _ended_by is not None


def end_as_told() -> None:
    """Ends the process by the signal that came while a command ran, if one did."""
    if _ended_by is not None:
        signal.signal(_ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), _ended_by)


def not_raised(unraisable: "sys.UnraisableHookArgs") -> None:
    """For ``sys.unraisablehook``: an interrupt came where Python cannot raise an exception, as in a finalizer. By
    default it prints a traceback and goes on. While a command runs, the interrupt comes again a moment later."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
    elif _ends_at_once:
        os._exit(INTERRUPTED)
    else:
        again = Timer(_RAISED_AGAIN_AFTER_S, os.kill, (os.getpid(), _ended_by or signal.SIGINT))
        again.daemon = True
        again.start()


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def _raise(number: int, frame: FrameType | None) -> None:
    global _ended_by
    if _ended_by in (None, number):  # a terminal that goes away brings both, and what the first began must not be torn
        _ended_by = number
        raise KeyboardInterrupt
