"""The line that tells that a server is ready: on standard output, and in a file for processes that wait for it."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rmqproto.errors import UsageError


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
    """Leaves out facts that are None. The file appears only when it is complete."""
    told = {"event": "ready", "pid": os.getpid(), **facts}
    line = json.dumps({name: fact for name, fact in told.items() if fact is not None}) + "\n"
    if ready_file is not None:
        path = Path(ready_file)
        temporary = _temporary(path)
        temporary.write_text(line)
        temporary.replace(path)
    sys.stdout.write(line)
    sys.stdout.flush()


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}")
