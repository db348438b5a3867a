"""Message bodies for people to read: the kind of a body, and its lines. Nothing in them can control a terminal."""

import codecs
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from rmqadmin.core.files import without_mark
from rmqadmin.core.terminal_text import printable

HEX_BYTES_PER_LINE = 16

_PIECE_BYTES = 64 * 1024
"""Python lets no other thread run while it decodes or splits one text: 0.3 s for four megabytes of binary data."""


class BodyKind(StrEnum):
    """The kind of a body, judged by its bytes."""

    JSON = "JSON"
    TEXT = "text"
    BINARY = "binary"


def body_kind(body: bytes) -> BodyKind:
    """The kind of a body. JSON means an object or an array, also behind a byte order mark: a lone number or word is
    text. Text is UTF-8 without NUL."""
    body = without_mark(body)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return BodyKind.BINARY
    if "\0" in text:
        return BodyKind.BINARY
    if text.lstrip()[:1] in ("{", "["):
        try:
            msgspec.json.decode(body, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError):
            return BodyKind.TEXT
        return BodyKind.JSON
    return BodyKind.TEXT


def lines_by_kind(body: bytes, hex_bytes: int = HEX_BYTES_PER_LINE) -> Iterator[str]:
    """JSON indented, with its numbers as written; text as it is; anything else as hex, ``hex_bytes`` on each line."""
    match body_kind(body):
        case BodyKind.JSON:
            yield from text_lines(msgspec.json.format(without_mark(body), indent=2))
        case BodyKind.TEXT:
            yield from text_lines(body)
        case BodyKind.BINARY:
            yield from (hex_line(body, at, hex_bytes) for at in range(hex_line_count(body, hex_bytes)))


def text_lines(body: bytes) -> list[str]:
    """The lines of a body. Bytes that are not UTF-8, and control characters, are shown as escapes."""
    lines, begun = list[str](), list[str]()
    for text in _pieces(body):
        *ended, rest = [printable(line.replace("\t", "    ")) for line in text.split("\n")]
        if ended:
            lines += ["".join([*begun, ended[0]]), *ended[1:]]
            begun.clear()
        begun.append(rest)
    return [*lines, "".join(begun)]


def _pieces(body: bytes) -> Iterator[str]:
    """A body as text, with only line feeds as line ends; at least one piece."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    carried = ""
    for begin in range(0, len(body) or 1, _PIECE_BYTES):
        is_last = begin + _PIECE_BYTES >= len(body)
        text = carried + decoder.decode(body[begin : begin + _PIECE_BYTES], is_last)
        carried = "\r" if text.endswith("\r") and not is_last else ""
        yield text.removesuffix(carried).replace("\r\n", "\n")


def one_line(beginning: bytes) -> str:
    """The words at the beginning of a body, separated by one blank; bytes that are not text become escapes. A character
    cut off at the end is left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return " ".join(decoder.decode(beginning).split())


def hex_line_count(data: bytes, width: int = HEX_BYTES_PER_LINE) -> int:
    return -(-len(data) // width)


def hex_line(data: bytes, at: int, width: int = HEX_BYTES_PER_LINE) -> str:
    """A line as ``hexdump -C`` shows it: offset, ``width`` bytes, and their ASCII characters."""
    row, half = data[at * width : (at + 1) * width], width // 2
    left, right = row[:half].hex(" "), row[half:].hex(" ")
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
    return f"{at * width:08x}  {left:{half * 3}} {right:{half * 3}} |{text}|"
