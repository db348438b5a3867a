"""``rmqadmin`` as from a shell: each command line is shown, then what it prints."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND_TIMEOUT_S = 60


class Shell:
    """Runs ``rmqadmin`` of this environment against one nameserver."""

    def __init__(self, namesrv_addr: str, state_dir: Path):
        """``state_dir`` takes undo files and the like: a demonstration leaves nothing in the user's own."""
        self._program = str(Path(sys.executable).with_name("rmqadmin"))
        self._environment = dict(os.environ, NAMESRV_ADDR=namesrv_addr, XDG_STATE_HOME=str(state_dir))

    def show(self, *words: str) -> None:
        """One command, its line and its output on the screen. CalledProcessError where it fails."""
        print(f"\n$ rmqadmin {shlex.join(words)}", flush=True)
        subprocess.run([self._program, *words], env=self._environment, check=True, timeout=COMMAND_TIMEOUT_S)

    def items(self, *words: str) -> list[dict[str, Any]]:
        """The same command's rows, for counting."""
        done = subprocess.run(
            [self._program, "-o", "json", *words],
            env=self._environment,
            check=True,
            timeout=COMMAND_TIMEOUT_S,
            stdout=subprocess.PIPE,
        )
        items: list[dict[str, Any]] = json.loads(done.stdout)["items"]
        return items
