"""Reads a settings file: TOML, one setting per line. Errors name the file, the line and what to write instead.

A file says where a key is, and never holds the key: ``env:NAME`` is an environment variable, ``file:PATH`` the content
of a file, ``command:WORDS`` the output of a program. No shell is involved, unless the words start one. A key is one
line; surrounding blanks are not part of it.
"""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

import msgspec

from rmqadmin.core.contexts.context import ASKED_AT_ONCE_MAX, SECONDS_MAX, AskedAtOnce, Seconds
from rmqadmin.core.files import decoded, expanded, parse_toml, program_words
from rmqadmin.core.names import did_you_mean
from rmqclient.addresses import parse_address_map, parse_namesrvs
from rmqproto.errors import UsageError

FILE_SIZE_MAX_BYTES = 256 * 1024
"""Enough for settings and comments. A larger file is not a settings file."""

KEYS = ("access_key", "secret_key")
"""Settings for which a file holds only a reference."""

_PATHS = ("tls_ca", "tls_cert", "tls_key")
_SYNTAX_PLACE = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")

S = TypeVar("S", bound=msgspec.Struct)


class SettingsText(msgspec.Struct, Generic[S], frozen=True):
    """The settings in a text, and the line of each."""

    settings: S
    lines: dict[str, int]


def read_settings(path: Path, kind: type[S]) -> SettingsText[S]:
    """Reads a settings file. UsageError, with file and line, if it cannot be read or holds something else.
    FileNotFoundError is passed on: the caller decides what it means."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_SIZE_MAX_BYTES:
            raise UsageError(f"{path} is not a settings file")
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return parse_settings(decoded(data, str(path)), path, kind)


def parse_settings(text: str, path: Path, kind: type[S]) -> SettingsText[S]:
    """``read_settings`` of a text. ``path`` appears in errors, and relative paths start from its directory."""
    try:
        found = parse_toml(text)
    except UsageError as error:
        raise UsageError(_syntax_error(str(error), text, path), hint='One setting a line: name = "value".') from None
    types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name in found:
        if name not in types:
            advice = did_you_mean(name, types) or f"There are: {', '.join(types)}."
            raise UsageError(f"{path}:{_line_of(name, text)}: there is no setting {name!r}", hint=advice)
    lines = {name: _line_of(name, text) for name in found}
    values = {name: _value(f"{path}:{lines[name]}", name, value, types[name]) for name, value in found.items()}
    for name in _PATHS:
        if name in values:
            values[name] = str(path.parent / expanded(values[name]))
    return SettingsText(kind(**values), lines)


def _syntax_error(message: str, text: str, path: Path) -> str:
    place = _SYNTAX_PLACE.search(message)
    if place is None:
        return f"{path}: {message}"
    line = int(place[1]) if place[1] else text.count("\n") + 1
    return f"{path}:{line}: {_SYNTAX_PLACE.sub('', message)}"


def _line_of(name: str, text: str) -> int:
    """The line of a setting; line 1 if it is written in a form that is not searched for."""
    place = re.search(rf"^[ \t]*\[?[\"']?{re.escape(name)}[\"']?[ \t]*[=.\]]", text, re.MULTILINE)
    return text.count("\n", 0, place.start()) + 1 if place else 1


def _value(where: str, name: str, value: Any, kind: Any) -> Any:
    """A checked value. UsageError for one that has the wrong type or no possible meaning."""
    try:
        found = msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise UsageError(f"{where}: {name} must be {wanted(kind)}") from None  # the value could be a secret
    try:
        if name in KEYS:
            check_reference(found, name)
        if name == "namesrv_addr":
            parse_namesrvs(found)
        if name == "address_map":
            parse_address_map(found)
    except UsageError as error:
        raise UsageError(f"{where}: {error}", hint=error.hint) from None
    return found


def wanted(kind: Any) -> str:
    """What a value of this type looks like, for error messages."""
    (plain, *_) = (kind,) if kind in (Seconds, AskedAtOnce) else get_args(kind) or (kind,)
    if plain is bool:
        return "true or false"
    if plain == AskedAtOnce:
        return f"a number from 1 to {ASKED_AT_ONCE_MAX}"
    if plain == tuple[str, ...]:
        return 'a list of rules: ["10.1.2.3=127.0.0.1"]'
    if plain == Seconds:
        return f"a number above 0 and at most {SECONDS_MAX:,}"
    return "text in quotes" if plain is str else " or ".join(f'"{choice}"' for choice in plain)


FORMS = "env:NAME, file:PATH or command:WORDS"
SECRET_SIZE_MAX_BYTES = 64 * 1024
COMMAND_TIMEOUT_S = 120.0
"""Long enough for a program that asks its user for a password."""


def check_reference(text: str, what: str) -> None:
    """UsageError for a text that is no reference. It does not repeat the text, which may be the secret itself."""
    kind, _, rest = text.partition(":")
    if kind not in _READERS or not rest.strip():
        raise UsageError(
            f"{what} holds no key, but says where it is: {FORMS}",
            hint=f"For example {what} = env:PROD_{what.upper()}.",
        )


def read_secret(reference: str, what: str, told_by: Path) -> str:
    """The key that the file ``told_by`` refers to. UsageError if it cannot be read; the error never holds a key."""
    check_reference(reference, what)
    kind, _, rest = reference.partition(":")
    found = _READERS[kind](rest.strip(), f"{told_by}: {what}", told_by).strip()
    if not found or "\n" in found:
        raise UsageError(f"{told_by}: {what}: {reference} gives {'more than one line' if found else 'nothing'}")
    return found


def _from_environment(name: str, where: str, _told_by: Path) -> str:
    if name not in os.environ:
        raise UsageError(f"{where}: the environment has no {name}", hint=f"export {name}=…")
    return os.environ[name]


def _from_file(path: str, where: str, told_by: Path) -> str:
    full = told_by.parent / expanded(path)
    try:
        with full.open("rb") as file:
            content = file.read(SECRET_SIZE_MAX_BYTES + 1)
        if len(content) > SECRET_SIZE_MAX_BYTES:
            raise UsageError(f"{where}: {full} is too large for a key")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{where}: {full}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{where}: {full} is not UTF-8 text") from None


def _from_command(words: str, where: str, told_by: Path) -> str:
    import subprocess

    status = told_by.stat()
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        # who can write the file could have any program run
        raise UsageError(
            f"{told_by}: a command is not run if others can write the file that names it", hint=f"chmod 600 {told_by}"
        )
    command = program_words(words, where)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,  # our standard input may hold messages
            stdout=subprocess.PIPE,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise UsageError(f"{where}: {command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"{where}: {command[0]} did not end within {COMMAND_TIMEOUT_S:g} s") from None
    if done.returncode:
        raise UsageError(f"{where}: {command[0]} ended with status {done.returncode}")
    try:
        return done.stdout.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{where}: what {command[0]} printed is not UTF-8 text") from None


_READERS: dict[str, Callable[[str, str, Path], str]] = {
    "env": _from_environment,
    "file": _from_file,
    "command": _from_command,
}
