"""The log of the changes made by this user's commands: JSON Lines in the state directory, readable only by its owner.

A command writes two lines: one before its first change, one at its end. A command that was killed has only the first.
No line holds a secret: passwords and keys, the bodies and properties of messages, and the values of secret settings are
left out before anything is written.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rmqadmin.core.changes import FieldChange
from rmqadmin.core.own_files import make_private_dir, state_dir
from rmqproto.errors import UsageError

FILE_SIZE_MAX_BYTES = 16 * 1024 * 1024
"""About 50,000 changes. A full file is then renamed and replaces the one renamed before."""

BEGIN, END = "begin", "end"


class AuditedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change on one server."""

    target: str
    action: str | None = None
    changes: list[FieldChange] = []
    done: bool = False
    error: str | None = None


class AuditLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. The lines of one command share the ``id``. Only the first says who changed what and where; only the
    last says how it went: ``outcome`` is done, partly failed, failed or interrupted."""

    id: str
    event: str
    time_ms: int
    user: str | None = None
    host: str | None = None
    pid: int | None = None
    context: str | None = None
    namesrv_addr: str | None = None
    command: str | None = None
    arguments: dict[str, Any] = {}
    outcome: str | None = None
    error: str | None = None
    changes: list[AuditedChange] = []
    summary: dict[str, Any] = {}


class AuditedCommand(msgspec.Struct, frozen=True):
    """Both lines of one command; ``end`` is None if it was killed or is still running."""

    begin: AuditLine
    end: AuditLine | None = None


def log_path() -> Path:
    return state_dir() / "audit.jsonl"


def older_path() -> Path:
    """Where the log goes when it is full."""
    return log_path().with_suffix(".1.jsonl")


def append(line: AuditLine) -> None:
    """Appends a line. OSError if it cannot be written."""
    path = log_path()
    make_private_dir(path.parent)
    lock = os.open(path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two commands must not rename it at once
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, msgspec.json.encode(line) + b"\n")
            is_full = os.fstat(file).st_size > FILE_SIZE_MAX_BYTES
        finally:
            os.close(file)
        if is_full:
            os.replace(path, older_path())
    finally:
        os.close(lock)


def read_commands_untrusted() -> tuple[list[AuditedCommand], int]:
    """All commands, oldest first, and the number of lines that are not ours. UsageError for a file that cannot be
    read."""
    found: dict[str, AuditedCommand] = {}
    wrong_count = 0
    for path in (older_path(), log_path()):
        for line in _lines(path):
            if line is None:
                wrong_count += 1
            elif line.event == BEGIN:
                found[line.id] = AuditedCommand(line)
            elif line.id in found:
                found[line.id] = AuditedCommand(found[line.id].begin, line)
    return list(found.values()), wrong_count


def _lines(path: Path) -> Iterator[AuditLine | None]:
    decoder = msgspec.json.Decoder(AuditLine)
    try:
        with path.open("rb") as file:
            for text in file:
                try:
                    yield decoder.decode(text)
                except (msgspec.MsgspecError, RecursionError):
                    yield None
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
