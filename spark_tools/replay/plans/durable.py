"""Small files that are either whole or missing."""

from __future__ import annotations

import os

from rmqserver.store.disk.disk import OsDisk, storage_error


def replace_file(path: str, data: bytes) -> None:
    """Replaces a file atomically: after a crash ``path`` holds either ``data`` or its earlier content. At return
    ``data`` is on the device. StorageError."""
    try:
        with open(path + ".tmp", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)
        OsDisk().sync_directory(os.path.dirname(path) or ".")
    except OSError as error:
        raise storage_error(error, "write", path) from None
