"""Logs: one line an event on standard error, ``key=value``. Messages in the code begin with ``event=``."""

from __future__ import annotations

import json
import logging
import math
import sys
import time

LINE_MAX_CHARS = 8192
"""Lines may hold names from outside, and a frame has room for a name of 16 MiB."""

SELDOM_INTERVAL_S = 10.0
_NAMES_MAX = 1000


class KeyValueFormatter(logging.Formatter):
    """Puts time in UTC, level and logger first; a traceback comes last, as one quoted value."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage().replace("\n", "\\n")
        line = f"time={self.formatTime(record)} level={record.levelname.lower()} logger={record.name} {message}"
        if record.exc_info:
            line += f" traceback={json.dumps(self.formatException(record.exc_info))}"
        return line if len(line) <= LINE_MAX_CHARS else line[:LINE_MAX_CHARS] + "…"

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


class Seldom:
    """Limits log lines that others can cause without end: each name may write one from time to time."""

    def __init__(self) -> None:
        self._written_s: dict[str, float] = {}

    def is_due(self, name: str) -> bool:
        """True at most once every SELDOM_INTERVAL_S for each name."""
        now_s = time.monotonic()
        if now_s < self._written_s.get(name, -math.inf) + SELDOM_INTERVAL_S:
            return False
        if len(self._written_s) >= _NAMES_MAX:
            self._written_s.clear()
        self._written_s[name] = now_s
        return True


def set_up(level: str) -> None:
    """Sets up logging for the whole process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
