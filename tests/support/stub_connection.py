"""Stands for a connection of the server, where no socket is needed."""

from rmqproto.message.record import host_bytes
from rmqproto.wire.command import Command, FrameReader


class StubConnection:
    """Keeps the frames that it is sent. ``host`` is the peer's."""

    address = real_address = "127.0.0.1:1"
    local_addr, local_host = "127.0.0.1:10911", host_bytes("127.0.0.1", 10911)
    closed = False

    def __init__(self, host: str = "127.0.0.1"):
        self.born_host = host_bytes(host, 1)
        self.frames: list[bytes] = []

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)

    put_out = send

    def answered(self, command: Command) -> None: ...

    @property
    def answers(self) -> list[Command]:
        return FrameReader().feed(b"".join(self.frames))
