"""Logs: one line an event on standard error, ``key=value``. Messages in the code begin with ``event=``."""

from __future__ import annotations

import json
import logging
import sys
import time

LINE_MAX_CHARS = 8192
"""Lines hold names from outside, and a frame has room for a name of 16 MiB."""


class KeyValueFormatter(logging.Formatter):
    """Time in UTC, level and logger in front; a traceback as one quoted value behind."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage().replace("\n", "\\n")
        line = f"time={self.formatTime(record)} level={record.levelname.lower()} logger={record.name} {message}"
        if record.exc_info:
            line += f" traceback={json.dumps(self.formatException(record.exc_info))}"
        return line if len(line) <= LINE_MAX_CHARS else line[:LINE_MAX_CHARS] + "…"

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def set_up(level: str) -> None:
    """For the whole process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
