"""The groups that a store knows, and their consume progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.stores.inspected import StoreSummary, inventory

if TYPE_CHECKING:
    from rmqserver.store.checks.found_tables import FoundTables
    from rmqserver.store.checks.survey import Survey


class StoredGroupRow(Row, frozen=True):
    group: Annotated[str, doc("consumer group", key=True)]
    topic: Annotated[str | None, doc("topic of which it has offsets; null for a group that has none", key=True)]
    queues: Annotated[int, doc("queues of it with an offset")]
    lag_count: Annotated[int, doc("messages in these behind its offsets", vital=True)]
    known: Annotated[bool, doc("whether subscriptionGroup.json names the group", minor=True)]
    offsets: Annotated[dict[str, int], doc("committed queue offsets by queue id", wide=True)]


class InspectedGroups(Result, frozen=True):
    """With --groups: groups by name, with each topic of theirs."""

    row_type: ClassVar[type[Row]] = StoredGroupRow
    groups: Sequence[StoredGroupRow]
    told: StoreSummary

    def rows(self) -> Sequence[StoredGroupRow]:
        return self.groups

    def summary(self) -> StoreSummary:
        return self.told


def inspected_groups(found: Survey) -> InspectedGroups:
    with inventory(found) as opened:
        queues = opened.queue_rows()
        ends = {(row.topic, row.queue_id): (row.min_offset, row.max_offset) for row in queues}
        return InspectedGroups(_rows(opened.tables, ends), opened.summary(queues))


def _rows(tables: FoundTables, ends: dict[tuple[str, int], tuple[int, int]]) -> list[StoredGroupRow]:
    from rmqserver.store.checks.found_tables import GROUPS

    known = tables.keys(GROUPS) or frozenset()
    rows = []
    for key, offsets in tables.offsets().items():
        topic, _, group = key.partition("@")
        lag_count = 0
        for queue_id, offset in offsets.items():
            first, end = ends.get((topic, queue_id), (0, 0))
            lag_count += max(0, end - max(offset, first))
        by_queue = {str(queue_id): offset for queue_id, offset in sorted(offsets.items())}
        row = StoredGroupRow(
            group=group, topic=topic, queues=len(offsets), lag_count=lag_count, known=group in known, offsets=by_queue
        )  # fmt: skip
        rows.append(row)
    silent = known - {row.group for row in rows}
    rows += [StoredGroupRow(group=name, topic=None, queues=0, lag_count=0, known=True, offsets={}) for name in silent]
    return sorted(rows, key=lambda row: (row.group, row.topic or ""))
