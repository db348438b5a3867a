"""RocketMQ's body checksum: CRC-32 as zlib computes it, with the sign bit off (``UtilAll.crc32``, 5.5.0)."""

from __future__ import annotations

from zlib import crc32


def body_crc(body: bytes | bytearray | memoryview) -> int:
    """31-bit CRC of a message body as stored, that is, after compression."""
    return crc32(body) & 0x7FFFFFFF
