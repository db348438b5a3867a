"""The log of changes: its entries, what one change writes into it, and its rows."""

from __future__ import annotations

import errno
import os
import pwd
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import msgspec

from rmqadmin.core.changes import FieldChange, FreeTextChange
from rmqadmin.core.files import alone_in, make_private_dir, state_dir
from rmqadmin.core.results import TIME, Result, ResultColumn, Row, columns, doc, row_of
from rmqadmin.core.units import machine_text
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
    with alone_in(path.parent):  # two commands must not rename it at once
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            before_bytes, text = os.fstat(file).st_size, msgspec.json.encode(line) + b"\n"
            if os.write(file, text) < len(text):  # the disk is full; half a line would spoil the next one, too
                os.ftruncate(file, before_bytes)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            is_full = before_bytes + len(text) > FILE_SIZE_MAX_BYTES
        finally:
            os.close(file)
        if is_full:
            os.replace(path, older_path())


def read_commands_untrusted() -> tuple[list[AuditedCommand], int]:
    """All commands, oldest first, and how many lines are not ours. UsageError for a file that cannot be read."""
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
        where: tuple[str | None, str],
        tell: Callable[[str], None],
    ):
        """``where``: the context, if it counts, and the name servers. ``tell`` takes the reason if nothing can be
        written."""
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
            context, namesrv_addr = self._where
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
        changes = [] if result is None else audited_changes(result)
        if changes and isinstance(error, OSError):  # only its answer could not be written
            error = None
        problem = None if result is None else result.problem()
        if isinstance(error, KeyboardInterrupt):
            outcome = "interrupted"
        else:
            outcome = "failed" if error is not None else "partly failed" if problem is not None else "done"
        summary = None if result is None else result.summary()
        self._end(
            outcome,
            str(error) or None if error is not None else problem,
            changes,
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
                changes=[msgspec.structs.replace(each, error=self._cleaned(each.error)) for each in changes],
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

    def _append(self, line: AuditLine) -> None:
        try:
            append(line)
        except OSError as error:
            if not self._has_failed:
                self._tell(f"the log of changes cannot be written: {error.strerror}: {log_path()}")
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
    """What a result says of each server that was changed; empty for rows that are not changes, such as messages."""
    if not result.tells_changes:
        return []
    rows, keys = result.rows(), [column for column in columns(result.row_type) if column.is_key]
    if len(rows) > CHANGES_MAX:
        return [AuditedChange(target=f"{len(rows)} targets", done=all(row.done for row in rows))]  # type: ignore[attr-defined]
    found = []
    for row in rows:
        said = msgspec.structs.asdict(row)
        changes = [_without_secret(change) for change in said.get("changes") or ()]
        if "old_offset" in said:
            changes = [FieldChange("offset", said["old_offset"], said["new_offset"])]
        target = " ".join(machine_text(said[column.name], column) for column in keys)
        told: dict[str, Any] = {name: said.get(name) for name in ("action", "done", "error")}
        found.append(AuditedChange(target=target, changes=changes, **told))
    return found


def _without_secret(change: FieldChange) -> FieldChange:
    """The change; for a secret field, and for free text, only its name, without the values."""
    if not SECRET_NAME.search(change.field) and not isinstance(change, FreeTextChange):
        return change
    before, after = (None if value is None else HIDDEN for value in (change.before, change.after))
    return FieldChange(change.field, before, after)


class AuditRow(Row, frozen=True):
    time_ms: Annotated[int, TIME, doc("when the command began to change something")]
    user: Annotated[str | None, doc("who: the user of the process", minor=True)]
    host: Annotated[str | None, doc("on which machine", wide=True)]
    context: Annotated[str | None, doc("the context; tables show the name servers if none counted", minor=True)]
    namesrv_addr: Annotated[str | None, doc("the name servers", wide=True)]
    command: Annotated[str | None, doc("the command", vital=True)]
    arguments: Annotated[dict[str, Any], doc("its options, but for free text")]
    target: Annotated[str | None, doc("the server; none if the answer says nothing of single ones")]
    action: Annotated[str | None, doc("create, change, delete and so on")]
    changes: Annotated[list[FieldChange], doc("field, before, after; secrets are not written down")]
    outcome: Annotated[str, doc("done, failed, partly failed, interrupted; unfinished: running or killed", vital=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]
    id: Annotated[str, doc("of the command", key=True, wide=True)]

    def shown(self, column: ResultColumn) -> Any:
        if column.name == "context" and self.context is None:
            return self.namesrv_addr
        return super().shown(column)


def audit_rows(one: AuditedCommand) -> list[AuditRow]:
    begin, end = one.begin, one.end
    whole = row_of(
        AuditRow,
        begin,
        target=None,
        action=None,
        changes=[],
        outcome="unfinished" if end is None else end.outcome or "",
        error=None if end is None else end.error,
    )
    if end is None or not end.changes:
        return [whole]
    return [
        msgspec.structs.replace(
            whole,
            target=each.target,
            action=each.action,
            changes=each.changes,
            outcome="done" if each.done else "failed",
            error=each.error,
        )
        for each in end.changes
    ]
