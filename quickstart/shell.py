"""``rmqadmin`` as in a shell: each command line is shown, then its output."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND_TIMEOUT_S = 180


class Shell:
    """Runs ``rmqadmin`` of this environment against one nameserver."""

    def __init__(self, namesrv_addr: str, state_dir: Path):
        """``state_dir`` holds undo files and the like, so that a demonstration leaves nothing in the user's own
        directory."""
        self._program = str(Path(sys.executable).with_name("rmqadmin"))
        own = {"NAMESRV_ADDR": namesrv_addr, "RMQADMIN_CONTEXT": "none", "XDG_STATE_HOME": str(state_dir)}
        self._environment = os.environ | own
        self.ledgers = state_dir / "rmqadmin" / "replay"
        """Where its replays keep theirs."""

    def show(self, *words: str) -> None:
        """Runs one command and shows its line and output. CalledProcessError if it fails."""
        print(f"\n$ rmqadmin {shlex.join(words)}", flush=True)
        subprocess.run([self._program, *words], env=self._environment, check=True, timeout=COMMAND_TIMEOUT_S)

    def items(self, *words: str) -> list[dict[str, Any]]:
        """The rows of one command, for counting."""
        done = subprocess.run(
            [self._program, "-o", "json", *words],
            env=self._environment,
            check=True,
            timeout=COMMAND_TIMEOUT_S,
            stdout=subprocess.PIPE,
        )
        items: list[dict[str, Any]] = json.loads(done.stdout)["items"]
        return items
