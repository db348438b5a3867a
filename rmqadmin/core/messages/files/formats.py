"""The format of a message file, from the user's option, its name, or its first bytes; and reading and writing it,
message by message."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from io import BytesIO
from pathlib import PurePath
from typing import BinaryIO

from rmqadmin.core.messages.files import json_lines, message_pack, parquet
from rmqadmin.core.messages.files.exported_message import ExportedMessage
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_values, unpacked
from rmqadmin.core.results import Notice, line_of
from rmqproto.errors import StorageError, UsageError


class FileFormat(StrEnum):
    """The format of a message file."""

    JSONL = "jsonl"
    MSGPACK = "msgpack"
    PARQUET = "parquet"


_BY_SUFFIX = {
    ".jsonl": FileFormat.JSONL,
    ".ndjson": FileFormat.JSONL,
    ".msgpack": FileFormat.MSGPACK,
    ".mpk": FileFormat.MSGPACK,
    ".parquet": FileFormat.PARQUET,
}
_BY_FIRST_BYTE = {b"{": FileFormat.JSONL, b"\xce": FileFormat.MSGPACK, b"P": FileFormat.PARQUET}


def format_of_name(path: str | None, said: FileFormat | None) -> FileFormat:
    """The format in ``said``, else the one the name ends with. UsageError if neither tells; JSON Lines without a
    name."""
    if said is not None:
        return said
    if path is None:
        return FileFormat.JSONL
    found = _BY_SUFFIX.get(PurePath(path).suffix.lower())
    if found is None:
        raise UsageError(
            f"{path} does not end in {', '.join(_BY_SUFFIX)}", hint=f"Say --format {'|'.join(FileFormat)}."
        )
    return found


def format_of_content(file: BinaryIO, said: FileFormat | None) -> FileFormat:
    """The format in ``said``, else the one the first byte tells. Leaves ``file`` at its beginning."""
    if said is not None:
        return said
    first = file.read(1)
    file.seek(0)
    return _BY_FIRST_BYTE.get(first, FileFormat.JSONL)


def read_untrusted(file: BinaryIO, format: FileFormat) -> Iterator[ExportedMessage]:
    """The messages of a seekable file, from its beginning. ProtocolError, which says where, for a file that cannot be
    read; UsageError if the format needs a package that is missing."""
    file.seek(0)
    match format:
        case FileFormat.JSONL:
            return json_lines.read_lines_untrusted(file)
        case FileFormat.MSGPACK:
            return message_pack.read_packed_untrusted(file)
        case FileFormat.PARQUET:
            parquet.check_installed()
            return parquet.read_parquet_untrusted(file)


Batches = Iterable[Sequence[FoundMessage]]


def encoded(batches: Batches, format: FileFormat, command: str) -> Iterator[bytes]:
    """The messages as a file, part by part as they arrive. An interruption leaves out the rest, which only MessagePack
    and Parquet reveal."""
    match format:
        case FileFormat.JSONL:
            rows = ([StoredMessageRow(**message_values(one)) for one in batch] for batch in batches)
            yield from (b"".join(line_of(row, command) for row in batch) for batch in rows)
        case FileFormat.MSGPACK:
            yield from message_pack.packed(batches)
        case FileFormat.PARQUET:
            yield from _columns(batches)


def _columns(batches: Batches) -> Iterator[bytes]:
    out = BytesIO()
    writer = parquet.ParquetFileWriter(out)
    for batch in batches:
        writer.write(batch)
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    writer.close()
    yield out.getvalue()


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
