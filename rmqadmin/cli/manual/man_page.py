"""A manual page as data, and its two forms: roff for ``man``, and plain text for machines without ``man``.

Text is as in helps: words in backticks are literal. The macros are those of man(7), which groff and mandoc have.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

import msgspec

SECTION = "1"
_INDENT = 7
_TERM_INDENT = 14

_CODE = re.compile(r"`([^`]+)`")
_ROFF = {
    "\\": r"\(rs",
    "-": r"\-",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
    '"': r"\(dq",
}


class Prose(msgspec.Struct, frozen=True):
    """A paragraph."""

    text: str


class Terms(msgspec.Struct, frozen=True):
    """Terms with their meanings."""

    of: tuple[tuple[str, str], ...]


class Verbatim(msgspec.Struct, frozen=True):
    """Lines that are not wrapped."""

    lines: tuple[str, ...]


Part = Prose | Terms | Verbatim


class Section(msgspec.Struct, frozen=True):
    title: str
    parts: tuple[Part, ...]


class ManPage(msgspec.Struct, frozen=True):
    """``name`` is the file's name, without its section."""

    name: str
    sections: tuple[Section, ...]
    source: str

    @property
    def file_name(self) -> str:
        return f"{self.name}.{SECTION}"

    def roff(self) -> str:
        lines = [f'.TH "{_escaped(self.name.upper())}" {SECTION} "" "{_escaped(self.source)}" "rmqadmin"']
        for section in self.sections:
            lines.append(f'.SH "{_escaped(section.title)}"')
            for at, part in enumerate(section.parts):
                roff = _roff_of(part)
                lines += roff if at else [line for line in roff if line != ".PP"]  # a heading begins a paragraph
        return "\n".join(lines) + "\n"

    def text(self, width: int) -> Iterator[str]:
        """The page section by section, in lines of at most ``width``, except for those that are not wrapped."""
        for at, section in enumerate(self.sections):
            parts = "\n\n".join(_text_of(part, width) for part in section.parts)
            yield f"{chr(10) if at else ''}{section.title}\n{parts}\n"


def section(title: str, *parts: Part) -> Section:
    return Section(title, parts)


def terms(pairs: Sequence[tuple[str, str]]) -> Terms:
    return Terms(tuple(pairs))


def _roff_of(part: Part) -> list[str]:
    match part:
        case Prose(text):
            return [".PP", _line(text)]
        case Verbatim(lines):
            return [".PP", ".RS 4", ".nf", *(_guarded(_escaped(line)) for line in lines), ".fi", ".RE"]
        case Terms(of):
            return [line for term, meaning in of for line in (".TP", rf"\fB{_escaped(term)}\fR", _line(meaning))]


def _line(text: str) -> str:
    """A paragraph on one line. Parts with an odd number are in backticks."""
    parts = _CODE.split(text)
    return _guarded("".join(rf"\fB{_escaped(part)}\fR" if at % 2 else _escaped(part) for at, part in enumerate(parts)))


def _escaped(text: str) -> str:
    """The text with characters outside ASCII written by number, so that no encoding must be guessed."""
    return "".join(_ROFF.get(char) or (char if char.isascii() else rf"\[u{ord(char):04X}]") for char in text)


def _guarded(line: str) -> str:
    """The line, protected: otherwise one that begins with a dot is a macro, and an empty one a warning."""
    return line if line and line[0] != "." else rf"\&{line}"


def _text_of(part: Part, width: int) -> str:
    match part:
        case Prose(text):
            return _filled(text, _INDENT, width)
        case Verbatim(lines):
            return "\n".join(" " * (_INDENT + 4) + line for line in lines)
        case Terms(of):
            return "\n".join(f"{' ' * _INDENT}{term}\n{_filled(meaning, _TERM_INDENT, width)}" for term, meaning in of)


def _filled(text: str, indent: int, width: int) -> str:
    margin = " " * indent
    return textwrap.fill(
        text.replace("`", ""), max(width, indent + 20), initial_indent=margin, subsequent_indent=margin,
        break_on_hyphens=False,
    )  # fmt: skip
