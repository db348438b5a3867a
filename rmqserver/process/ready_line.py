"""The line that tells that a server is ready: on standard output, and in a file for processes that wait for it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path


def announce(facts: Mapping[str, object], ready_file: str | None) -> None:
    """Leaves out facts that are None. The file appears only when it is complete."""
    told = {"event": "ready", "pid": os.getpid(), **facts}
    line = json.dumps({name: fact for name, fact in told.items() if fact is not None}) + "\n"
    if ready_file is not None:
        path = Path(ready_file)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_text(line)
        temporary.replace(path)
    sys.stdout.write(line)
    sys.stdout.flush()
