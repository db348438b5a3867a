"""Reads files that people wrote (lists, settings, manifests, rules), and writes those that they ask for. One place for
the byte order mark that editors on Windows write first, for other encodings, and for the words when a file cannot be
read or written."""

import codecs
import shlex
from pathlib import Path
from typing import Any

from rmqproto.errors import StorageError, UsageError

_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def has_mark(data: bytes) -> bool:
    return data.startswith(codecs.BOM_UTF8)


def without_mark(data: bytes) -> bytes:
    """The beginning of a text in UTF-8, without its byte order mark."""
    return data.removeprefix(codecs.BOM_UTF8)


def decoded(data: bytes, where: str) -> str:
    """The text of a file. UsageError, which begins with ``where``, if it is not UTF-8."""
    try:
        return without_mark(data).decode()
    except UnicodeDecodeError as error:
        if data.startswith(_UTF_16_MARKS):
            raise UsageError(f"{where} is UTF-16 text", hint="Save it as UTF-8.") from None
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{where} is not UTF-8 text (line {line})", hint="Save it as UTF-8.") from None


def read_text(path: str | Path, where: str | None = None) -> str:
    """The text of a file. UsageError for one that cannot be read. ``where`` stands for the file in errors."""
    return decoded(read_bytes(path, where), where or str(path))


def read_bytes(path: str | Path, where: str | None = None) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {where or path}: {error.strerror}") from None


def write_file(path: Path, data: bytes) -> None:
    """Writes a file that the user asked for, with its directories. StorageError that names it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """UsageError, in the words of ``tomllib``, for text that is not TOML or that has too many levels."""
    import tomllib  # 3 ms; few commands read such a file

    text = text.removeprefix("\ufeff")  # the byte order mark of editors on Windows
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UsageError("It has more levels than can be read") from None
    except ValueError as error:  # also for numbers of thousands of digits
        raise UsageError(str(error)) from None


def program_words(text: str, where: str) -> list[str]:
    """The words of a program's command line. UsageError, which begins with ``where``, for a quote that is not closed
    and for no word at all."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{where}: {text}: {str(error)[:1].lower()}{str(error)[1:]}") from None
    if not words or not words[0]:
        raise UsageError(f"{where} names no program")
    return words
