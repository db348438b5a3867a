"""A user's password where no other process and no history can see it: asked for, or read from standard input."""

from __future__ import annotations

import sys
from getpass import getpass

from rmqadmin.call import Call
from rmqproto.errors import UsageError

_HINT = "--password-stdin reads it from standard input; on a terminal, without either, it is asked for."


def given_password(call: Call, password: str | None, from_stdin: bool, username: str) -> str:
    """What ``-p`` says, the first line of standard input, or what somebody types twice. UsageError for both, for none,
    and where nobody can be asked."""
    if from_stdin:
        return stdin_password(password)
    if password is not None:
        return password.strip()
    if not call.can_ask:
        raise UsageError("Missing required option: -p/--password", hint=_HINT)
    asked = getpass(f"Password of {username}: ").strip()
    if asked != getpass("Once more: ").strip():
        raise UsageError("the two passwords differ", hint="Nothing was changed.")
    return _checked(asked)


def stdin_password(password: str | None) -> str:
    """For ``--password-stdin``; ``password`` is what ``-p`` says beside it. UsageError."""
    if password is not None:
        raise UsageError("give one of -p and --password-stdin")
    return _checked(sys.stdin.readline().strip())


def _checked(password: str) -> str:
    if not password:
        raise UsageError("the password is empty", hint=_HINT)
    return password
