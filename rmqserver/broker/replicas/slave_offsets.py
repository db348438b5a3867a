"""Offsets at a slave that may act for its master. Consumers commit here while the master is away, and until they hear
that it is back. The slave notes these commits until the master has them; an Apache slave forgets them when it next
copies the master's table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rmqproto.bodies.statistics import ConsumerOffsetsBody
from rmqserver.broker.tables.config_table import from_file, next_version
from rmqserver.broker.tables.offsets import NOTHING, SEPARATOR, ConsumerOffsets

if TYPE_CHECKING:
    from rmqserver.store.disk.config_files import ConfigFiles

NOTED_FILE_NAME = "slaveOffset.json"
"""Has the form of consumerOffset.json. Apache's brokers have no such file."""


class Noted(NamedTuple):
    group: str
    topic: str
    queue_id: int
    queue_offset: int


class SlaveOffsets(ConsumerOffsets):
    """Notes the newest offset that was committed here for each topic, group and queue."""

    def __init__(self, files: ConfigFiles, clock_ms: Callable[[], int], *, has_light_queues: bool = False):
        super().__init__(files, clock_ms, has_light_queues=has_light_queues)
        self._noted: dict[str, dict[int, int]] = {}
        self._are_notes_saved = True

    def load(self) -> None:
        super().load()
        loaded = from_file(self._files.load(NOTED_FILE_NAME), ConsumerOffsetsBody, NOTED_FILE_NAME)
        self._noted = loaded.offset_table

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        super().commit(group, topic, queue_id, queue_offset)
        if not self._noted:
            # An Apache master that comes back takes this table if it is not older than its own.
            newer = next_version(self.data_version, self._clock_ms())
            self.data_version = msgspec.structs.replace(newer, state_version=newer.state_version + 1)
        self._noted.setdefault(f"{topic}{SEPARATOR}{group}", {})[queue_id] = queue_offset
        self._are_notes_saved = False

    def take_over(self, others: ConsumerOffsetsBody) -> None:
        """Takes the master's table as any slave does, but keeps noted offsets that are further."""
        super().take_over(others)
        for key, queues in self._noted.items():
            table = self.committed_table.setdefault(key, {})
            for queue_id, queue_offset in queues.items():
                table[queue_id] = max(queue_offset, table.get(queue_id, NOTHING))
        self._count_entries()

    def ahead_of(self, others: ConsumerOffsetsBody, max_offset: Callable[[str, int], int]) -> Iterator[Noted]:
        """Noted offsets that are further than the master's. No consumer can have read past the end of a queue here
        (``max_offset`` by topic and queue id), so a note beyond it is set back to that end: if the master has lost that
        message, too, another one takes its place."""
        for key, queues in list(self._noted.items()):
            topic, _, group = key.partition(SEPARATOR)
            theirs = others.offset_table.get(key, {})
            for queue_id, queue_offset in list(queues.items()):
                if queue_offset <= theirs.get(queue_id, NOTHING):
                    continue
                bounded = queues[queue_id] = min(queue_offset, max_offset(topic, queue_id))
                if bounded > theirs.get(queue_id, NOTHING):
                    yield Noted(group, topic, queue_id, bounded)

    def forget_until(self, others: ConsumerOffsetsBody) -> None:
        """Forgets notes that are not further than ``others``, which the master has."""
        for key, queues in list(self._noted.items()):
            theirs = others.offset_table.get(key, {})
            for queue_id, queue_offset in list(queues.items()):
                if queue_offset <= theirs.get(queue_id, NOTHING):
                    del queues[queue_id]
                    self._are_notes_saved = False
            if not queues:
                del self._noted[key]

    def drop_notes(self) -> None:
        """Drops all notes: the master must get none of them."""
        self._are_notes_saved = self._are_notes_saved and not self._noted
        self._noted.clear()

    def save(self) -> None:
        super().save()
        if not self._are_notes_saved:
            self._are_notes_saved = True
            self._files.save(NOTED_FILE_NAME, {"offsetTable": {key: dict(each) for key, each in self._noted.items()}})


def forget_notes(files: ConfigFiles) -> None:
    """Drops the saved notes of a broker that is no longer a slave: they must not count if it becomes one again."""
    if files.load(NOTED_FILE_NAME).get("offsetTable"):
        files.save(NOTED_FILE_NAME, {"offsetTable": {}})
