"""A typed line as words, by the familiar rules of sh: blanks separate words; ``'…'`` and ``"…"`` keep them together; a
backslash escapes the next character; ``#`` at the beginning of a word begins a comment. Nothing is expanded, and ``;``,
``$``, ``*`` and ``>`` are ordinary characters. After a word ``|``, the rest is a command for sh.

``shlex`` would not do: it cannot say where a word begins, whether it was quoted, or what to complete after an open
quote, and it takes ``a#b`` for a comment.
"""

import re

import msgspec

from rmqproto.errors import UsageError

_BLANKS = " \t\r\n\v\f"
_PLAIN = re.compile(r"[\w@%+=:,./;!*~^{}?\[\]-]+", re.ASCII)


class TypedWord(msgspec.Struct, frozen=True):
    """``start`` is where the word begins in the line, including its quote. ``open_quote`` is an unclosed quote."""

    text: str
    start: int
    is_quoted: bool = False
    open_quote: str = ""


class TypedLine(msgspec.Struct, frozen=True):
    """``piped_to`` is the text after the ``|``, as typed; None without one."""

    words: list[TypedWord]
    piped_to: str | None = None
    is_in_comment: bool = False

    def texts(self) -> list[str]:
        """The words of a line to run. UsageError if a quote is open."""
        if self.words and self.words[-1].open_quote:
            raise UsageError(f"the quote {self.words[-1].open_quote} is not closed")
        return [word.text for word in self.words]


def parse_line(line: str) -> TypedLine:
    words: list[TypedWord] = []
    at = 0
    while True:
        while at < len(line) and line[at] in _BLANKS:
            at += 1
        if at == len(line):
            return TypedLine(words)
        if line[at] == "#":
            return TypedLine(words, is_in_comment=True)
        word, end = _word(line, at)
        if word.text == "|" and not word.is_quoted:
            return TypedLine(words, piped_to=line[end:].strip())
        words.append(word)
        at = end


def _word(line: str, start: int) -> tuple[TypedWord, int]:
    """The word that begins at ``start``, and where it ends."""
    found: list[str] = []
    quote, is_quoted, at = "", False, start
    while at < len(line) and (quote or line[at] not in _BLANKS):
        character = line[at]
        if character == "\\" and quote != "'" and at + 1 < len(line):
            at += 1
            kept = "\\" if quote and line[at] not in '"\\' else ""
            found.append(kept + line[at])
            is_quoted = True
        elif character == quote:
            quote = ""
        elif character in "'\"" and not quote:
            quote, is_quoted = character, True
        else:
            found.append(character)
        at += 1
    return TypedWord("".join(found), start, is_quoted, quote), at


def typed(text: str, quote: str = "") -> str:
    """The word written so that ``parse_line`` reads it back, using the quote that the user began if possible."""
    if not quote and _PLAIN.fullmatch(text):
        return text
    if quote == '"':
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "'" + text.replace("'", "'\\''") + "'"
