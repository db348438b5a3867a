"""Credentials by reference: a settings file says where a key is, and never holds the key.

``env:NAME`` is an environment variable, ``file:PATH`` the content of a file, ``command:WORDS`` the output of a program.
No shell is involved, unless the words start one. A key is one line; surrounding blanks are not part of it.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from rmqadmin.core.own_files import expanded
from rmqproto.errors import UsageError

FORMS = "env:NAME, file:PATH or command:WORDS"
SECRET_SIZE_MAX_BYTES = 64 * 1024
COMMAND_TIMEOUT_S = 120.0
"""Long enough for a program that asks its user for a password."""


def check_reference(text: str, what: str) -> None:
    """UsageError for a text that is not a reference. The error does not repeat the text, which may be the secret
    itself."""
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

    from rmqadmin.core.user_files import program_words

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
