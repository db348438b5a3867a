"""The bytes of calls in HTTP/2: heads and trailers, deadlines, and messages behind their heads."""

from __future__ import annotations

import struct
import zlib
from typing import Any
from urllib.parse import quote

from rmqserver.core.header_blocks import encode_block
from rmqserver.doors.grpc.call_checks import BODY_TOO_LARGE
from rmqserver.doors.grpc.codes import GrpcStatus
from rmqserver.doors.grpc.http2_frames import Metadata

MESSAGE_SIZE_MAX_BYTES = 8 << 20
"""A message of a client, unpacked."""

DAY_S = 86_400
"""A deadline behind it is none: telemetry streams carry a year."""

FRAME = struct.Struct(">BI")
"""Whether the message is compressed u8 | its length u32."""
_SECONDS_OF_UNIT = {b"H": 3600, b"M": 60, b"S": 1, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
HEAD = encode_block([(b":status", b"200"), (b"content-type", b"application/grpc")])
NO_GRPC = encode_block([(b":status", b"415")])
DONE = encode_block([(b"grpc-status", b"0")])
_TEXT_MAX = 1000
"""Characters of a status that are told: its header is to fit one frame."""


def framed(message: bytes) -> bytes:
    """A packed message behind its head."""
    return FRAME.pack(0, len(message)) + message


def packed(message: Any) -> bytes:
    """A message, packed, behind its head."""
    return framed(message.SerializeToString())


def client_id_of(metadata: Metadata) -> str:
    return metadata.get(b"x-mq-client-id", b"").decode("utf-8", "replace")


def unpacked_untrusted(packed: bytes) -> bytes:
    """Raises zlib.error, and CallRefused for what unpacks to very much."""
    gzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    plain = gzip.decompress(packed, MESSAGE_SIZE_MAX_BYTES)
    if gzip.unconsumed_tail:
        raise BODY_TOO_LARGE
    if not gzip.eof:
        raise zlib.error("it is cut off")
    return plain


def is_grpc(metadata: Metadata) -> bool:
    return metadata.get(b"content-type", b"").startswith(b"application/grpc")


def status_block(code: GrpcStatus, text: str) -> bytes:
    message = quote(text[:_TEXT_MAX], safe=" ()[]<>:/,;=.-_'!")
    return encode_block([(b"grpc-status", b"%d" % code), (b"grpc-message", message.encode())])


def failure(code: GrpcStatus, text: str) -> bytes:
    """The block of an answer that says only this."""
    return HEAD + status_block(code, text)


def wait_s_of(text: bytes | None) -> float | None:
    """A time that cannot be read is no deadline."""
    if not text or len(text) > 9 or text[-1:] not in _SECONDS_OF_UNIT or not text[:-1].isdigit():
        return None
    seconds = int(text[:-1]) * _SECONDS_OF_UNIT[text[-1:]]
    return seconds if seconds <= DAY_S else None
