"""The format of a message file, from the user's option, its name, or its first bytes; and reading and writing it,
message by message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from io import RawIOBase
from pathlib import PurePath
from typing import BinaryIO, cast

from rmqadmin.core.messages.files import json_lines, message_pack, parquet
from rmqadmin.core.messages.files.exported_message import ExportedMessage, exported
from rmqadmin.core.messages.lookup import FoundMessage
from rmqproto.errors import UsageError


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
            yield from (b"".join(json_lines.encoded_line(one, command) for one in batch) for batch in batches)
        case FileFormat.MSGPACK:
            yield from _packed(batches)
        case FileFormat.PARQUET:
            yield from _columns(batches)


def _packed(batches: Batches) -> Iterator[bytes]:
    yield message_pack.encoded_head()
    count = 0
    for batch in batches:
        count += len(batch)
        yield b"".join(message_pack.encoded_message(exported(one)) for one in batch)
    yield message_pack.encoded_end(count)


class _Written(RawIOBase):
    """Keeps written bytes until they are taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = bytes(cast(bytes, data))
        self._parts.append(part)
        return len(part)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _columns(batches: Batches) -> Iterator[bytes]:
    out = _Written()
    writer = parquet.ParquetFileWriter(cast(BinaryIO, out))
    for batch in batches:
        writer.write(batch)
        yield out.take()
    writer.close()
    yield out.take()
