"""What is kept of a finished import, so that a second one of the same file is no accident. It counts only as long as
the target has what was sent: a cluster that was made anew under the same address does not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rmqadmin.core.messages.importing import progress_file
from rmqadmin.core.messages.importing.progress_file import ImportProgress, LastSent
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from rmqproto.message import properties as props

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

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
    progress_file.save(path, progress)


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
    try:
        pulled = admin.pull_message(addr, queue, offset, max_count=1).messages
    except RocketMQError:
        return None
    for stored in pulled:
        if stored.queue_offset == offset:
            message_id = stored.properties.get(props.UNIQUE_KEY) or stored.message_id
            return LastSent(
                queue.topic, queue.broker_name, queue.queue_id, offset, message_id, stored.store_timestamp_ms
            )
    return None
