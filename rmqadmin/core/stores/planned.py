"""What a start would change in a store: one row per change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from rmqadmin.core.results import TIME, FoundRows, Row, doc
from rmqproto.errors import StorageError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqserver.store.checks.survey import Survey


class PlannedChangeRow(Row, frozen=True):
    part: Annotated[str, doc("commit log, consume queue, index, timers, checkpoint, tables", key=True)]
    action: Annotated[str, doc("what a start does there", key=True)]
    path: Annotated[str, doc("file, below the store's directory", key=True)]
    count: Annotated[int, doc("how many records, units or entries")]
    lost_messages: Annotated[int, doc("messages that are lost by this")]
    begin: Annotated[
        int | None, doc("where it begins: a log offset, a queue offset, or the number of an entry", minor=True)
    ]
    end: Annotated[int | None, doc("where it ends", minor=True)]
    size_bytes: Annotated[int, doc("bytes that are written, cut off or removed", minor=True)]
    what: Annotated[str, doc("details", minor=True)]
    oldest_ms: Annotated[int | None, TIME, doc("when the oldest message cut off was stored", wide=True)]
    newest_ms: Annotated[int | None, TIME, doc("when the newest message cut off was stored", wide=True)]


class StartSummary(Row, frozen=True):
    store: Annotated[str, doc("directory")]
    was_clean: Annotated[bool | None, doc("whether the last broker had stopped cleanly")]
    read_from_offset: Annotated[int | None, doc("log offset from which records are read")]
    records_read: Annotated[int | None, doc("how many records are read")]
    log_end_offset: Annotated[int | None, doc("log offset where the next record goes")]
    lost_messages: Annotated[int, doc("messages that are cut off with the end of the log")]
    units_made: Annotated[int, doc("units of consume queues that are made from the log")]
    index_entries_made: Annotated[int, doc("entries of the index that are made from the log")]
    timers_waiting: Annotated[int | None, doc("timer messages that wait after the start")]
    said: Annotated[list[str] | None, doc("warnings about damage that the server would log", sparse=True)]


class StartPlan(FoundRows[PlannedChangeRow], frozen=True):
    """The changes in the order of the parts."""

    told: StartSummary
    refusal: str | None

    def summary(self) -> StartSummary:
        return self.told

    def remark(self) -> str | None:
        """What people want to know first, as text."""
        if self.refusal is not None:
            return None

        told = self.told
        made = [
            counted(told.units_made, "unit of consume queues", "units of consume queues"),
            counted(told.index_entries_made, "entry of the index", "entries of the index"),
        ]
        lost = counted(told.lost_messages, "message") if told.lost_messages else "no message"
        return f"a start loses {lost}, and makes {' and '.join(made)} from the log; nothing was changed now"

    def problem(self) -> str | None:
        return None if self.refusal is None else f"a broker would refuse to start: {self.refusal}"


def start_plan(found: Survey, on_work: Callable[[], None]) -> StartPlan:
    from rmqserver.store.checks.dry_run import DryRun
    from rmqserver.store.checks.start_plan import ADD_UNITS, ChangedPart, PlannedChange, planned_changes

    with DryRun(found.root, found.options, found.timer_options, found.disk, on_work=on_work) as dry:
        changes: list[PlannedChange] = []
        refusal = dry.refusal
        try:
            changes.extend(planned_changes(found, dry))
        except StorageError as error:  # from what a broker does after the store itself has started
            refusal = refusal or error
        recovered = dry.recovered
        told = StartSummary(
            store=found.root,
            was_clean=found.is_clean,
            read_from_offset=recovered.start_offset if recovered is not None else None,
            records_read=recovered.replayed_count if recovered is not None else None,
            log_end_offset=recovered.end_offset if recovered is not None else None,
            lost_messages=sum(each.lost_messages for each in changes),
            units_made=sum(each.count for each in changes if each.action == ADD_UNITS),
            index_entries_made=sum(each.count for each in changes if each.part is ChangedPart.INDEX),
            timers_waiting=dry.timers.waiting_count if dry.timers is not None else None,
            said=dry.said or None,
        )
    rows = [
        PlannedChangeRow(
            part=str(each.part),
            action=each.action,
            path=each.path,
            count=each.count,
            lost_messages=each.lost_messages,
            begin=each.begin,
            end=each.end,
            size_bytes=each.size_bytes,
            what=each.what,
            oldest_ms=each.begin_ms,
            newest_ms=each.end_ms,
        )
        for each in changes
    ]
    return StartPlan(rows, told, None if refusal is None else str(refusal))
