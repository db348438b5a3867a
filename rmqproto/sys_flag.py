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
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_TYPE_MASK = 0x700
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300

UNIT = 0x1
"""Of a topic: it belongs to a unit of a larger deployment."""
UNIT_SUBSCRIBED = 0x2
"""Of a topic: it is the retry topic of a group that consumes across units."""
