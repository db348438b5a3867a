"""Which dead letters were redriven from this machine, by the ledgers of its redrives. One rule for all who ask:
``rmqreplay.ledger.sent_before``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rmqadmin.core.own_files import state_dir
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError

if TYPE_CHECKING:
    from rmqadmin.core.messages.lookup import FoundMessage
    from rmqclient.admin import AdminClient

Place = tuple[MessageQueue, int]
"""Queue and queue offset."""


def place_of(letter: FoundMessage) -> Place:
    stored = letter.stored
    return MessageQueue(stored.topic, letter.broker_name, stored.queue_id), stored.queue_offset


def redriven_before(admin: AdminClient, letters: Iterable[FoundMessage], ledger: str | None = None) -> set[Place]:
    """Those of the letters that a redrive has sent: the next one leaves them out. ``ledger``: the directory of all
    jobs' ledgers, if not the default one. StorageError for a ledger that cannot be read."""
    root = _with_jobs(ledger)
    if root is None:
        return set()
    from rmqreplay.ledger.letter_source import LiveLetters
    from rmqreplay.ledger.letters import letter_of
    from rmqreplay.ledger.sent_before import sent_of_letters

    found = {place_of(letter): letter_of(letter.stored, letter.properties) for letter in letters}
    return sent_of_letters(root, found, LiveLetters(admin))


def redriven_count(
    admin: AdminClient, ranges: Mapping[MessageQueue, tuple[int, int]], ledger: str | None = None
) -> int:
    """How many messages of these ranges of queue offsets a redrive has sent. Otherwise as ``redriven_before``."""
    root = _with_jobs(ledger)
    if root is None:
        return 0
    from rmqreplay.ledger.letter_source import LiveLetters
    from rmqreplay.ledger.sent_before import sent_of_ranges
    from rmqreplay.source.offset_ranges import OffsetRange

    asked: Sequence[OffsetRange] = [OffsetRange(queue, *ends) for queue, ends in ranges.items() if ends[0] < ends[1]]
    return sent_of_ranges(root, asked, LiveLetters(admin)).places.count


def _with_jobs(ledger: str | None) -> str | None:
    """The directory of the ledgers; None if it has no job, so that nothing else is loaded. StorageError if it cannot be
    read."""
    root = os.path.abspath(ledger) if ledger is not None else str(state_dir() / "replay")
    try:
        with os.scandir(root) as entries:
            return root if any(entry.is_dir() for entry in entries) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{root} cannot be read: {error.strerror}") from None
