"""The cache of the interop tests for slow downloads and builds: Apache's jars, other clients, our programs.

It is ``$RMQADMIN_INTEROP_CACHE`` or ``~/.cache/rmqadmin/interop``. Cached content needs no network.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rmqadmin/interop"
    path = Path(os.environ.get("RMQADMIN_INTEROP_CACHE") or default)
    path.mkdir(parents=True, exist_ok=True)
    return path


def built(name: str, sources: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """A folder that ``build(folder)`` fills once for each content of the sources, even if several processes ask for it
    at the same time."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    folder = cache_dir() / f"{name}-{digest.hexdigest()[:16]}"
    with locked(name):
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)  # left by a failed build
            folder.mkdir()
            build(folder)
            (folder / ".complete").touch()
    return folder


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Admits one process at a time."""
    with (cache_dir() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
