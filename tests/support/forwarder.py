"""A port mapped to another, as a container's is: bytes that come in on one side go out on the other."""

import contextlib
import socket
import threading
from typing import Self


class Forwarder:
    """Listens on a free port of ``host`` from the start; the target ``to`` may be set later. Counts connections.
    Leaving ``with`` closes it and its connections."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._listener = socket.create_server((host, 0))
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self.to = ""
        self.connection_count = 0
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Breaks the open connections."""
        while self._sockets:
            each = self._sockets.pop()
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                host, _, port = self.to.rpartition(":")
                far = socket.create_connection((host, int(port)))
                self._sockets += [near, far]
                self.connection_count += 1
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
