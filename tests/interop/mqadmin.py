"""Apache's own mqadmin, with one JVM for many calls (``java/Mqadmin.java``): a JVM for each call would cost seconds."""

import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Self

from rmqadmin.testing.server_process import DIE_WITH_PARENT

from .apache import java_command

CALL_DEADLINE_S = 120
LEAVE_DEADLINE_S = 30

# mqadmin's exit status is always 0, so errors are found in its output.
ERROR = re.compile(
    r"(?m)^(\S*Exception\b|Caused by:|Exception in thread|The sub command \S+ not exist|\s+at \S+\(\S*\.java)"
    r"|command failed"
)


class MqadminError(AssertionError):
    """mqadmin printed an error. The text is its whole output."""


class Mqadmin:
    """Each call takes the arguments of a command line and returns standard output."""

    def __init__(self, namesrv_addr: str, home: Path):
        home.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "NAMESRV_ADDR": namesrv_addr, "ROCKETMQ_HOME": str(home)}
        command = java_command(home, "Mqadmin", logback="tools")
        with (home / "mqadmin.err").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-c", DIE_WITH_PARENT, *command],
                env=env,
                cwd=home,  # consumerStatus leaves files in the current directory
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(LEAVE_DEADLINE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def __call__(self, *args: str) -> str:
        out, err = self.run(*args)
        if ERROR.search(out + "\n" + err):
            raise MqadminError(f"mqadmin {' '.join(args)}\n{out}{err}")
        return out

    def run(self, *args: str) -> tuple[str, str]:
        """Returns standard output and standard error, even if they hold an error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(args).encode() + b"\n")
        self._process.stdin.flush()
        # Each call has one answer of one line, so readline cannot buffer what select then waits for.
        ready, _, _ = select.select([self._process.stdout], [], [], CALL_DEADLINE_S)
        assert ready, f"mqadmin {' '.join(args)}: no answer after {CALL_DEADLINE_S} s"
        line = self._process.stdout.readline()
        assert line, f"mqadmin {' '.join(args)} ended the process: wrong options?"
        answer = json.loads(line)
        return answer["out"], answer["err"]
