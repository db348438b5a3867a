"""A remoting command - request or answer - and how it becomes a frame and back (``RemotingCommand``, 5.5.0).

Frame, all numbers big-endian:
    0  total length   u32   bytes that follow this word
    4  header codec   u8    0 JSON, 1 ROCKETMQ binary, 2 MessagePack (ours alone)
    5  header length  u24
    8  header, then the body: what is left of the total length
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum

import msgspec

from rmqproto import header_binary, header_json, header_msgpack
from rmqproto.codes import ONEWAY_FLAG, RESPONSE_FLAG, VERSION
from rmqproto.errors import ProtocolError

FRAME_SIZE_MAX_BYTES = 16_777_216
"""Apache's ``com.rocketmq.remoting.frameMaxLength``, counting the length word; a longer frame closes the connection."""

_TLS_RECORDS = range(0x1403, 0x1804, 0x100)
"""The first two bytes of a TLS record, a hello or an alert: its type and 3, the major version."""

_HEAD = struct.Struct(">II")
HEAD_SIZE_BYTES = _HEAD.size


class HeaderCodec(IntEnum):
    JSON = 0
    ROCKETMQ = 1
    MSGPACK = 2


Encoder = Callable[[int, str, int, int, int, str | None, Mapping[str, str]], bytes]

ENCODERS: dict[int, Encoder] = {
    HeaderCodec.JSON: header_json.encode,
    HeaderCodec.ROCKETMQ: header_binary.encode,
    HeaderCodec.MSGPACK: header_msgpack.encode,
}


class Command(msgspec.Struct, kw_only=True):
    """One command. ``ext`` holds the typed header's fields as text; ``body`` is b"" where there is none."""

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
    """The whole frame. ValueError where a field does not fit (a code past 16 bits with binary headers)."""
    return frame(
        ENCODERS[command.codec](
            command.code, command.language, command.version, command.opaque, command.flag, command.remark, command.ext
        ),
        command.body,
        command.codec,
    )


def frame(header: bytes, body: bytes = b"", codec: int = HeaderCodec.JSON) -> bytes:
    """Header and body with their lengths in front."""
    return _HEAD.pack(4 + len(header) + len(body), codec << 24 | len(header)) + header + body


def decode_frame_untrusted(data: bytes | bytearray | memoryview) -> Command:
    """One whole frame, length word included. ProtocolError for anything else."""
    if len(data) < HEAD_SIZE_BYTES:
        raise ProtocolError(f"frame of {len(data)} bytes is shorter than its head")
    total, mark = _HEAD.unpack_from(data)
    codec, header_size = mark >> 24, mark & 0xFFFFFF
    check_head_untrusted(total, header_size)
    if 4 + total != len(data):
        raise ProtocolError(f"frame says {4 + total} bytes and has {len(data)}")
    body_at = HEAD_SIZE_BYTES + header_size
    return decode_header_untrusted(codec, bytes(data[HEAD_SIZE_BYTES:body_at]), bytes(data[body_at:]))


def check_head_untrusted(total: int, header_size: int) -> None:
    """ProtocolError where the two lengths of a frame's head cannot be those of a frame."""
    if total >> 16 in _TLS_RECORDS:
        raise ProtocolError("these are bytes of TLS, and TLS is not spoken here")
    if 4 + total > FRAME_SIZE_MAX_BYTES:
        raise ProtocolError(f"frame of {4 + total} bytes is longer than {FRAME_SIZE_MAX_BYTES}")
    if header_size > total - 4:
        raise ProtocolError(f"header of {header_size} bytes does not fit a frame of {4 + total}")


def decode_header_untrusted(codec: int, header: bytes, body: bytes = b"") -> Command:
    """A command from its header's bytes. ProtocolError for an unknown codec or a header that is none."""
    if codec == HeaderCodec.JSON:
        fields = header_json.decode_untrusted(header)
    elif codec == HeaderCodec.ROCKETMQ:
        fields = header_binary.decode_untrusted(header)
    elif codec == HeaderCodec.MSGPACK:
        fields = header_msgpack.decode_untrusted(header)
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
    """Turns a byte stream into commands, in any cut: feed what came, take what is complete. No I/O inside."""

    def __init__(self) -> None:
        self._begun = bytearray()  # an incomplete frame
        self._needed_bytes = 0  # what makes it a complete one, or at least a complete head

    def feed(self, data: bytes | memoryview) -> list[Command]:
        """Commands completed by ``data``, in order. ProtocolError (then the stream is past use) for what is no frame.

        Holds at most one incomplete frame: FRAME_SIZE_MAX_BYTES.
        """
        if self._begun or not isinstance(data, bytes):
            self._begun += data
            if len(self._begun) < self._needed_bytes:
                return []
            data = bytes(self._begun)
            self._begun.clear()
        commands = []
        at, end, self._needed_bytes = 0, len(data), HEAD_SIZE_BYTES
        while end - at >= HEAD_SIZE_BYTES:
            total, mark = _HEAD.unpack_from(data, at)
            header_size = mark & 0xFFFFFF
            check_head_untrusted(total, header_size)
            if at + 4 + total > end:
                self._needed_bytes = 4 + total
                break
            body_at = at + HEAD_SIZE_BYTES + header_size
            header, at = data[at + HEAD_SIZE_BYTES : body_at], at + 4 + total
            commands.append(decode_header_untrusted(mark >> 24, header, data[body_at:at]))
        self._begun += data[at:]
        return commands
