"""Undo files of offset resets: where a group stood before, as JSON in the XDG state directory.

They are written before anything is changed, and hold no credentials.
"""

import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rmqadmin.core.files import state_dir, write_undo_file
from rmqadmin.core.names import check_nested
from rmqadmin.core.offsets.reset import QueueReset
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError

KIND = "rmqadmin resetOffset undo"
VERSION = 1
PART_LENGTH_MAX = 80
"""Maximum length of a group's or topic's name within a file name, which has at most 255 bytes."""

SIZE_MAX_BYTES = 64 * 1024 * 1024
"""Enough for a million queues. A larger file is not an undo file."""


class UndoQueue(msgspec.Struct, frozen=True):
    broker_name: str
    queue_id: int
    committed_offset: int | None
    reset_offset: int | None = None


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """``committed_offset`` is None if the group had no offset in the queue; that state cannot be restored.
    ``reset_offset`` is where the reset put the group; None if it left the queue alone, and in older files."""

    kind: str = KIND
    version: int = VERSION
    made_ms: int
    namesrv_addrs: list[str]
    group: str
    topic: str
    queues: list[UndoQueue]

    def by_queue(self) -> dict[MessageQueue, UndoQueue]:
        return {MessageQueue(self.topic, each.broker_name, each.queue_id): each for each in self.queues}


def undo_dir() -> Path:
    return state_dir() / "undo"


def write(group: str, topic: str, namesrv_addrs: list[str], planned: Sequence[QueueReset], now_ms: int) -> Path:
    """Writes a new file and returns its path. StorageError if that fails; nothing must then be changed."""
    queues = [UndoQueue(r.queue.broker_name, r.queue.queue_id, r.old_offset, r.new_offset) for r in planned]
    undo = Undo(made_ms=now_ms, namesrv_addrs=namesrv_addrs, group=group, topic=topic, queues=queues)
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ms / 1000))
    path = undo_dir() / f"{moment}.{now_ms % 1000:03d}Z-{_part(group)}-{_part(topic)}.json"
    return write_undo_file(path, msgspec.json.format(msgspec.json.encode(undo), indent=2).decode() + "\n")


def _part(name: str) -> str:
    """The part of the file name for a group or topic. The two full names may together be too long for a file name."""
    if len(name) <= PART_LENGTH_MAX:
        return name
    return f"{name[: PART_LENGTH_MAX - 9]}~{zlib.crc32(name.encode()):08x}"


def read_untrusted(path: Path) -> Undo:
    """Reads an undo file. UsageError if it cannot be read, is none, or has a name that none has."""
    try:
        if path.stat().st_size > SIZE_MAX_BYTES:
            raise UsageError(f"{path} is too large for an undo file")
        data = path.read_bytes()
        undo = msgspec.json.decode(data, type=Undo)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{path} is not an undo file: {error}") from None
    if undo.kind != KIND or undo.version != VERSION:
        raise UsageError(
            f"{path} is not an undo file of this program", hint=f"kind {undo.kind!r}, version {undo.version}"
        )
    check_nested(str(path), msgspec.json.decode(data), Undo)
    return undo
