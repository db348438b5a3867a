"""What one command leaves in the log of changes: a line before its first change, and one at its end.

If the log cannot be written, the user is told once, and the command goes on.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import msgspec

from rmqadmin.core.audit import audit_log
from rmqadmin.core.audit.audit_log import BEGIN, END, AuditedChange, AuditLine
from rmqadmin.core.changes import FieldChange, FreeTextChange
from rmqadmin.core.results import Result, Row, columns
from rmqadmin.core.tables.values import machine_text

SECRET_NAME = re.compile(r"passw|secret|credential|access_?key|token|initAuthenticationUser", re.IGNORECASE)
"""Names of server settings that are secrets or hold one, and of other text that may."""

HIDDEN = "(not written down)"

CHANGES_MAX = 10_000
"""How many changes one line holds. A command that moves the offsets of more queues only logs how many there were."""


UNTOLD_LENGTH_MIN = 4
"""The shortest secret text that is removed from errors. A shorter one would match inside ordinary words."""


class Arguments(msgspec.Struct, frozen=True):
    """The options of a command: those that may be written down, by name, and the texts that may not."""

    told: dict[str, Any] = {}
    untold: list[str] = []


class AuditTrail:
    """The trail of one command. ``begin`` may be called from any thread, and repeatedly."""

    def __init__(
        self,
        command: str,
        arguments: Arguments,
        *,
        is_on: Callable[[], bool],
        where: Callable[[], tuple[str | None, str]],
        tell: Callable[[str], None],
    ):
        """``where`` returns the context and the name servers. ``tell`` takes the reason if nothing can be written."""
        self._command, self._arguments = command, arguments
        self._is_on, self._where, self._tell = is_on, where, tell
        self._lock = Lock()
        self._id: str | None = None
        self._has_failed = False

    def begin(self) -> None:
        """Called before each change. Writes the first line."""
        with self._lock:
            if self._id is not None or not self._is_on():
                return
            self._id = secrets.token_hex(8)
            context, namesrv_addr = self._where()
            self._append(
                AuditLine(
                    id=self._id,
                    event=BEGIN,
                    time_ms=_now_ms(),
                    user=_user(),
                    host=os.uname().nodename,
                    pid=os.getpid(),
                    context=context,
                    namesrv_addr=namesrv_addr,
                    command=self._command,
                    arguments=self._arguments.told,
                )
            )

    def end(self, result: Result | None, error: BaseException | None = None) -> None:
        """Writes how the command went. Does nothing without ``begin``."""
        if self._id is None:
            return
        problem = None if result is None else result.problem()
        if isinstance(error, KeyboardInterrupt):
            outcome = "interrupted"
        else:
            outcome = "failed" if error is not None else "partly failed" if problem is not None else "done"
        summary = None if result is None else result.summary()
        self._end(
            outcome,
            str(error) or None if error is not None else problem,
            [] if result is None else audited_changes(result),
            {} if summary is None else msgspec.to_builtins(summary),
        )

    def end_with(self, changes: Sequence[AuditedChange]) -> None:
        """Like ``end``, for callers that know only the changes."""
        failed = [change for change in changes if not change.done]
        outcome = "done" if not failed else "failed" if len(failed) == len(changes) else "partly failed"
        self._end(outcome, failed[0].error if failed else None, changes, {})

    def _end(self, outcome: str, error: str | None, changes: Sequence[AuditedChange], summary: dict[str, Any]) -> None:
        if self._id is None:
            return
        self._append(
            AuditLine(
                id=self._id,
                event=END,
                time_ms=_now_ms(),
                outcome=outcome,
                error=self._cleaned(error),
                changes=[self._cleaned_change(each) for each in changes],
                summary=summary,
            )
        )
        self._id = None

    def _cleaned(self, error: str | None) -> str | None:
        """The error without secrets: errors may quote the user's input."""
        for text in self._arguments.untold:
            if error is not None and len(text) >= UNTOLD_LENGTH_MIN:
                error = error.replace(text, HIDDEN)
        return error

    def _cleaned_change(self, change: AuditedChange) -> AuditedChange:
        return msgspec.structs.replace(change, error=self._cleaned(change.error))

    def _append(self, line: AuditLine) -> None:
        try:
            audit_log.append(line)
        except OSError as error:
            if not self._has_failed:
                self._tell(f"the log of changes cannot be written: {error.strerror}: {audit_log.log_path()}")
            self._has_failed = True


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _user() -> str:
    """The user of the process; under sudo, also the user who called it."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may have no name for the user
        name = str(os.getuid())
    caller = os.environ.get("SUDO_USER")
    return f"{caller} as {name}" if caller else name


def audited_changes(result: Result) -> list[AuditedChange]:
    """What a result says of each server that was changed. Empty for results whose rows are not changes, such as
    messages."""
    names = {column.name for column in columns(result.row_type)}
    if "done" not in names:
        return []
    rows = result.rows()
    if len(rows) > CHANGES_MAX:
        return [AuditedChange(target=f"{len(rows)} targets", done=all(row.done for row in rows))]  # type: ignore[attr-defined]
    return [_change(row) for row in rows]


def _change(row: Row) -> AuditedChange:
    said = msgspec.structs.asdict(row)
    target = " ".join(machine_text(said[column.name], column) for column in columns(type(row)) if column.is_key)
    changes = [_without_secret(change) for change in said.get("changes") or ()]
    if "old_offset" in said:
        changes = [FieldChange("offset", said["old_offset"], said["new_offset"])]
    return AuditedChange(
        target=target, action=said.get("action"), changes=changes, done=said["done"], error=said.get("error")
    )


def _without_secret(change: FieldChange) -> FieldChange:
    """The change; for a secret field, and for free text, only its name, without the values."""
    if not SECRET_NAME.search(change.field) and not isinstance(change, FreeTextChange):
        return change
    before, after = (None if value is None else HIDDEN for value in (change.before, change.after))
    return FieldChange(change.field, before, after)
