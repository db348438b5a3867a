"""The line that tells that a server is ready: on standard output, and in a file for processes that wait for it."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from rmqproto.errors import UsageError

log = logging.getLogger(__name__)


def check_ready_file(ready_file: str) -> None:
    """UsageError if the file could not be written, before anything is opened."""
    path = Path(ready_file)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        temporary = _temporary(path)
        temporary.touch()
        temporary.unlink()
    except OSError as error:
        raise UsageError(f"--ready-file {ready_file}: {error.strerror}") from None


def announce(facts: Mapping[str, object], ready_file: str | None) -> None:
    """Leaves out facts that are None. The file appears only when it is complete. If one of the two cannot be written,
    the log says so, and the server serves all the same: its clients need neither."""
    told = {"event": "ready", "pid": os.getpid(), **facts}
    line = json.dumps({name: fact for name, fact in told.items() if fact is not None}) + "\n"
    if ready_file is not None:
        with _may_fail(ready_file):
            temporary = _temporary(Path(ready_file))
            temporary.write_text(line)
            temporary.replace(ready_file)
    with _may_fail("standard output"):
        _write_out(line)


@contextlib.contextmanager
def _may_fail(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        log.warning("event=ready-line-not-written to=%r reason=%r", where, error.strerror)


def _write_out(line: str) -> None:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    try:
        sys.stdout.write(line)
        sys.stdout.flush()
    except OSError:
        # Python would write the rest at the end, fail again, and make that the exit status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}")
