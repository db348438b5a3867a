"""Writes small files as a whole: whatever the process or the power does, a name has its old content or its new one."""

from __future__ import annotations

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
