"""Where the program keeps its own files (the XDG directories), and how it writes those that only their owner may read:
whole or not at all."""

import contextlib
import errno
import fcntl
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

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
    """The user's home. A user without one, as in many containers, gets a directory that is not there and cannot be
    made: nothing is read, and what must be written fails with a sentence that says why."""
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry in passwd
        return _NO_HOME


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
