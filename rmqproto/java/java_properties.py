"""Java properties text (``java.util.Properties``): configuration files, and the bodies of 25, 26, 318 and 319."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rmqproto.errors import ProtocolError

COMMENT = "#"
"""The beginning of a comment."""

# Key, separator (blanks with at most one = or : among them), value. A backslash takes the next character with it.
_ENTRY = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_untrusted(text: str | bytes) -> dict[str, str]:
    """Keys and values. The last of several entries with one key counts. ProtocolError for bytes that are not UTF-8, and
    for a ``\\u`` without four hex digits."""
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(f"properties are not UTF-8 at byte {error.start}") from None
    pairs = {}
    for line in _logical_lines(text):
        entry = _ENTRY.match(line)
        assert entry is not None  # every part may be empty
        pairs[_unescape(entry["key"])] = _unescape(entry["value"])
    return pairs


def parse_file_untrusted(data: bytes) -> dict[str, str]:
    """The settings of a file that people wrote, as Apache's servers take them: without blanks around values. A byte
    order mark is no part of it. A line that is not UTF-8 is read as Java reads every line, in ISO-8859-1: comments in
    GBK harm nothing. ProtocolError for a file in UTF-16 or of zeros, and for a ``\\u`` without four hex digits."""
    if data and not data.strip(b"\0"):
        raise ProtocolError("the file holds nothing but zeros, as after a crash of the machine: write it again")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data:
        raise ProtocolError("the file is not text in UTF-8; it looks like UTF-16: save it as UTF-8")
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return {key: value.strip() for key, value in parse_untrusted("\n".join(map(_line, lines))).items()}


def _line(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def render(pairs: Mapping[str, str], *, before: str = "") -> str:
    """``key=value`` lines in the order of their keys and without escapes, as a broker lists its configuration."""
    return "".join(f"{before}{key}={pairs[key]}\n" for key in sorted(pairs))


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones. A line that ends in an odd number of backslashes continues in the next."""
    begun = ""
    for line in re.split(r"\r\n|\r|\n", text):
        line = line.lstrip(" \t\f")
        if not begun and line[:1] in ("", "#", "!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
            continue
        yield begun + line
        begun = ""
    if begun:
        yield begun


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped[0] != "u":
            return _CONTROLS.get(escaped, escaped)
        if len(escaped) == 1:
            raise ProtocolError(r"properties: \u needs four hex digits")
        return chr(int(escaped[1:], 16))

    # A character past 16 bits comes as two surrogates; a single one cannot be UTF-8 and becomes a mark (U+FFFD).
    return _ESCAPE.sub(plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
