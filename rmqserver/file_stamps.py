"""Tells whether files have changed. They are checked from time to time, because some file systems do not report
changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

WATCH_INTERVAL_S = 0.5
"""The interval of Apache's ``FileWatchService``."""

Stamps = Mapping[str, tuple[int, int, int] | None]
"""By path; None for a missing file."""


def stamps(paths: Iterable[str]) -> Stamps:
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Changes when the file, or the target of its link, does."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
