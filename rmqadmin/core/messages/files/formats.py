"""The format of a message file, from the user's option, its name, or its first bytes; and reading and writing it,
message by message."""

from __future__ import annotations

import base64
import contextlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from io import BytesIO
from pathlib import PurePath
from typing import Any, BinaryIO

import msgspec

from rmqadmin.core.files import without_mark
from rmqadmin.core.messages.files import parquet
from rmqadmin.core.messages.files.exported_message import ExportedMessage, StoredFields, exported
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_values, unpacked
from rmqadmin.core.names import unknown_name
from rmqadmin.core.results import Notice, line_of
from rmqproto.errors import ProtocolError, StorageError, UsageError
from rmqproto.message import properties as props


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
            return read_lines_untrusted(file)
        case FileFormat.MSGPACK:
            return read_packed_untrusted(file)
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
            yield from packed(batches)
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
    replaced, if its directory is missing, if the format cannot be told, or if it needs a package that is missing."""
    wanted = format_of_name(path, said)
    if wanted is FileFormat.PARQUET:
        parquet.check_installed()
    if path is not None and not overwrite and os.path.exists(path):
        raise UsageError(f"{path} exists already", hint="--overwrite replaces it.")
    if path is not None and not os.path.isdir(directory := os.path.dirname(path) or "."):
        raise UsageError(f"cannot write {path}: there is no directory {directory}")
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


# --- JSON Lines ------------------------------------------------------------------------------------------------------

# One object per line, with the fields of ``msg cat -o jsonl``. The output of either command can be imported and sent,
# and a line can be written by hand: ``{"body": "text", "tags": "paid", "keys": ["ORDER-1"]}``. There is no end mark. A
# file is complete because it got its name only then; a pipe is complete if its writer says so.

LINE_SIZE_MAX_BYTES = 128 << 20
"""More than a body of 64 MiB in Base64, which no broker accepts."""


LINE_HINT = (
    'A line is an object, for example {"body": "text", "tags": "paid", "keys": ["ORDER-1"]}; `-o jsonl` writes such '
    "lines, `-o json` one document."
)


class JsonLine(StoredFields, frozen=True):
    """One line. ``tags`` and ``keys`` override the properties TAGS and KEYS unless they are null. The last fields are
    those in which rows of other commands differ; nothing is done with them."""

    body: str | None = None
    body_base64: str | None = None
    body_compression: str | None = None
    tags: str | None = None
    keys: str | list[str] | None = None
    properties_base64: str | None = None
    command: Any = msgspec.field(default=None, name="_command")
    version: Any = msgspec.field(default=None, name="_version")
    body_size_bytes: Any = None
    asked: Any = None
    found_as: Any = None
    body_kind: Any = None
    origin_topic: Any = None
    redrives: Any = None
    redriven: Any = None
    tracks: Any = None
    rejected: Any = None


_SAME = {*StoredFields.__struct_fields__, "body_compression"} - {"properties"}
WRITTEN_BY_HAND = ("body", "body_base64", "tags", "keys", "properties", "flag", "born_ms", "topic")
"""The fields that a person writes."""
_decoder = msgspec.json.Decoder(JsonLine)


def decode_line_untrusted(line: bytes) -> ExportedMessage:
    """The message of a line. ProtocolError, which says what is wrong and what to write, if it is not a message."""
    try:
        found = _decoder.decode(line)
        if found.body is not None and found.body_base64 is not None:
            raise ValueError("it has body and body_base64, and a message has one body")
        body = base64.b64decode(found.body_base64 or "", validate=True) if found.body is None else found.body.encode()
        raw = None if found.properties_base64 is None else base64.b64decode(found.properties_base64, validate=True)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # ValueError: Base64, UTF-8
        problem, hint = unknown_name(str(error), JsonLine.__struct_encode_fields__, WRITTEN_BY_HAND) or (
            str(error),
            LINE_HINT,
        )
        raise ProtocolError(problem, hint=hint) from None
    same: dict[str, Any] = {name: getattr(found, name) for name in _SAME}
    keys = " ".join(found.keys) if isinstance(found.keys, list) else found.keys
    named = {name: value for name, value in ((props.TAGS, found.tags), (props.KEYS, keys)) if value is not None}
    properties = {name: value for name, value in (found.properties | named).items() if value}
    return ExportedMessage(body=body, properties=properties, properties_raw=raw, **same)


def read_lines_untrusted(file: BinaryIO) -> Iterator[ExportedMessage]:
    """The messages of a file, skipping empty lines. ProtocolError, with the line number, at the first line that is not
    a message."""
    number = 0
    while line := file.readline(LINE_SIZE_MAX_BYTES):
        number += 1
        line = without_mark(line) if number == 1 else line
        if not line.strip():
            continue
        try:
            yield decode_line_untrusted(line)
        except ProtocolError as error:
            raise ProtocolError(f"line {number} is not a message: {error}", hint=error.hint) from None


# --- MessagePack -----------------------------------------------------------------------------------------------------

# A file is a sequence of MessagePack objects, which any reader of such streams can read; bodies are bytes. An integer
# before each map is the map's size in bytes; 0 means that no map follows.
#
#     0xCE size u32 | map: format, version
#     0xCE size u32 | map: a message         once per message
#     0xCE 0 u32    | 0xCF count u64         the number of messages
#
# Such files may be concatenated. A file that ends before its count is incomplete.

PACK_FORMAT = "rmqadmin messages"
PACK_VERSION = 1
MESSAGE_SIZE_MAX_BYTES = 128 << 20
"""No broker accepts a tenth of this."""
HEAD_SIZE_MAX_BYTES = 1024

# type byte 0xCE (uint 32) | size u32, both big-endian
_SIZE = struct.Struct(">BI")
_UINT32 = 0xCE
# type byte 0xCF (uint 64) | count u64, both big-endian
_COUNT = struct.Struct(">BQ")
_UINT64 = 0xCF


class PackHead(msgspec.Struct, frozen=True):
    format: str
    version: int


_pack_encoder = msgspec.msgpack.Encoder()
_pack_decoder = msgspec.msgpack.Decoder(ExportedMessage)
_head_decoder = msgspec.msgpack.Decoder(PackHead)


def packed(batches: Iterable[Sequence[FoundMessage]]) -> Iterator[bytes]:
    """A file of ``unpacked`` messages, part by part."""
    yield _sized(_pack_encoder.encode(PackHead(PACK_FORMAT, PACK_VERSION)))
    count = 0
    for batch in batches:
        count += len(batch)
        yield b"".join(_sized(_pack_encoder.encode(exported(one))) for one in batch)
    yield _SIZE.pack(_UINT32, 0) + _COUNT.pack(_UINT64, count)


def _sized(data: bytes) -> bytes:
    return _SIZE.pack(_UINT32, len(data)) + data


def read_packed_untrusted(file: BinaryIO) -> Iterator[ExportedMessage]:
    """The messages of a file. ProtocolError, which says where, for another kind of file, and for one that was cut
    off."""
    source = _Source(file)
    is_first = True
    while is_first or not source.is_at_end():
        is_first = False
        try:
            head = _head_decoder.decode(source.sized(HEAD_SIZE_MAX_BYTES))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise source.wrong("this is no file of messages in MessagePack") from None
        if (head.format, head.version) != (PACK_FORMAT, PACK_VERSION):
            raise source.wrong(
                f"{head.format!r}, version {head.version}, is not {PACK_FORMAT!r}, version {PACK_VERSION}"
            )
        count = 0
        while data := source.sized():
            count += 1
            try:
                message = _pack_decoder.decode(data)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                fields = ExportedMessage.__struct_encode_fields__
                problem, hint = unknown_name(str(error), fields) or (str(error), None)
                raise source.wrong(f"message {count} cannot be read: {problem}", hint) from None
            yield message
        kind, told = _COUNT.unpack(source.take(_COUNT.size))
        if (kind, told) != (_UINT64, count):
            raise source.wrong(f"the file says that it has {told} messages, and has {count}")


class _Source:
    """The bytes of a file, and how far they have been read."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._at = 0
        self._ahead = b""

    def is_at_end(self) -> bool:
        self._ahead = self._ahead or self._file.read(1)
        return not self._ahead

    def take(self, size: int) -> bytes:
        data = self._ahead + self._file.read(size - len(self._ahead))
        self._ahead = b""
        if len(data) < size:
            raise self.wrong("the file ends in the middle: it was not written to its end")
        self._at += size
        return data

    def sized(self, size_max: int = MESSAGE_SIZE_MAX_BYTES) -> bytes:
        """The map after its size; empty for the size 0."""
        kind, size = _SIZE.unpack(self.take(_SIZE.size))
        if kind != _UINT32 or size > size_max:
            raise self.wrong("no message of a file in MessagePack begins here")
        return self.take(size)

    def wrong(self, problem: str, hint: str | None = None) -> ProtocolError:
        return ProtocolError(f"at byte {self._at}: {problem}", hint=hint)
