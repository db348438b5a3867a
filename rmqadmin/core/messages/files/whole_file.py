"""Writes a file that gets its name only when it is complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence

from rmqadmin.core.messages.files import parquet
from rmqadmin.core.messages.files.formats import FileFormat, encoded, format_of_name
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import unpacked
from rmqadmin.core.results import Notice
from rmqproto.errors import StorageError, UsageError


def checked_format(path: str | None, said: FileFormat | None, *, overwrite: bool = False) -> FileFormat:
    """The format to write; ``path`` is None for standard output. UsageError if the file exists and must not be
    replaced, if the format cannot be told, or if it needs a package that is missing."""
    wanted = format_of_name(path, said)
    if wanted is FileFormat.PARQUET:
        parquet.check_installed()
    if path is not None and not overwrite and os.path.exists(path):
        raise UsageError(f"{path} exists already", hint="--overwrite replaces it.")
    return wanted


def write_whole(path: str, parts: Iterable[bytes], written: Callable[[], object] = lambda: None) -> int:
    """Writes the file and returns its size. If anything stops it before the last part, there is no file. ``written`` is
    called after each part. StorageError if it cannot be written."""
    partial = f"{path}.part"
    size_bytes = 0
    try:
        with open(partial, "wb") as out:
            for part in parts:
                size_bytes += out.write(part)
                written()
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(partial)
    return size_bytes


def export_messages(path: str, messages: Sequence[FoundMessage], command: str, notice: Notice) -> int:
    """Writes messages as `msg export` does; the size of the file. UsageError as from ``checked_format``, StorageError
    as from ``write_whole``. ``command``: the command that wrote it."""
    format = checked_format(path, None)
    return write_whole(path, encoded([[unpacked(one, notice) for one in messages]], format, command))
