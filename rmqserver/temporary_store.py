"""Stores without ``--data``: a temporary directory for each process, removed when the process ends. A later start
removes what a killed process left.

The file OWNER in the directory names the process, which holds a lock (``flock``) on it. The kernel releases the lock
however the process ends. A directory is removed only if its process is gone and its lock is free: a process in another
container may be invisible here, but its lock is not.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

from rmqserver.store.disk.disk import OsDisk

log = logging.getLogger(__name__)

PREFIX = "rmqserver-"
OWNER = "owner.json"
OWNER_SIZE_MAX_BYTES = 1024

_BOOT_ID = Path(OsDisk.boot_id_path)


class TemporaryStore:
    """A new directory in the system's temporary directory, ours until ``remove``."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        # The note is locked before it gets its name, so no process can find it unlocked.
        unnamed = Path(self.path, f"{OWNER}.new")
        self._lock_fd = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX)
        os.write(self._lock_fd, json.dumps(_identity(os.getpid())).encode())
        unnamed.rename(unnamed.with_name(OWNER))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock_fd)


def sweep() -> None:
    """Removes what killed processes of this user left. Never raises, and never waits for a lock."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if _is_left_untrusted(path):
                shutil.rmtree(path, ignore_errors=True)
                log.info("event=temporary-store-swept dir=%s", path)


def _is_left_untrusted(path: Path) -> bool:
    """Whether the directory is this user's and its process is gone. OSError and ValueError if it is not such a
    store."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    fd = os.open(path / OWNER, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        owner = json.loads(os.read(fd, OWNER_SIZE_MAX_BYTES))
        if not isinstance(owner, dict) or not isinstance(owner.get("pid"), int):
            return False
        with contextlib.suppress(OSError):  # no such process
            if _identity(owner["pid"]) == owner:
                return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    finally:
        os.close(fd)


def _identity(pid: int) -> dict[str, int | str]:
    """Distinguishes this process from every later one with the same number: process numbers are reused, within a boot
    and after it. OSError if there is no such process."""
    # pid (name) state ppid …: the 20th field after the name is the start, in ticks since the boot
    start_ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return {"pid": pid, "start_ticks": start_ticks, "boot_id": _BOOT_ID.read_text().strip()}
