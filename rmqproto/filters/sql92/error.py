"""Errors of expressions, in Apache's words: users of the Java client know these texts."""

from __future__ import annotations

from rmqproto.errors import ProtocolError

PARSE_EXCEPTION = "org.apache.rocketmq.filter.parser.ParseException"
LEXICAL_ERROR = "org.apache.rocketmq.filter.parser.TokenMgrError"
RUNTIME_EXCEPTION = "java.lang.RuntimeException"
NUMBER_FORMAT_EXCEPTION = "java.lang.NumberFormatException"
CLASS_CAST_EXCEPTION = "java.lang.ClassCastException"


class Sql92Error(ProtocolError):
    """An expression that does not compile. ``remark`` is the broker's answer: Java's exception, then its message."""

    def __init__(self, message: str, exception: str = RUNTIME_EXCEPTION):
        super().__init__(message)
        self.remark = f"{exception}: {message}"


_ESCAPES = {
    "\0": "", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r", '"': r"\"", "'": r"\'", "\\": r"\\",
}  # fmt: skip


def escaped(text: str) -> str:
    """The text as JavaCC shows it in a message."""
    return "".join(
        _ESCAPES[c] if c in _ESCAPES else c if " " <= c <= "~" else f"\\u{ord(c):04x}" for c in text
    )  # fmt: skip
