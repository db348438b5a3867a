"""Reads a settings file: TOML, one setting per line. Errors name the file, the line and what to write instead."""

import re
import stat
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

import msgspec

from rmqadmin.core.contexts.context import ASKED_AT_ONCE_MAX, SECONDS_MAX, AskedAtOnce, Seconds
from rmqadmin.core.contexts.secrets import check_reference
from rmqadmin.core.names import did_you_mean
from rmqadmin.core.own_files import expanded
from rmqadmin.core.user_files import decoded, parse_toml
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
    """Like ``read_settings``, for a text. ``path`` appears in errors, and relative paths in the text start from its
    directory."""
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
