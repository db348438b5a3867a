"""The permit book on a socket: the driver listens, and tasks ask with one line of JSON each way. A task gets a secret
with its work, because anybody on a cluster can connect to an open port."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import socketserver
import threading
import time
from typing import Any, TypeVar

import msgspec

from rmqproto.errors import ConnectError
from rmqreplay.sending.permits import Denied, Entered, Granted, PermitBook, Wait

A = TypeVar("A")

LINE_SIZE_MAX_BYTES = 4096
ANSWER_TIMEOUT_S = 10.0
CONNECT_TRIES = 3


class Question(msgspec.Struct, frozen=True):
    """The attempt asks to send ``count`` messages; for more time for those granted before (``extends``); or, with
    neither, to enter."""

    secret: str
    wave: int
    partition: int
    attempt: int
    count: int = 0
    size_bytes: int = 0
    extends: bool = False


_TO_ENTER: msgspec.json.Decoder[Entered | Wait | Denied] = msgspec.json.Decoder(Entered | Wait | Denied)
_TO_SEND: msgspec.json.Decoder[Granted | Wait | Denied] = msgspec.json.Decoder(Granted | Wait | Denied)
_MORE_TIME: msgspec.json.Decoder[Granted | Denied] = msgspec.json.Decoder(Granted | Denied)
"""Answers to the three questions."""


class Address(msgspec.Struct, frozen=True):
    """The address of the service, and the secret that it requires first."""

    host: str
    port: int
    secret: str


class PermitService:
    """Serves one book from a thread until ``close``."""

    def __init__(self, book: PermitBook, host: str = "127.0.0.1"):
        self.book = book
        self.lock = threading.Lock()
        self._server = _Server((host, 0), self)
        self.address = Address(host, self._server.server_address[1], secrets.token_hex(16))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True, name="permits")
        self._thread.start()

    def answer(self, question: Question) -> Entered | Granted | Wait | Denied:
        if not hmac.compare_digest(question.secret.encode(errors="replace"), self.address.secret.encode()):
            return Denied("wrong secret")
        task = (question.wave, question.partition, question.attempt)
        with self.lock:
            if question.extends:
                return self.book.extend(*task)
            if question.count:
                return self.book.ask(*task, question.count, question.size_bytes)
            return self.book.enter(*task)

    def open_wave(self, wave: int, *, recovering: bool) -> None:
        with self.lock:
            self.book.open_wave(wave, recovering=recovering)

    def close_wave(self) -> None:
        with self.lock:
            self.book.close_wave()

    def set_rate(self, rate: float | None) -> None:
        """Sets the rate for all tasks together; 0 is a pause."""
        with self.lock:
            self.book.set_rate(rate)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], service: PermitService):
        super().__init__(address, _Handler)
        self.service = service


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Answers until the task disconnects. A line that is not a question ends the connection."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            while line := self.rfile.readline(LINE_SIZE_MAX_BYTES):
                question = msgspec.json.decode(line, type=Question)
                self.wfile.write(msgspec.json.encode(self.server.service.answer(question)) + b"\n")


class PermitClient:
    """One attempt's connection to the service. ConnectError if the driver is gone; then no task may send."""

    def __init__(self, address: Address, wave: int, partition: int, attempt: int):
        self._address = address
        self._task: dict[str, Any] = {
            "secret": address.secret, "wave": wave, "partition": partition, "attempt": attempt,
        }  # fmt: skip
        self._socket: socket.socket | None = None
        self._stream: Any = None

    def enter(self) -> Entered | Wait | Denied:
        return self._exchange(Question(**self._task), _TO_ENTER)

    def ask(self, count: int, size_bytes: int) -> Granted | Wait | Denied:
        return self._exchange(Question(**self._task, count=count, size_bytes=size_bytes), _TO_SEND)

    def extend(self) -> Granted | Denied:
        return self._exchange(Question(**self._task, extends=True), _MORE_TIME)

    def _exchange(self, question: Question, decoder: msgspec.json.Decoder[A]) -> A:
        line = msgspec.json.encode(question) + b"\n"
        for attempt in range(CONNECT_TRIES):
            try:
                self._connect()
                self._stream.write(line)
                self._stream.flush()
                answer = self._stream.readline(LINE_SIZE_MAX_BYTES)
                if answer:
                    return decoder.decode(answer)
            except (OSError, msgspec.MsgspecError):
                pass
            self.close()  # asking again is harmless: a permit that no task received is not used
            if attempt + 1 < CONNECT_TRIES:
                time.sleep(0.1)
        where = f"{self._address.host}:{self._address.port}"
        raise ConnectError(f"the driver of the replay does not answer at {where}", address=where)

    def _connect(self) -> None:
        if self._socket is None:
            self._socket = socket.create_connection((self._address.host, self._address.port), ANSWER_TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream = self._socket.makefile("rwb")

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
            self._socket.close()
            self._socket = self._stream = None
