"""A remoting command - request or answer - and its conversion to and from a frame (``RemotingCommand``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

import msgspec

from rmqproto.codes import ONEWAY_FLAG, RESPONSE_FLAG, VERSION
from rmqproto.errors import ProtocolError
from rmqproto.wire import header_binary, header_json
from rmqproto.wire.frames import HEAD_SIZE_BYTES, FrameCutter, frame, head_untrusted


class HeaderCodec(IntEnum):
    JSON = 0
    ROCKETMQ = 1


Encoder = Callable[[int, str, int, int, int, str | None, Mapping[str, str]], bytes]

ENCODERS: dict[int, Encoder] = {
    HeaderCodec.JSON: header_json.encode,
    HeaderCodec.ROCKETMQ: header_binary.encode,
}


class Command(msgspec.Struct, kw_only=True):
    """One command. ``ext`` holds the typed header's fields as text; ``body`` is b"" if there is none."""

    code: int
    opaque: int = 0
    flag: int = 0
    language: str = "JAVA"
    version: int = VERSION
    remark: str | None = None
    ext: dict[str, str] = {}
    body: bytes = b""
    codec: HeaderCodec = HeaderCodec.JSON

    @property
    def is_answer(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)


def encode_frame(command: Command) -> bytes:
    """The whole frame. ValueError if a field does not fit (a code past 16 bits with binary headers)."""
    return frame(
        ENCODERS[command.codec](
            command.code, command.language, command.version, command.opaque, command.flag, command.remark, command.ext
        ),
        command.body,
        command.codec,
    )


def decode_frame_untrusted(data: bytes | bytearray | memoryview) -> Command:
    """One whole frame, length word included. ProtocolError for anything else."""
    if len(data) < HEAD_SIZE_BYTES:
        raise ProtocolError(f"frame of {len(data)} bytes is shorter than its head")
    total, codec, header_size = head_untrusted(data)
    if 4 + total != len(data):
        raise ProtocolError(f"frame says {4 + total} bytes and has {len(data)}")
    body_at = HEAD_SIZE_BYTES + header_size
    return decode_header_untrusted(codec, bytes(data[HEAD_SIZE_BYTES:body_at]), bytes(data[body_at:]))


def decode_ext_untrusted(codec: int, header: bytes) -> dict[str, str]:
    """Only the ext fields of a header. ProtocolError as of ``decode_header_untrusted``."""
    return (
        header_json.ext_untrusted(header) if codec == HeaderCodec.JSON else decode_header_untrusted(codec, header).ext
    )


def decode_header_untrusted(codec: int, header: bytes, body: bytes = b"") -> Command:
    """A command from its header's bytes. ProtocolError for an unknown codec or an invalid header."""
    if codec == HeaderCodec.JSON:
        fields = header_json.decode_untrusted(header)
    elif codec == HeaderCodec.ROCKETMQ:
        fields = header_binary.decode_untrusted(header)
    else:
        raise ProtocolError(f"header codec {codec} is unknown")
    return Command(
        code=fields.code,
        opaque=fields.opaque,
        flag=fields.flag,
        language=fields.language,
        version=fields.version,
        remark=fields.remark,
        ext=fields.ext,
        body=body,
        codec=HeaderCodec(codec),
    )


class FrameReader:
    """Turns a byte stream, cut anywhere, into commands. It does no I/O."""

    def __init__(self) -> None:
        self._complete: list[Command] = []
        self._cutter = FrameCutter(_take_untrusted, self._complete)

    def feed(self, data: bytes | memoryview) -> list[Command]:
        """The commands completed by ``data``, in order. ProtocolError if the data is not a frame; the stream is then
        unusable.

        It holds at most one incomplete frame: FRAME_SIZE_MAX_BYTES.
        """
        self._cutter.feed_untrusted(data if isinstance(data, bytes) else bytes(data))
        commands = self._complete.copy()
        self._complete.clear()
        return commands


def _take_untrusted(complete: list[Command], codec: int, peeked: int, header: bytes, body: bytes) -> None:
    complete.append(decode_header_untrusted(codec, header, body))
