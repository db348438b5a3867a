"""Stores that a real Apache broker wrote, and what it said about them."""

from __future__ import annotations

import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

from rmqserver.store.options import StoreOptions

GOLDEN = Path(__file__).parents[2] / "golden" / "store"

SIZES = StoreOptions(
    commit_log_file_size_bytes=1 << 20,
    consume_queue_file_size_bytes=1000 * 20,
    index_slot_count=1000,
    index_unit_count=2000,
    message_size_max_bytes=256 << 10,
)
"""The file sizes of all of them."""


def unpack(name: str, target: Path) -> Path:
    """The store directory of that name below ``target``."""
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as tar:
        tar.extractall(target, filter="data")
    return target / "store"


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return found


def messages(name: str) -> list[dict[str, Any]]:
    """None for the torn ones, of which only offsets are told."""
    path = GOLDEN / f"{name}.messages.jsonl.xz"
    return [json.loads(line) for line in lzma.open(path, "rt")] if path.exists() else []
