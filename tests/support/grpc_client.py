"""A blocking client of the gRPC door, over its own HTTP/2. It can also send what no good client would."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events

from rmqserver.doors.grpc.messages import CLASSES, SERVICE

TIMEOUT_S = 30.0
_FRAME = struct.Struct(">BI")


class GrpcError(Exception):
    """The call failed, with ``status`` and ``text`` of gRPC."""

    def __init__(self, status: int, text: str):
        super().__init__(status, text)
        self.status, self.text = status, text


class GrpcClient:
    """One connection. ``close`` it, or use it as a context manager."""

    def __init__(
        self, address: str, client_id: str = "tester", *, tls: ssl.SSLContext | None = None, before: bytes = b"",
        **metadata: str,
    ):  # fmt: skip
        """``before`` is said first, before TLS."""
        host, _, port = address.rpartition(":")
        raw = socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else a call waits for the peer's delayed ACK
        raw.sendall(before)
        self.socket = raw if tls is None else tls.wrap_socket(raw, server_hostname=host)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(64 << 20)
        self.metadata = {
            "x-mq-client-id": client_id, "x-mq-language": "PYTHON", "x-mq-client-version": "5.1.2",
            **{name.replace("_", "-"): value for name, value in metadata.items()},
        }  # fmt: skip
        self.events: list[h2.events.Event] = []
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def next_event(self, stream: int) -> h2.events.Event:
        """The next event of that stream. EOFError if the server closed the connection, or takes nothing more on it."""
        while True:
            for event in self.events:
                if getattr(event, "stream_id", None) == stream:
                    self.events.remove(event)
                    return event
            if any(isinstance(event, h2.events.ConnectionTerminated) for event in self.events):
                raise EOFError("the server sends its clients away")
            self.read()

    def read(self) -> None:
        """Reads once. EOFError if the server closed the connection."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError("the server closed the connection")
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self.events.append(event)
        self.flush()

    def open(self, call: str, *, deadline: str = "60S", path: str = "", **metadata: str) -> Stream:
        """Begins a call."""
        stream = self.h2.get_next_available_stream_id()
        said = self.metadata | {name.replace("_", "-"): value for name, value in metadata.items()}
        if deadline:
            said["grpc-timeout"] = deadline
        headers = [
            (":method", "POST"), (":scheme", "http"), (":path", path or f"/{SERVICE}/{call}"), (":authority", "broker"),
            ("content-type", "application/grpc"), ("te", "trailers"), *said.items(),
        ]  # fmt: skip
        self.h2.send_headers(stream, headers)
        self.flush()
        response = "TelemetryCommand" if call == "Telemetry" else f"{call}Response"
        return Stream(self, stream, CLASSES.get(response))

    def call(self, name: str, request: Any = None, **metadata: str) -> Any:
        """The answer of a unary call, which takes fields or a message. GrpcError if it fails."""
        (answer,) = self.stream(name, request, **metadata)
        return answer

    def stream(self, name: str, request: Any = None, **metadata: str) -> list[Any]:
        """All answers of a call with one request."""
        call = self.open(name, **metadata)
        made = CLASSES[f"{name}Request"](**request) if isinstance(request, dict) else request
        call.send(made.SerializeToString() if made is not None else b"", is_last=True)
        return list(call)


class Stream:
    """One call: iterate over its answers. GrpcError at its end if it fails."""

    def __init__(self, client: GrpcClient, number: int, response: Any):
        self._client, self.number, self._response = client, number, response
        self._data = b""
        self._is_over = False

    def send(self, message: Any, *, is_last: bool = False) -> None:
        raw = message if isinstance(message, bytes) else message.SerializeToString()
        data = _FRAME.pack(0, len(raw)) + raw
        while data:
            room = min(self._client.h2.local_flow_control_window(self.number), 16_384)
            if not room:
                self._client.read()
                continue
            self._client.h2.send_data(self.number, data[:room], end_stream=is_last and room >= len(data))
            self._client.flush()
            data = data[room:]

    def cancel(self) -> None:
        self._client.h2.reset_stream(self.number, 8)
        self._client.flush()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while not self._is_over:
            if len(self._data) >= _FRAME.size:
                _, size = _FRAME.unpack_from(self._data)
                if len(self._data) >= _FRAME.size + size:
                    raw, self._data = self._data[_FRAME.size : _FRAME.size + size], self._data[_FRAME.size + size :]
                    return self._response.FromString(raw)
            event = self._client.next_event(self.number)
            if isinstance(event, h2.events.DataReceived):
                self._data += event.data
            elif isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                said = dict(event.headers)
                if int(said.get(b"grpc-status", b"0")):
                    raise GrpcError(int(said[b"grpc-status"]), unquote(said.get(b"grpc-message", b"").decode()))
            elif isinstance(event, h2.events.StreamReset):
                raise GrpcError(-1, "reset")
            elif isinstance(event, h2.events.StreamEnded):
                self._is_over = True
        raise StopIteration


@contextmanager
def clients_of(address: str) -> Iterator[Callable[..., GrpcClient]]:
    """Connects clients, with the arguments of ``GrpcClient`` behind the address, and closes them."""
    with ExitStack() as made:
        yield lambda *client_id, **metadata: made.enter_context(GrpcClient(address, *client_id, **metadata))
