"""Messages as JSON Lines: one object per line, with the fields of ``msg cat -o jsonl``. The output of either command
can be imported and sent, and a line can be written by hand: ``{"body": "text", "tags": "paid", "keys": ["ORDER-1"]}``.

There is no end mark. A file is complete because it got its name only then; a pipe is complete if its writer says so.
"""

import base64
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from rmqadmin.core.messages.files.exported_message import ExportedMessage, StoredFields
from rmqadmin.core.names import unknown_name
from rmqadmin.core.user_files import without_mark
from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props

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
