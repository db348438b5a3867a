"""The groups that a store knows, and their consume progress."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, ClassVar

from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.stores.inspected import StoreSummary, summary_of

if TYPE_CHECKING:
    from rmqserver.store.checks.found_tables import FoundTables
    from rmqserver.store.checks.inventory import FoundOffset
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
    from rmqserver.store.checks.inventory import inventory

    with inventory(found) as opened:
        queues = opened.queues()
        return InspectedGroups(_rows(opened.tables, opened.offsets(queues)), summary_of(opened, queues))


def _rows(tables: FoundTables, offsets: Sequence[FoundOffset]) -> list[StoredGroupRow]:
    from rmqserver.store.checks.found_tables import GROUPS

    known, rows = tables.keys(GROUPS) or frozenset(), []
    for (group, topic), found in groupby(offsets, lambda one: (one.group, one.topic)):
        of_topic = list(found)
        row = StoredGroupRow(
            group=group, topic=topic, queues=len(of_topic), lag_count=sum(one.lag_count for one in of_topic),
            known=group in known, offsets={str(one.queue_id): one.offset for one in of_topic},
        )  # fmt: skip
        rows.append(row)
    silent = known - {row.group for row in rows}
    rows += [StoredGroupRow(group=name, topic=None, queues=0, lag_count=0, known=True, offsets={}) for name in silent]
    return sorted(rows, key=lambda row: (row.group, row.topic or ""))
