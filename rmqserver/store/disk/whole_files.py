"""Writes small files as a whole: whatever the process or the power does, a name has its old content or its new one."""

from __future__ import annotations

import struct
from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from rmqserver.store.disk.disk import Disk, File

BACKUP = ".bak"
TEMPORARY = ".tmp"


def replace_file(disk: Disk, path: str, data: bytes, *, temporary: str = TEMPORARY, is_private: bool = False) -> None:
    """Gives the file that content; it is on the device at return. ``temporary`` is appended to the path for the file
    that is renamed. OSError: the file then has its old content or its new one. The directory must exist."""
    new_file(disk, path + temporary, data, is_private=is_private).fdatasync()
    disk.rename(path + temporary, path)
    disk.sync_directory(path.rpartition("/")[0])


def new_file(disk: Disk, path: str, data: bytes, *, is_private: bool = False) -> File:
    """A new file with that content in the place of any other. Only its owner may read a private one."""
    disk.unlink(path)
    file = disk.create_private(path) if is_private else disk.open(path, create_size_bytes=0)
    file.pwrite(data, 0)
    return file


def replace_with_backup(disk: Disk, path: str, data: bytes, *, is_private: bool = False) -> None:
    """Replaces the file, and then its ``.bak``, which thus gets only what is on the device. So one of both is whole at
    every moment, even if another program has damaged one of them. The directory must exist. OSError."""
    replace_file(disk, path, data, is_private=is_private)
    replace_file(disk, path + BACKUP, data, is_private=is_private)


T = TypeVar("T")

# The file, big-endian:
#  0 magic 4s | 4 version u32 | 8 CRC-32 of the rest u32 | 12 the value as MessagePack
_HEAD = struct.Struct(">4sII")


class PackedFile(Generic[T]):
    """A kind of small files of ours alone that hold one value of ``type``: whoever reads one gets what was written as a
    whole, or nothing."""

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
