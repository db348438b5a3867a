"""Whether files have changed: looked at now and then, because what they are on may not tell."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

WATCH_INTERVAL_S = 0.5
"""As Apache's ``FileWatchService``."""

Stamps = Mapping[str, tuple[int, int, int] | None]
"""By path; None for a file that is not there."""


def stamps(paths: Iterable[str]) -> Stamps:
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Changes when the file, or what its link leads to, does."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
