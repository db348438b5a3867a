"""The progress of an import, in a file in the XDG state directory, so that it can continue where it stopped. Of a
finished import the file stays, and says so.

The file is replaced about once a second. It says how many messages of the source are certainly done, and where each
target queue ended then. Messages sent afterwards come after those ends, where their unique keys identify them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rmqadmin.core.messages.importing.check import RefusedRow
from rmqadmin.core.own_files import state_dir, write_private
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError

KIND = "rmqadmin msg import"
VERSION = 1


class QueueEnd(msgspec.Struct):
    """``end_offset``: the queue offset after the last message that the file knows of."""

    topic: str
    broker_name: str
    queue_id: int
    end_offset: int


class LastSent(msgspec.Struct):
    """The last message that a finished import sent to a queue. Another cluster has another one there."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str
    store_timestamp_ms: int


class ImportProgress(msgspec.Struct, kw_only=True):
    """Counts messages of the source, from its beginning. ``refused``: messages that were not accepted."""

    kind: str = KIND
    version: int = VERSION
    source: str
    digest: str
    """SHA-256 of the source's bytes."""
    namesrv_addrs: list[str]
    to: str | None
    total_count: int
    done_count: int = 0
    sent_count: int = 0
    present_count: int = 0
    refused: list[RefusedRow] = []
    updated_ms: int = 0
    ends: list[QueueEnd] = []
    finished_ms: int | None = None
    """When the import had come to its end; None if it has not."""
    last_sent: list[LastSent] = []
    """Only of a finished import."""

    def ends_by_queue(self) -> dict[MessageQueue, int]:
        return {MessageQueue(each.topic, each.broker_name, each.queue_id): each.end_offset for each in self.ends}


def progress_path(digest: str, namesrv_addrs: Sequence[str], topics: Sequence[str]) -> Path:
    """One file for each source and target, however the command line names them: a file or standard input, with --to or
    without. ``topics``: where the messages go, in order."""
    target = hashlib.sha256(repr((sorted(namesrv_addrs), list(topics))).encode()).hexdigest()
    return state_dir() / "imports" / f"{digest[:24]}-{target[:8]}.json"


def save(path: Path, progress: ImportProgress) -> None:
    """Saves the progress, durably. StorageError."""
    try:
        write_private(path, msgspec.json.format(msgspec.json.encode(progress), indent=1).decode() + "\n")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None


def load(path: Path) -> ImportProgress | None:
    """The saved progress; None if there is none. StorageError if the file is damaged or not ours."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=ImportProgress)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise StorageError(f"{path} cannot be read: {error}", hint="--restart starts over.") from None
    if (found.kind, found.version) != (KIND, VERSION):
        raise StorageError(f"{path} is of another version", hint="--restart starts over.")
    return found
