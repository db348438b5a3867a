"""Where the program keeps its own files (the XDG directories), and how it writes those that only their owner may read:
whole or not at all. And files that people write (lists, settings, manifests, rules) or ask for: one place for the byte
order mark that editors on Windows write first, for other encodings, and for the words when one cannot be read or
written.
"""

import codecs
import contextlib
import errno
import fcntl
import itertools
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rmqproto.errors import StorageError, UsageError

_NO_HOME = Path("/nonexistent/home")


def config_dir() -> Path:
    """Files that people write: settings, contexts, keys of the dashboard."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def state_dir() -> Path:
    """State that must outlive the call: which context is in use, undo files."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def cache_dir() -> Path:
    """Files that may be lost."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def _xdg(variable: str, default: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base else home_dir() / default) / "rmqadmin"


def home_dir() -> Path:
    """The user's home. A user without one, as in many containers and accounts of services, gets a directory that is not
    there and cannot be made: nothing is read, and what must be written fails with a sentence that says why."""
    try:
        home = Path.home()
    except RuntimeError:  # neither HOME nor an entry in passwd
        return _NO_HOME
    return _NO_HOME if os.path.exists(home) and not os.path.isdir(home) else home  # /dev/null


def expanded(path: str | Path) -> Path:
    """The path with ``~`` replaced by the user's home. UsageError for a text that can be no path."""
    if "\0" in str(path):
        raise UsageError("a path has no NUL character")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path}: no home directory is known", hint="Set HOME, or write the whole path.") from None


def make_private_dir(path: Path) -> None:
    """Makes a directory of our own files, and those above it: 0700. OSError if it cannot be made."""
    if path.is_relative_to(_NO_HOME):
        raise OSError(errno.ENOENT, "no home directory is known: set HOME, or XDG_CONFIG_HOME and XDG_STATE_HOME")
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """What is written in the block is this file: an OSError of a write, as by a full disk, names none by itself."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_private(path: Path, text: str, *, is_new: bool = False) -> None:
    """Writes a file, with its directories: 0600 in 0700. A reader sees the old text or the new one, even after a crash.
    With ``is_new``, FileExistsError if it exists. OSError if it cannot be written; the old file is then unchanged."""
    make_private_dir(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with naming(path), open(opened, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            os.link(temporary, path)
        else:
            temporary.rename(path)
        _sync_directory(path.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def write_undo_file(path: Path, text: str) -> Path:
    """Writes a file beside those that are there, which another command may have written in the same millisecond, and
    returns its path: ``path``, or one that ends with a number. StorageError; nothing must then be changed."""
    try:
        return _write_new(path, text)
    except OSError as error:
        where = f"{error.filename or path}: {error.strerror}"
        hint = "Nothing was changed. XDG_STATE_HOME names another directory for such files."
        raise StorageError(f"no file to undo it can be written: {where}", hint=hint) from None


def _write_new(path: Path, text: str) -> Path:
    make_private_dir(path.parent)
    for at in itertools.count(1):
        found = path if at == 1 else path.with_stem(f"{path.stem}-{at}")
        with contextlib.suppress(FileExistsError):
            os.close(os.open(found, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            break
    try:
        write_private(found, text)
    except BaseException:
        found.unlink(missing_ok=True)
        raise
    return found


@contextlib.contextmanager
def alone_in(path: Path) -> Iterator[None]:
    """Of commands that change files of a directory at once, each waits here for the one before. Where the directory is
    not there, or its disk knows no locks, none waits."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _sync_directory(path: Path) -> None:
    """Makes the new name survive a crash, too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
