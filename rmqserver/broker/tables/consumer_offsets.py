"""The offsets of groups: committed offsets by topic, group and queue, the positions of pulls, and resets that are not
delivered yet (``ConsumerOffsetManager``, 5.5.0). Kept in ``config/consumerOffset.json``, saved every 5 s.

All offsets here are queue offsets. A commit is not checked: steps backwards, unknown queues and -1 are stored as they
come, because clients and tools rely on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.statistics import ConsumerOffsetsBody
from rmqproto.message.special_messages import LIGHT_QUEUE_ID
from rmqproto.names import LIGHT_QUEUE_PREFIX, REVIVE_GROUP, TRANSACTION_GROUP
from rmqserver.broker.errors import TableFull
from rmqserver.broker.tables.config_table import from_file, next_version

if TYPE_CHECKING:
    from rmqserver.store.disk.config_files import ConfigFiles, Document

log = logging.getLogger(__name__)

FILE_NAME = "consumerOffset.json"
LIGHT_FILE_NAME = "lmqConsumerOffset.json"
"""The only file in which an Apache broker with light queues (``enableLmq``) keeps offsets."""

SEPARATOR = "@"
OFFSETS_MAX = 1_000_000
"""The most offsets kept, committed or of pulls. A commit with any queue id adds one. This limit is ours."""

NOTHING = -1
"""Less than any offset from which a group has read."""

VERSION_STEP = 500
"""Commits per step of the data version (consumerOffsetUpdateVersionStep)."""


class ConsumerOffsets:
    """Tables by ``topic@group``, as in the file. No legal name holds an ``@``."""

    def __init__(self, files: ConfigFiles, clock_ms: Callable[[], int], *, has_light_queues: bool = False):
        """``has_light_queues``: keeps all offsets in the other file, and those of light groups in a table of their own,
        as Apache's broker does with light queues."""
        self._has_light_queues = has_light_queues
        self.file_name = LIGHT_FILE_NAME if has_light_queues else FILE_NAME
        self.data_version = DataVersion(timestamp=clock_ms())
        self.committed_table: dict[str, dict[int, int]] = {}
        self.pull_table: dict[str, dict[int, int]] = {}
        self.on_reset: Callable[[], None] = lambda: None
        """Called when a reset waits for a group."""
        self._resets: dict[str, dict[int, int]] = {}
        self._files = files
        self._clock_ms = clock_ms
        self._commit_count = 0
        self._entry_count = 0
        self._is_changed = False

    def load(self) -> None:
        """Raises StorageError if the file is not ours."""
        name = self.file_name
        document = self._files.load(name)
        if not document:
            name = FILE_NAME if self._has_light_queues else LIGHT_FILE_NAME
            document = self._files.load(name)
        loaded = from_file(document, ConsumerOffsetsBody, name)
        self.data_version = loaded.data_version or self.data_version
        self.committed_table = loaded.offset_table
        for key, queue_offset in (loaded.lmq_offset_table or {}).items():
            self.committed_table[key] = {LIGHT_QUEUE_ID: queue_offset}
        self.pull_table = loaded.pull_offset_table or {}
        self._count_entries()

    def take_over(self, others: ConsumerOffsetsBody) -> None:
        """Puts another broker's offsets over our own. Offsets that only we have stay, as on an Apache slave."""
        for table, theirs in (
            (self.committed_table, others.offset_table), (self.pull_table, others.pull_offset_table or {}),
        ):  # fmt: skip
            for key, queues in theirs.items():
                table.setdefault(key, {}).update(queues)
        for key, queue_offset in (others.lmq_offset_table or {}).items():
            self.committed_table[key] = {LIGHT_QUEUE_ID: queue_offset}
        self.data_version = others.data_version or self.data_version
        self._count_entries()
        self._is_changed = True

    def hold_back(
        self, max_offset: Callable[[str, int], int], known_end: Callable[[str, int], int] = lambda topic, queue_id: 0
    ) -> None:
        """Moves groups back to the ends of their queues (``max_offset`` by topic and queue id; ``known_end`` is that or
        less, and cheap). A power cut may have taken messages that were read and committed, or the file may be about
        another store. The next messages get their offsets and must be read. The broker's own groups are looked after
        where they are used."""
        for table in (self.committed_table, self.pull_table):
            for key, queues in table.items():
                topic, _, group = key.partition(SEPARATOR)
                if group in (TRANSACTION_GROUP, REVIVE_GROUP):
                    continue
                for queue_id, queue_offset in queues.items():
                    if queue_offset > known_end(topic, queue_id) and queue_offset > (
                        end := max_offset(topic, queue_id)
                    ):
                        log.warning("event=offset-held-back group=%s topic=%s queue=%d from=%d to=%d",
                                    group, topic, queue_id, queue_offset, end)  # fmt: skip
                        queues[queue_id] = end
                        self._is_changed = True

    def save(self) -> None:
        """Saves if anything changed since the last time. Committed offsets are saved as they are now: call it between
        rounds, when the kernel has the check points of what was popped. All other work is done in the thread that
        writes them: with 20,000 groups, it would hold up the loop."""
        if self._is_changed:
            self._is_changed = False
            self._files.save_later(self.file_name, self.document(has_light_queues=self._has_light_queues))

    def document(self, *, has_light_queues: bool) -> Callable[[], Document]:
        """A function that makes the file's content, as a broker with or without light queues keeps it, from the
        committed offsets of now. Any thread may call it: it takes long."""
        committed = _copied(self.committed_table)
        return partial(_document, self.data_version, committed, self.pull_table, has_light_queues=has_light_queues)

    # --- commits -----------------------------------------------------------------------------------------------------

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset, or that of a reset that waits; None if nothing was ever committed."""
        key = f"{topic}@{group}"
        if self._resets and (reset := self._resets.get(key, {}).get(queue_id)) is not None:
            return reset
        return self.committed_table.get(key, {}).get(queue_id)

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Raises TableFull if there is no room for one more."""
        if not self._put(self.committed_table, f"{topic}@{group}", queue_id, queue_offset):
            remark = f"{OFFSETS_MAX} offsets are kept, and no more are taken: delete groups that are not used"
            raise TableFull(remark)
        self._commit_count += 1
        if self._commit_count % VERSION_STEP == 0:
            self.data_version = next_version(self.data_version, self._clock_ms())

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Where the group's next pull of the queue will start, judging by its pulls."""
        return self.pull_table.get(f"{topic}@{group}", {}).get(queue_id)

    def set_pull_offset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Does nothing if there is no room for one more."""
        self._put(self.pull_table, f"{topic}@{group}", queue_id, queue_offset)

    def pull_offset_setter(self, group: str, topic: str, queue_id: int) -> Callable[[int], object]:
        """``set_pull_offset`` of one queue, for many offsets."""
        return partial(self._put, self.pull_table, f"{topic}@{group}", queue_id)

    def _put(self, table: dict[str, dict[int, int]], key: str, queue_id: int, queue_offset: int) -> bool:
        """Returns False if there is no room for one more."""
        queues = table.get(key)
        if queues is None or queue_id not in queues:
            if self._entry_count >= OFFSETS_MAX:
                return False
            self._entry_count += 1
            queues = table.setdefault(key, {})
        elif queues[queue_id] == queue_offset:
            return True
        queues[queue_id] = queue_offset
        self._is_changed = True
        return True

    def _count_entries(self) -> None:
        tables = self.committed_table, self.pull_table
        self._entry_count = sum(len(queues) for table in tables for queues in table.values())

    # --- by group, by topic ------------------------------------------------------------------------------------------

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Committed offsets by queue id, maybe none."""
        return self.committed_table.get(f"{topic}@{group}", {})

    def topics_of(self, group: str) -> list[str]:
        end = SEPARATOR + group
        return [key.removesuffix(end) for key in self.committed_table if key.endswith(end)]

    def groups_of(self, topic: str) -> list[str]:
        start = topic + SEPARATOR
        return [key.removeprefix(start) for key in self.committed_table if key.startswith(start)]

    def remove_group(self, group: str) -> None:
        self._remove(lambda key: key.endswith(SEPARATOR + group))

    def remove_topic(self, topic: str) -> None:
        self._remove(lambda key: key.startswith(topic + SEPARATOR))

    def _remove(self, is_meant: Callable[[str], bool]) -> None:
        for table in (self.committed_table, self.pull_table, self._resets):
            for key in [key for key in table if is_meant(key)]:
                del table[key]
        self._count_entries()
        self._is_changed = True

    # --- resets ------------------------------------------------------------------------------------------------------

    def assign_reset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Has the group's next pull of the queue told to go on here. Until then, the group's commits are ignored."""
        self.commit(group, topic, queue_id, queue_offset)
        self._resets.setdefault(f"{topic}@{group}", {})[queue_id] = queue_offset
        self.on_reset()

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return bool(self._resets) and queue_id in self._resets.get(f"{topic}@{group}", {})

    def topics_to_reset(self, group: str) -> list[str]:
        """The topics in which a reset waits for the group."""
        end = SEPARATOR + group
        return [key.removesuffix(end) for key in self._resets if key.endswith(end)]

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset of a reset that waits, which then waits no longer; None if none waits."""
        if not self._resets:
            return None
        key = f"{topic}@{group}"
        queues = self._resets.get(key)
        if queues is None:
            return None
        queue_offset = queues.pop(queue_id, None)
        if not queues:
            del self._resets[key]
        return queue_offset


def _is_light(key: str) -> bool:
    """Whether the key's group is one of light queues."""
    return key.partition(SEPARATOR)[2].startswith(LIGHT_QUEUE_PREFIX)


def _copied(table: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
    return {key: queues.copy() for key, queues in table.items()}


def _document(
    version: DataVersion,
    committed: dict[str, dict[int, int]],
    pulls: dict[str, dict[int, int]],
    *,
    has_light_queues: bool,
) -> Document:
    """The file's content, as a broker with or without light queues keeps it. Any thread: ``committed`` is nobody
    else's, and ``pulls`` does not change while it or a dict in it is copied."""
    groups: dict[str, list[str]] = {}
    kept = {key: queues for key, queues in committed.items() if not _is_light(key)}
    for key in kept:
        topic, _, group = key.partition(SEPARATOR)
        groups.setdefault(group, []).append(topic)
    document: Document = {
        "dataVersion": msgspec.to_builtins(version),
        "groupTopicMap": groups,
        "offsetTable": kept,
        "pullOffsetTable": _copied(pulls.copy()),
    }
    if has_light_queues:
        document["lmqOffsetTable"] = {
            key: queues[LIGHT_QUEUE_ID]
            for key, queues in committed.items()
            if key not in kept and LIGHT_QUEUE_ID in queues
        }
    return document
