"""A scripted server: real loopback sockets and real frames, but no broker behind them."""

import contextlib
import socket
import sys
import threading
from collections.abc import Callable
from typing import Self

from rmqproto.codes import RESPONSE_FLAG
from rmqproto.headers.base import Header, to_ext
from rmqproto.wire.command import Command, FrameReader, encode_frame

CLOSE = object()
"""A reply that closes the connection."""

Reply = Callable[[Command], object]
"""How to reply to a request: a Command or bytes to send, a list of them, None for no answer, or CLOSE."""

JOIN_TIMEOUT_S = 20.0


def answer(
    request: Command,
    code: int = 0,
    fields: Header | dict[str, str] | None = None,
    body: bytes = b"",
    remark: str | None = None,
) -> Command:
    ext = to_ext(fields) if isinstance(fields, Header) else dict(fields or {})
    return Command(code=code, opaque=request.opaque, flag=RESPONSE_FLAG, ext=ext, body=body, remark=remark)


class Peer:
    """Listens from the start. ``requests`` holds every request that came, ``answers`` every answer to our own requests.
    ``connections`` counts also those past ``connections_max``, which are closed at once. ``close`` it, or use it as a
    context manager; after ``hang_up``, ``listen`` listens again on the same port."""

    def __init__(self, reply: Reply):
        self.reply = reply
        self.requests: list[Command] = []
        self.answers: list[Command] = []
        self.connections = 0
        self.connections_max = sys.maxsize
        self.changed = threading.Condition()
        self.port = 0
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.listen()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()

    def listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._accepting.start()

    def hang_up(self) -> None:
        """Refuses new connections and closes the open ones."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(JOIN_TIMEOUT_S)  # a client that connected at the last moment is in the table then
        self.drop_channels()
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)
            assert not thread.is_alive()
        self._threads.clear()

    def drop_channels(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def push(self, command: Command | None) -> None:
        """Sends a request of our own, or a held answer, to every connected client."""
        if command is None:
            return
        for connection in list(self._open):
            connection.sendall(encode_frame(command))

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Waits until ``condition`` is true, which is checked whenever something arrives."""
        with self.changed:
            assert self.changed.wait_for(condition, timeout_s), (self.requests, self.answers)

    def codes(self) -> list[int]:
        return [request.code for request in self.requests]

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self.changed:
                self.connections += 1
                self.changed.notify_all()
            if len(self._open) >= self.connections_max:
                connection.close()
                continue
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        try:
            while data := connection.recv(1 << 16):
                for command in reader.feed(data):
                    self._take(command, connection)
        except OSError:
            pass
        finally:
            self._open.remove(connection)
            connection.close()

    def _take(self, command: Command, connection: socket.socket) -> None:
        with self.changed:
            (self.answers if command.is_answer else self.requests).append(command)
            self.changed.notify_all()
        if command.is_answer:
            return
        replies = self.reply(command)
        for reply in replies if isinstance(replies, list) else [replies]:
            if reply is CLOSE:
                connection.shutdown(socket.SHUT_RDWR)
            elif isinstance(reply, Command):
                connection.sendall(encode_frame(reply))
            elif isinstance(reply, bytes):
                connection.sendall(reply)
