"""The bits of a message's sysFlag (``MessageSysFlag``, 5.5.0), and those of a topic's and a group's
(``TopicSysFlag``)."""

from __future__ import annotations

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_MASK = 0xC
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
HOST_V4_SIZE, HOST_V6_SIZE = 8, 20
"""Bytes of a host in a record."""
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_TYPE_MASK = 0x700
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300
COMPRESSIONS = {
    "zlib": COMPRESSED | COMPRESSION_ZLIB, "lz4": COMPRESSED | COMPRESSION_LZ4, "zstd": COMPRESSED | COMPRESSION_ZSTD,
}  # fmt: skip
"""The bits of a compressed body, by the name of the compression."""


def compression_of(sys_flag: int) -> str | None:
    """The name of a body's compression; None if it is not compressed. Without a type, as before 5.0, it is zlib."""
    if not sys_flag & COMPRESSED:
        return None
    kind = sys_flag & COMPRESSION_TYPE_MASK
    return next((name for name, bits in COMPRESSIONS.items() if bits & COMPRESSION_TYPE_MASK == kind), "zlib")


def with_host_bits(sys_flag: int, born_host: bytes, store_host: bytes) -> int:
    """The sysFlag with the host bits that fit these hosts: 4 or 16 address bytes, and the port as i32."""
    sys_flag &= ~HOSTS_V6
    sys_flag |= BORN_HOST_V6 if len(born_host) == HOST_V6_SIZE else 0
    return sys_flag | (STORE_HOST_V6 if len(store_host) == HOST_V6_SIZE else 0)


UNIT = 0x1
"""A topic's flag: it belongs to a unit of a larger deployment."""
UNIT_SUBSCRIBED = 0x2
"""A topic's flag: it is the retry topic of a group that consumes across units."""
