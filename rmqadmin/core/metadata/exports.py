"""Files that the export commands write: where, and in which format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rmqadmin.core.mqadmin_text import fastjson_pretty
from rmqadmin.core.user_files import write_file

MQADMIN_FOLDER = "/tmp/rocketmq/export"
"""Where mqadmin writes by default."""


def export(
    folder: str | None, as_mqadmin: bool, name: str, content: Callable[[], Any], notice: Callable[[str], None]
) -> str | None:
    """Writes ``content()`` as JSON, in fastjson's format, to ``folder/name``. Without ``folder``, writes to mqadmin's
    folder if ``as_mqadmin``, else nothing. The path; None if nothing was written. StorageError if it cannot be
    written."""
    if folder is None and not as_mqadmin:
        return None
    path = Path((folder or MQADMIN_FOLDER).strip()) / name
    write_file(path, fastjson_pretty(content()).encode())
    if not as_mqadmin:
        notice(f"written to {path}")
    return str(path)
