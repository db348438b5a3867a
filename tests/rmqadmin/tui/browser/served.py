"""``rmqadmin tui --serve`` as a separate program, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TIMEOUT_S = 60.0


class Served:
    """A running server. ``url`` is the address that it printed, with the token."""

    def __init__(self, process: subprocess.Popen[str], url: str):
        self.process, self.url = process, url

    @property
    def address(self) -> str:
        """The address without the token."""
        return self.url.partition("?")[0]

    def dashboards(self) -> list[int]:
        """The process ids of the running dashboards."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(number) for number in listed.split()]

    def end(self) -> int:
        """Ends the server as Ctrl-C does, and returns its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(TIMEOUT_S)


@contextmanager
def serving(namesrv_addr: str, folder: Path, *options: str) -> Iterator[Served]:
    environment = {**os.environ, "HOME": str(folder), "NAMESRV_ADDR": namesrv_addr}
    command = [sys.executable, "-m", "rmqadmin", "tui", "--serve", "--interval", "0.5", *options]
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[4])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            url = process.stdout.readline().strip()
            assert url, process.stderr.read()
            yield Served(process, url)
        finally:
            if process.poll() is None:
                process.kill()
