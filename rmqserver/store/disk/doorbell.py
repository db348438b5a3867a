"""How the store's threads wake the broker's loop: a descriptor that becomes readable."""

from __future__ import annotations

import contextlib
import os


class Doorbell:
    """``fd`` is readable after ``ring`` until ``clear``. An eventfd if the system has it, else a pipe."""

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self.fd = self._write_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self.fd, self._write_fd = os.pipe()
            os.set_blocking(self.fd, False)
            os.set_blocking(self._write_fd, False)

    def ring(self) -> None:
        """Makes ``fd`` readable. Any thread."""
        with contextlib.suppress(BlockingIOError):  # full: it is readable already
            os.write(self._write_fd, (1).to_bytes(8, "little"))

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 4096)

    def close(self) -> None:
        os.close(self.fd)
        if self._write_fd != self.fd:
            os.close(self._write_fd)
