"""Small files that are whole or not there."""

from __future__ import annotations

import os

from rmqserver.store.disk.disk import OsDisk, storage_error


def replace_file(path: str, data: bytes) -> None:
    """``path`` holds ``data``, or what it held before, whatever happens meanwhile. ``data`` is on the device at return.
    StorageError."""
    try:
        with open(path + ".tmp", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)
        OsDisk().sync_directory(os.path.dirname(path) or ".")
    except OSError as error:
        raise storage_error(error, "write", path) from None
