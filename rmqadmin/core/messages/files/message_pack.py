"""Messages as MessagePack, which holds bodies as bytes.

A file is a sequence of MessagePack objects, which any reader of such streams can read. An integer before each map is
the map's size in bytes; 0 means that no map follows.

    0xCE size u32 | map: format, version
    0xCE size u32 | map: a message         once per message
    0xCE 0 u32    | 0xCF count u64         the number of messages

Such files may be concatenated. A file that ends before its count is incomplete.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import msgspec

from rmqadmin.core.messages.files.exported_message import ExportedMessage, exported
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.names import unknown_name
from rmqproto.errors import ProtocolError

FORMAT = "rmqadmin messages"
VERSION = 1
MESSAGE_SIZE_MAX_BYTES = 128 << 20
"""No broker accepts a tenth of this."""
HEAD_SIZE_MAX_BYTES = 1024

# type byte 0xCE (uint 32) | size u32, both big-endian
_SIZE = struct.Struct(">BI")
_UINT32 = 0xCE
# type byte 0xCF (uint 64) | count u64, both big-endian
_COUNT = struct.Struct(">BQ")
_UINT64 = 0xCF


class FileHead(msgspec.Struct, frozen=True):
    format: str
    version: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ExportedMessage)
_head_decoder = msgspec.msgpack.Decoder(FileHead)


def packed(batches: Iterable[Sequence[FoundMessage]]) -> Iterator[bytes]:
    """A file of ``unpacked`` messages, part by part."""
    yield _sized(_encoder.encode(FileHead(FORMAT, VERSION)))
    count = 0
    for batch in batches:
        count += len(batch)
        yield b"".join(_sized(_encoder.encode(exported(one))) for one in batch)
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
        if (head.format, head.version) != (FORMAT, VERSION):
            raise source.wrong(f"{head.format!r}, version {head.version}, is not {FORMAT!r}, version {VERSION}")
        count = 0
        while data := source.sized():
            count += 1
            try:
                message = _decoder.decode(data)
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
