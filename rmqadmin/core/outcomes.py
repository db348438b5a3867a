"""What an error says about a change: whether it may have been made all the same, and what then becomes of the file that
undoes it."""

from __future__ import annotations

from pathlib import Path

from rmqadmin.core.contexts.permission import ChangeRefusedError
from rmqadmin.core.results import Notice
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotConnectedError, NotFoundError, RefusedError, RocketMQError, UsageError

_UNTOLD = (NotConnectedError, NotFoundError, UsageError, ChangeRefusedError)
"""Errors after which nothing was sent."""


class NotTakenError(RocketMQError):
    """The user stopped the command before this step."""


class StoppedAtError(NotTakenError):
    """The user stopped the command at this step; whether it was done is unknown."""


def may_have_acted(error: BaseException) -> bool:
    """Whether the server that was told may have done it. It certainly has not if it was not reached, or if it refused.
    SYSTEM_ERROR is also the answer of a broker that failed half way."""
    if isinstance(error, NotTakenError):
        return isinstance(error, StoppedAtError)
    if isinstance(error, RefusedError):
        return error.code == ResponseCode.SYSTEM_ERROR
    return not isinstance(error, _UNTOLD)


def settle_undo_file(path: Path | None, error: BaseException, undo_command: str, notice: Notice) -> None:
    """Called when a change has ended with ``error``. Removes its undo file if nothing was changed. Otherwise the file
    stays, and the user is told of it: in the error's hint, or by ``notice`` after Ctrl-C."""
    if path is not None and not may_have_acted(error):
        path.unlink(missing_ok=True)
        return
    if path is not None:
        tell_way_back(error, undo_command, notice)


def tell_way_back(error: BaseException, undo_command: str, notice: Notice) -> None:
    """Adds to an error how to undo what may have been changed before it."""
    words = f"If anything was changed, this undoes it: {undo_command}"
    if isinstance(error, RocketMQError):
        error.hint = f"{error.hint} {words}" if error.hint else words
    else:
        notice(words[0].lower() + words[1:])
