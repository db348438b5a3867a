"""Stores that a real Apache broker wrote, and what it said about them.

An archive has a folder for each store, with ``store/``, ``manifest.json`` and ``messages.jsonl``. Files of zeros are
packed sparse. Stores that began as copies of one store are in one archive, sorted by path, so that their common parts
are packed once.
"""

import functools
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

from rmqserver.store.options import StoreOptions
from tests.support import archives

GOLDEN = Path(__file__).parents[2] / "golden" / "store"

SIZES = StoreOptions(
    commit_log_file_size_bytes=1 << 20, consume_queue_file_size_bytes=1000 * 20, index_slot_count=1000,
    index_unit_count=2000, message_size_max_bytes=256 << 10,
)  # fmt: skip
"""All of these stores have these file sizes."""


_TOGETHER = ("clean", "killed", "torn", "torn-body")


def _archive(name: str) -> Path:
    return GOLDEN / ("clean-killed-torn.tar.xz" if name in _TOGETHER else f"{name}.tar.xz")


RECORDED_MS = 1_795_266_000_000
"""When the stores were recorded. A week later their timers can no longer be delivered, and a check says so."""


def without_timers(directory: Path) -> Path:
    """The same store with no timers, which is as good at any time."""
    for name in ("timerwheel", "config/timercheck"):
        (directory / name).unlink()
    shutil.rmtree(directory / "timerlog")
    return directory


def unpack(name: str, target: Path) -> Path:
    """Unpacks the store of that name below ``target``, which exists; returns its directory."""
    directory = target / "store"
    directory.mkdir()
    archives.unpack(_archive(name), directory, below=f"{name}/store/")
    return directory


def _member(name: str, file_name: str) -> bytes | None:
    path = f"{name}/{file_name}"
    with tarfile.open(_archive(name)) as tar:
        for member in tar:
            if member.name == path:
                file = tar.extractfile(member)
                return file.read()
    return None


@functools.cache
def manifest(name: str) -> dict[str, Any]:
    data = _member(name, "manifest.json")
    assert data is not None, name
    found: dict[str, Any] = json.loads(data)
    return found


@functools.cache
def messages(name: str) -> list[dict[str, Any]]:
    """The store's messages; empty for torn stores, of which only offsets are known."""
    return [json.loads(line) for line in (_member(name, "messages.jsonl") or b"").splitlines()]
