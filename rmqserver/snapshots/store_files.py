"""The files of a closed store: removed, copied to a snapshot, or restored. A snapshot lies in ``snapshots/NAME`` below
the store, on its file system, and is removed with it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rmqproto.errors import UsageError

SNAPSHOTS = "snapshots"
SNAPSHOTS_MAX = 100

STORE_PARTS = (
    "commitlog", "consumequeue", "index", "config", "checkpoint", "timerwheel", "timerlog", "abort", "failed_flush",
    "producerSequences", "queueEnds", "queueFiles",
)  # fmt: skip
"""The parts of a store. Anything else in its directory is not ours to remove."""

_PIECE_BYTES = 1 << 20


class StoreFiles:
    """``root`` is the store's directory. Methods take as long as the copying does; OSError of the file system. If a
    method fails, the store is as before, but ``clear`` may leave a part of it."""

    def __init__(self, root: str):
        self._root = Path(root)
        self._snapshots = self._root / SNAPSHOTS

    def clear(self) -> None:
        for part in STORE_PARTS:
            _remove(self._root / part)

    def check_room(self, name: str) -> None:
        """UsageError if there are too many snapshots to add this one."""
        names = self.names()
        if name not in names and len(names) >= SNAPSHOTS_MAX:
            raise UsageError(f"there are {SNAPSHOTS_MAX} snapshots, and no more are taken")

    def names(self) -> list[str]:
        try:
            return sorted(path.name for path in self._snapshots.iterdir() if not path.name.startswith("."))
        except FileNotFoundError:
            return []

    def save(self, name: str) -> None:
        """Replaces an older snapshot of that name."""
        unfinished = self._snapshots / ".unfinished"
        _remove(unfinished)
        unfinished.mkdir(parents=True)
        _copy_parts(self._root, unfinished)
        _remove(self._snapshots / name)
        unfinished.rename(self._snapshots / name)

    def restore(self, name: str) -> None:
        """The snapshot stays, and can be restored again."""
        unfinished = self._snapshots / ".unfinished"
        _remove(unfinished)
        unfinished.mkdir()
        _copy_parts(self._snapshots / name, unfinished)
        replaced = self._snapshots / ".replaced"
        _remove(replaced)
        replaced.mkdir()
        _move_all([*_moves(self._root, replaced), *_moves(unfinished, self._root)])
        unfinished.rmdir()
        _remove(replaced)


def _moves(source: Path, target: Path) -> list[tuple[Path, Path]]:
    return [(source / part, target / part) for part in STORE_PARTS if (source / part).exists()]


def _move_all(moves: list[tuple[Path, Path]]) -> None:
    """Makes all moves, in order; or none, with OSError."""
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            source.rename(target)
            done.append((source, target))
    except OSError:
        for source, target in reversed(done):
            target.rename(source)
        raise


def _copy_parts(source: Path, target: Path) -> None:
    for part in STORE_PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, copy_function=_copy_file)
        elif (source / part).exists():
            _copy_file(source / part, target / part)


def _copy_file(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Keeps holes: files of a store are made at full size, and most of it is never written."""
    with open(source, "rb") as old, open(target, "xb") as new:
        size, at = os.fstat(old.fileno()).st_size, 0
        new.truncate(size)
        while at < size:
            try:
                at = os.lseek(old.fileno(), at, os.SEEK_DATA)
            except OSError:  # only a hole is left
                break
            data = os.pread(old.fileno(), _PIECE_BYTES, at)
            os.pwrite(new.fileno(), data, at)
            at += len(data)
    shutil.copystat(source, target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
