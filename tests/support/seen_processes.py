"""What the process list shows to every user of the machine."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.beside import beside


@contextmanager
def all_argv() -> Iterator[set[bytes]]:
    """The command lines of all processes that are seen during the block."""
    seen: set[bytes] = set()

    def look(is_over: threading.Event) -> None:
        while not is_over.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes())
                except OSError:
                    continue  # the process has ended

    with beside(look):
        yield seen
