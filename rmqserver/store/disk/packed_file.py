"""Small files of ours alone that hold one value: whoever reads one gets what was written as a whole, or nothing."""

from __future__ import annotations

import struct
from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.whole_files import replace_file

T = TypeVar("T")

# The file, big-endian:
#  0 magic 4s | 4 version u32 | 8 CRC-32 of the rest u32 | 12 the value as MessagePack
_HEAD = struct.Struct(">4sII")


class PackedFile(Generic[T]):
    """A kind of such files. ``type`` is that of the value."""

    def __init__(self, magic: bytes, version: int, type: type[T]):
        self._kind = magic, version
        self._type = type

    def encode(self, value: T) -> bytes:
        body = msgspec.msgpack.encode(value)
        return _HEAD.pack(*self._kind, crc32(body)) + body

    def decode_untrusted(self, data: bytes) -> T | None:
        """None for anything but a complete file of this kind."""
        if len(data) < _HEAD.size:
            return None
        magic, version, crc = _HEAD.unpack_from(data)
        body = data[_HEAD.size :]
        if (magic, version) != self._kind or crc32(body) != crc:
            return None
        try:
            return msgspec.msgpack.decode(body, type=self._type)
        except msgspec.MsgspecError:
            return None

    def read(self, disk: Disk, path: str) -> T | None:
        """The value; None if there is no file, or none that can be trusted. OSError."""
        return self.decode_untrusted(disk.read_bytes(path)) if disk.is_file(path) else None

    def write(self, disk: Disk, path: str, value: T) -> None:
        """The file is on the device at return. Its directory must exist. OSError."""
        replace_file(disk, path, self.encode(value))
