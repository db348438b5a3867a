"""Rows that no broker takes. They travel in the commit messages of their tasks, and the driver decides: to repeat the
task would store its other rows again, and reject the same ones."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from rmqproto.errors import RocketMQError, UsageError
from rmqproto.wording import counted
from rmqreplay.sending.delivery import TOPIC_CODES

KEPT_MAX_BYTES = 20 << 20
"""Rejected rows that one task hands back; more are only counted. Spark refuses more than 1 GiB from all tasks together
(``spark.driver.maxResultSize``)."""
_ROW_BYTES = 200
"""What a row takes besides body and properties."""


class RejectedError(RocketMQError):
    """Some rows will never be accepted by a broker. The others are stored."""


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """``row`` counts the rows of the task from 0. ``code`` is 0 if no broker was asked."""

    task: int
    row: int
    topic: str
    code: int
    remark: str
    body: bytes
    properties: Mapping[str, str]
    flag: int = 0

    def line(self) -> bytes:
        """A line that ``msg import`` sends again; it ignores ``rejected``."""
        fields = {
            "topic": self.topic,
            "body_base64": base64.b64encode(self.body).decode(),
            "properties": self.properties,
            "flag": self.flag,
            "rejected": {"task": self.task, "row": self.row, "code": self.code, "remark": self.remark},
        }
        return msgspec.json.encode(fields) + b"\n"


@dataclass(slots=True)
class Rejects:
    """Those of one task. ``rows`` has as many as are kept; ``first`` tells of the first."""

    rows: list[RejectedRow] = field(default_factory=list)
    count: int = 0
    first: str = ""
    size_bytes: int = 0

    def add(self, row: RejectedRow) -> None:
        self.count += 1
        self.first = self.first or f"row {row.row} of task {row.task}, for {row.topic}: {row.remark} ({row.code})"
        size_bytes = _ROW_BYTES + len(row.body) + sum(len(name) + len(value) for name, value in row.properties.items())
        if self.size_bytes + size_bytes <= KEPT_MAX_BYTES:
            self.rows.append(row)
            self.size_bytes += size_bytes


def check_reject_path(path: str | None) -> None:
    """UsageError if the file is there already, or could not be made, as far as that is known now."""
    if path is not None and os.path.exists(path):
        raise UsageError(
            f"rejectPath {path} exists", hint="a write does not overwrite rejected rows: name another file"
        )
    check_reject_directory(path)


def check_reject_directory(path: str | None) -> None:
    """As ``check_reject_path``, of a file that may be there."""
    if path is None:
        return
    directory = os.path.dirname(os.path.abspath(path))
    if not os.access(directory, os.W_OK):
        raise UsageError(f"rejectPath {path}: the driver cannot write to {directory}")


def settle(tasks: Iterable[Rejects], stored: int, path: str | None) -> None:
    """Writes the rejected rows of all tasks to the file ``path``. RejectedError if there are any and ``path`` is None,
    or not all were kept or written, or the sender may send nothing at all."""
    found = [task for task in tasks if task.count]
    count = sum(task.count for task in found)
    if not count:
        return
    text = f"{count} of {counted(stored + count, 'row')} rejected, and {stored} stored: {found[0].first}"
    if path is None:
        raise RejectedError(text, hint="onReject=file and rejectPath keep rejected rows, for msg import")
    try:
        _write(path, found)
    except OSError as error:
        raise RejectedError(
            f"{text}; {path} is not written: {error.strerror or error}", hint="the rejected rows are in no file"
        ) from None
    kept = sum(len(task.rows) for task in found)
    if kept < count:
        limit = f"a task hands back at most {KEPT_MAX_BYTES >> 20} MiB of them"
        raise RejectedError(f"{text}; {path} has {kept} of them: {limit}")
    if not stored and any(row.code in TOPIC_CODES for task in found for row in task.rows):
        raise RejectedError(f"{text}; {path} has them", hint="if no topic is allowed, are these the right keys?")


def _write(path: str, tasks: Iterable[Rejects]) -> None:
    part = f"{path}.part"
    try:
        with open(part, "wb") as file:
            for task in tasks:
                file.writelines(row.line() for row in task.rows)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            os.unlink(part)  # the disk may be full
        raise
