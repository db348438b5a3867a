"""Frames of HTTP/2 (RFC 9113): what is in them, which headers a request may have, and what a peer's frames come to."""

from __future__ import annotations

import struct
from enum import IntEnum

import msgspec

from rmqserver.core.header_blocks import FRAME_SIZE_MAX_BYTES, Headers

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW_MAX_BYTES = (1 << 31) - 1
FIRST_WINDOW_BYTES = 65_535
NUMBER = 0x7FFF_FFFF
"""The bits of a stream or a window; the one above is reserved."""

# length u24 and type u8, as u32 | flags u8 | stream u32
FRAME_HEAD = struct.Struct(">IBI")
U32, TWO_U32 = struct.Struct(">I"), struct.Struct(">II")
SETTING = struct.Struct(">HI")
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, END_ALL, PADDED, HAS_PRIORITY = 1, 1, 4, 5, 8, 32
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME, MAX_HEADERS = range(1, 7)
PRIORITY_SIZE_BYTES = 5

_SHAPES: dict[int, tuple[bool | None, int | None]] = {
    DATA: (True, None), HEADERS: (True, None), PRIORITY: (True, PRIORITY_SIZE_BYTES), RST_STREAM: (True, 4),
    SETTINGS: (False, None), PING: (False, 8), WINDOW_UPDATE: (None, 4),
}  # fmt: skip
"""Whether a frame is a stream's, and its size in bytes; None for either and for any."""


class ErrorCode(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Broken(Exception):
    """The connection cannot go on."""

    def __init__(self, text: str, code: ErrorCode = ErrorCode.PROTOCOL_ERROR):
        super().__init__(text)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes | memoryview) -> bytes:
    return FRAME_HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def check_shape(kind: int, stream: int, size_bytes: int) -> None:
    """Raises Broken for a frame of no stream, or of one, and for a length that its kind cannot have."""
    if kind == PUSH_PROMISE:
        raise Broken("clients push nothing")
    is_of_stream, needed_bytes = _SHAPES.get(kind, (None, None))
    if is_of_stream is not None and is_of_stream is not (stream > 0):
        raise Broken("a frame names a stream that its kind cannot have")
    check_size(needed_bytes is None or size_bytes == needed_bytes)


def check_size(is_right: bool) -> None:
    if not is_right:
        raise Broken("a frame has a length that its kind cannot have", ErrorCode.FRAME_SIZE_ERROR)


def settings_of(payload: bytes) -> dict[int, int]:
    check_size(len(payload) % SETTING.size == 0)
    said = dict(SETTING.iter_unpack(payload))
    if said.get(ENABLE_PUSH, 0) > 1 or not FRAME_SIZE_MAX_BYTES <= said.get(MAX_FRAME, 1 << 14) < 1 << 24:
        raise Broken("a setting has a value that it cannot have")
    return said


def unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise Broken("a frame is all padding")
    return payload[1 : len(payload) - payload[0]]


# --- headers of a request --------------------------------------------------------------------------------------------

Metadata = dict[bytes, bytes]
"""The headers of a request; of several with one name, the last."""

_PSEUDO_NEEDED = {b":method", b":scheme", b":path"}
_PSEUDO = {*_PSEUDO_NEEDED, b":authority"}

_REQUESTS: set[tuple[bytes, ...]] = set()
"""Names of requests, in their order: those of one client's calls are the same each time."""
_REQUESTS_MAX, _REQUEST_NAMES_MAX_BYTES = 256, 1024


def metadata_of(headers: Headers) -> Metadata | None:
    """None if they are no request's, by the rules that tell a mistake of the peer (RFC 9113, 8.2 and 8.3)."""
    metadata = dict(headers)
    names = tuple(metadata)
    if len(names) < len(headers) or names not in _REQUESTS:
        names = tuple(name for name, _ in headers)
        text = b"\n".join(names)
        pseudo_count = text.count(b":")
        pseudo = set(names[:pseudo_count])
        if not (
            _PSEUDO_NEEDED <= pseudo <= _PSEUDO
            and len(pseudo) == pseudo_count
            and text == text.lower()
            and b"" not in names
            and b"connection" not in names
        ):
            return None
        if len(text) <= _REQUEST_NAMES_MAX_BYTES:
            if len(_REQUESTS) >= _REQUESTS_MAX:
                _REQUESTS.clear()
            _REQUESTS.add(names)
    return metadata if metadata[b":path"] else None


# --- what a peer says -------------------------------------------------------------------------------------------------


class StreamEvent(msgspec.Struct, frozen=True, gc=False):
    """What a client says on a stream: ``metadata`` begins a request, ``data`` is a part of its body, and after
    ``is_last`` the client only reads. With ``is_gone`` it has cancelled the stream, or broken its rules."""

    stream: int
    metadata: Metadata | None = None
    data: bytes = b""
    is_last: bool = False
    is_gone: bool = False
