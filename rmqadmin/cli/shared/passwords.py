"""A user's password, taken where no other process and no history can see it: typed at a prompt, or read from standard
input."""

from __future__ import annotations

import sys
from getpass import getpass

from rmqadmin.cli.call import Call
from rmqadmin.cli.output.terminal_guard import guard_terminal
from rmqproto.errors import UsageError

_HINT = "--password-stdin reads it from standard input; on a terminal, without either, it is asked for."


def given_password(call: Call, password: str | None, from_stdin: bool, username: str) -> str:
    """The password from ``-p``, from the first line of standard input, or typed twice by the user. UsageError if both
    options are given, if nobody can be asked, and if what was read or typed is empty or differs."""
    if from_stdin:
        return stdin_password(password)
    if password is not None:
        return password.strip()
    if not call.can_ask:
        raise UsageError("Missing required option: -p/--password", hint=_HINT)
    guard_terminal()
    asked = getpass(f"Password of {username}: ").strip()
    if asked != getpass("Once more: ").strip():
        raise UsageError("the two passwords differ", hint="Nothing was changed.")
    return _checked(asked)


def stdin_password(password: str | None) -> str:
    """The password for ``--password-stdin``; ``password`` is the value of ``-p``, if given as well. UsageError."""
    if password is not None:
        raise UsageError("give -p or --password-stdin, not both")
    if sys.stdin.isatty():  # the program seemed to hang, and what was typed was seen
        guard_terminal()
        return _checked(getpass("Password: ").strip())
    return _checked(sys.stdin.readline().removeprefix("\ufeff").strip())


def _checked(password: str) -> str:
    if not password:
        raise UsageError("the password is empty", hint=_HINT)
    return password
