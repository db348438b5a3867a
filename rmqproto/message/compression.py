"""Compressed bodies, in the ways of RocketMQ's clients (``CompressionType``, 5.5.0): zlib, and with the extra
``compression`` also LZ4 frames and Zstandard."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Any

from rmqproto.errors import ProtocolError, UsageError
from rmqproto.message.sys_flag import COMPRESSIONS, compression_of

LEVEL = 5
"""As in Java, for zlib and Zstandard; LZ4 has no use for one."""

HINT = "pip install 'rmqadmin[compression]'"


def check_compression(kind: str, level: int) -> None:
    """UsageError for a kind that is unknown or needs a library that is missing, and for a level other than 0 to 9."""
    if kind not in COMPRESSIONS:
        raise UsageError(f"compression {kind!r} is none of {', '.join(COMPRESSIONS)}")
    if not 0 <= level <= 9:
        raise UsageError(f"compression level {level} is not one of 0 to 9")
    try:
        _LIBRARIES[kind]()
    except ImportError as error:
        raise UsageError(f"no library for compression by {kind}: {error}", hint=HINT) from None


def compressed(body: bytes, kind: str = "zlib", level: int = LEVEL) -> tuple[bytes, int]:
    """The compressed body, which may be longer, and the bits of sysFlag that say how. ``kind`` and ``level`` are
    checked."""
    library = _LIBRARIES[kind]()
    if kind == "lz4":  # Java reads no blocks that depend on earlier ones
        return library.compress(body, block_linked=False), COMPRESSIONS[kind]
    return library.compress(body, level), COMPRESSIONS[kind]


def beginning_untrusted(body: bytes, sys_flag: int, size_max_bytes: int) -> tuple[bytes, bool]:
    """Up to ``size_max_bytes`` of a compressed body, and whether that is all of it. ProtocolError if it is damaged, or
    the library is missing."""
    kind = compression_of(sys_flag) or "zlib"
    try:
        library = _LIBRARIES[kind]()
    except ImportError:
        raise ProtocolError(f"it is compressed with {kind}, which nothing here reads", hint=HINT) from None
    inflate = _INFLATE[kind](library)
    try:
        return inflate.decompress(body, size_max_bytes), inflate.eof
    except (zlib.error, RuntimeError, EOFError, getattr(library, "ZstdError", zlib.error)) as error:
        raise ProtocolError(f"compressed body is damaged: {error}") from None


def _lz4() -> Any:
    import lz4.frame

    return lz4.frame


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


_LIBRARIES: dict[str, Callable[[], Any]] = {"zlib": lambda: zlib, "lz4": _lz4, "zstd": _zstd}
_INFLATE: dict[str, Callable[[Any], Any]] = {
    "zlib": lambda library: library.decompressobj(),
    "lz4": lambda library: library.LZ4FrameDecompressor(),
    "zstd": lambda library: library.ZstdDecompressor(),
}
