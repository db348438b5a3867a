"""What an import has done: the file that it goes on from, and the words at its end."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.files import state_dir, write_private
from rmqadmin.core.messages.importing.send_lanes import RefusedRow
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError
from rmqproto.message import properties as props

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


LAST_SENT_MAX = 8
"""Of how many queues the last message is noted."""


def note_finished(
    admin: AdminClient, addrs: Mapping[MessageQueue, str], last_offsets: Mapping[MessageQueue, int], path: Path,
    progress: ImportProgress,
) -> None:  # fmt: skip
    """Keeps that the import has come to its end, instead of how far it is. ``last_offsets``: by queue, the queue offset
    of the last message that was sent there. StorageError."""
    progress.finished_ms = time.time_ns() // 1_000_000
    progress.ends, progress.last_sent = [], []
    for queue, offset in sorted(last_offsets.items())[:LAST_SENT_MAX]:
        found = _last_sent(admin, addrs[queue], queue, offset)
        if found is not None:
            progress.last_sent.append(found)
    save(path, progress)


def is_still_there(admin: AdminClient, addrs: Mapping[MessageQueue, str], progress: ImportProgress) -> bool:
    """Whether the target has a message that the finished import sent, or nobody can tell."""
    judged = []
    for noted in progress.last_sent:
        queue = MessageQueue(noted.topic, noted.broker_name, noted.queue_id)
        if queue not in addrs:
            continue
        if admin.min_offset(addrs[queue], queue.topic, queue.queue_id) > noted.queue_offset:
            return True  # retention has taken it
        judged.append(_last_sent(admin, addrs[queue], queue, noted.queue_offset) == noted)
    return any(judged) or not judged


def _last_sent(admin: AdminClient, addr: str, queue: MessageQueue, offset: int) -> LastSent | None:
    """The message at a queue offset, as it is noted; None if there is none, or it cannot be read."""
    pulled = targets.or_none(lambda: admin.pull_message(addr, queue, offset, max_count=1))
    for stored in pulled.messages if pulled is not None else ():
        if stored.queue_offset == offset:
            message_id = stored.properties.get(props.UNIQUE_KEY) or stored.message_id
            return LastSent(
                queue.topic, queue.broker_name, queue.queue_id, offset, message_id, stored.store_timestamp_ms
            )
    return None
