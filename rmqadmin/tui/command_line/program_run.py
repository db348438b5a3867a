"""Runs one command line of rmqadmin as a separate process, which cannot block the dashboard or write over it. It has a
terminal as wide as the screen, and no input.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import selectors
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock

OUTPUT_MAX_BYTES = 4 * 1024 * 1024
"""The most output that is kept; then the program is stopped."""

_READ_BYTES = 65536
_PLAIN = {"NO_COLOR": "1", "RMQADMIN_PAGER": "cat", "TERM": "dumb"}


class ProgramRun:
    """``run`` blocks until the program has ended. ``text`` and ``stop`` may be called from any thread."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], columns: int, lines: int):
        self._words, self._environment = list(words), dict(environment)
        self._size = struct.pack("HHHH", lines, columns, 0, 0)
        self._parts: list[str] = []
        self._size_bytes = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = Lock()
        self.status: int | None = None
        """The exit status; None until the program has ended."""
        self.was_cut = False

    @property
    def text(self) -> str:
        with self._lock:
            return "".join(self._parts)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._process is not None and self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGTERM)

    def run(self) -> int:
        """Runs the program and returns its exit status, which is negative after a signal. OSError if it cannot be
        started."""
        terminal, inside = pty.openpty()
        try:
            self._start(inside)
            self._read(terminal)
        finally:
            os.close(terminal)
        assert self._process is not None
        self.status = self._process.wait()
        return self.status

    def _start(self, inside: int) -> None:
        try:
            fcntl.ioctl(inside, termios.TIOCSWINSZ, self._size)
            settings = termios.tcgetattr(inside)
            settings[1] &= ~termios.OPOST  # no CR before LF
            termios.tcsetattr(inside, termios.TCSANOW, settings)
            environment = {**os.environ, **_PLAIN, **self._environment}
            for name in ("COLUMNS", "LINES", "FORCE_COLOR"):
                environment.pop(name, None)
            with self._lock:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "rmqadmin", *self._words],
                    stdin=subprocess.DEVNULL,
                    stdout=inside,
                    stderr=subprocess.PIPE,
                    env=environment,
                    start_new_session=True,
                )
            if self._stopped:
                self.stop()
        finally:
            os.close(inside)

    def _read(self, terminal: int) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        decoders = {source: codecs.getincrementaldecoder("utf-8")("replace") for source in (0, 1)}
        with selectors.DefaultSelector() as waiting, self._process.stderr:
            for number, source in enumerate((terminal, self._process.stderr.fileno())):
                waiting.register(source, selectors.EVENT_READ, number)
            while waiting.get_map():
                for key, _ in waiting.select():
                    try:
                        data = os.read(key.fd, _READ_BYTES)
                    except OSError:  # the terminal has no writer left
                        data = b""
                    if not data:
                        waiting.unregister(key.fd)
                    self._take(decoders[key.data].decode(data), len(data))

    def _take(self, text: str, size_bytes: int) -> None:
        with self._lock:
            room = OUTPUT_MAX_BYTES - self._size_bytes
            self._size_bytes += size_bytes
            if room > 0 and text:
                self._parts.append(text)
            self.was_cut = self._size_bytes > OUTPUT_MAX_BYTES
        if self.was_cut:
            self.stop()
