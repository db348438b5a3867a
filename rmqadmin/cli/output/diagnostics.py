"""The only writer of standard error, and the only place that assigns exit statuses.

Every failure becomes one line ``rmqadmin: error: …`` and, if the user can do something about it, one ``hint:``. Where
the output is JSON, it becomes one JSON object instead. Standard output holds only what the command printed.
"""

import os
import re
import sys
from threading import Lock
from typing import Any, TextIO

from rmqadmin.core.contexts.permission import ChangeRefusedError, ReadOnlyContextError
from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.core.terminal_text import printable
from rmqproto import errors
from rmqproto.codes import response_name

PROGRAM = "rmqadmin"
_FAQ_POINTER = r"\n(See|For more information, please visit the url,) https?://\S+( for further details\.)?"

_is_quiet = False

# The first match wins, so subclasses come before their bases.
_EXIT_CODES: list[tuple[type[BaseException], ExitCode]] = [
    (ReadOnlyContextError, ExitCode.NO_PERMISSION),
    (errors.UsageError, ExitCode.USAGE),
    (errors.ConnectError, ExitCode.CANNOT_CONNECT),
    (errors.RequestTimeoutError, ExitCode.TIMED_OUT),
    (errors.NotFoundError, ExitCode.NOT_FOUND),
    (errors.DamageError, ExitCode.DAMAGED),
    (errors.RocketMQError, ExitCode.REFUSED),
    (KeyboardInterrupt, ExitCode.INTERRUPTED),
]


def exit_code(error: BaseException) -> ExitCode:
    """The exit status for an error. An unknown error is a defect, and counts as a refusal."""
    if isinstance(error, errors.RefusedError):
        from rmqadmin.core.error_table import exit_code_of

        return exit_code_of(error.code, error.remark)
    for kind, code in _EXIT_CODES:
        if isinstance(error, kind):
            return code
    return ExitCode.REFUSED


def hint(error: BaseException) -> str | None:
    """What to do: the error's own hint, else that of its response code and remark."""
    own = error.hint if isinstance(error, errors.RocketMQError | ChangeRefusedError) else None
    if own is None and isinstance(error, errors.RefusedError):
        from rmqadmin.core.error_table import hint_of

        return hint_of(error.code, error.remark)
    return own


def report(error: BaseException, *, command: str | None, as_json: bool, exit_status: int | None = None) -> int:
    """Reports an error and returns the exit status to end with: the error's, unless one is given."""
    code = exit_code(error)
    status: int = code if exit_status is None else exit_status
    if as_json:
        fields = {**_fields(error, code), "exit_code": int(status)}
        import msgspec

        _write(msgspec.json.encode({"_command": command, "_version": 1, "error": fields}).decode())
        return status
    _write(f"{PROGRAM}: error: {_one_line(str(error))}")
    advice = hint(error)
    if advice:
        _write(f"hint: {_one_line(advice)}")
    return status


def _fields(error: BaseException, code: ExitCode) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "kind": code.name.lower(),
        "message": _one_line(str(error)),
        "hint": hint(error),
    }
    if isinstance(error, errors.RefusedError):
        fields["code"] = error.code
        fields["code_name"] = response_name(error.code)
        fields["remark"] = error.remark
    if isinstance(error, errors.RefusedError | errors.ConnectError):
        fields["address"] = error.address or None
    return fields


def be_quiet(is_quiet: bool) -> None:
    """Turns notices and progress off, or on again. Errors and questions are always shown."""
    global _is_quiet
    _is_quiet = is_quiet


def notice(text: str) -> None:
    """Tells the user something that is neither a failure nor data."""
    if not _is_quiet:
        _write(f"{PROGRAM}: {_one_line(text)}")


def status(text: str | None) -> None:
    """Shows progress in a line that the next one replaces. Only at a terminal. None removes the line."""
    if shows_status():
        _say(f"\r\x1b[K{printable(text or '')}")


def shows_status() -> bool:
    """Whether ``status`` does anything."""
    return draws_in_place(sys.stderr) and not _is_quiet


def draws_in_place(stream: TextIO) -> bool:
    """Whether the stream's output can be drawn over: a terminal, but not TERM=dumb, as in an editor or a log."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


_silent: set[str] = set()
_silent_lock = Lock()


def silence(address: str, is_silent: bool) -> None:
    """Shows in the status line which servers have not sent anything yet. May be called from any thread."""
    with _silent_lock:
        was_told = bool(_silent)
        (_silent.add if is_silent else _silent.discard)(address)
        if len(_silent) == 1:
            status(f"waiting for {min(_silent)}, which has sent nothing yet")
        elif _silent:
            status(f"waiting for {len(_silent)} servers, which have sent nothing yet")
        elif was_told:
            status(None)


def terminal() -> Any:
    """A Rich console on standard error, for text that is redrawn in place."""
    from rich.console import Console

    return Console(stderr=True, quiet=_is_quiet)


def ask(question: str) -> str | None:
    """The line typed in answer to a question; None at the end of input."""
    _say(question)
    line = sys.stdin.readline()
    if not line:
        _say("\n")
        return None
    return line.strip()


def _one_line(text: str) -> str:
    """Makes one line of a server's remark, which may hold several lines, control characters and Apache's pointer to its
    FAQ."""
    return printable(" ".join(re.sub(_FAQ_POINTER, "", text).split()))


def _write(line: str) -> None:
    _say(line + "\n")


def _say(text: str) -> None:
    """Writes to standard error. If its reader went away, as in ``2>&1 | head``, or its disk is full, nobody is told,
    and the exit status stays what it is."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        send_nowhere(sys.stderr)


def send_nowhere(stream: TextIO) -> None:
    """For a stream whose reader went away. Without this, the interpreter would fail again at exit, when it writes what
    is left."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
