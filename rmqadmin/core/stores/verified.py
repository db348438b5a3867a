"""What a check of a store has found: one row per finding, and what was checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from rmqadmin.core import units
from rmqadmin.core.results import TIME, ResultOf, Row, doc, row_of
from rmqadmin.core.terminal_text import wrapped_lines
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqserver.store.checks.finding import StoreFinding
    from rmqserver.store.checks.store_check import CheckReport, Progress
    from rmqserver.store.found.survey import Survey

_INDENT = 9


class FindingRow(Row, frozen=True):
    severity: Annotated[str, doc("error: messages are lost, or no broker starts; warning; note", key=True)]
    what: Annotated[str, doc("what is wrong", vital=True)]
    path: Annotated[str, doc("file, below the store's directory", key=True)]
    ours: Annotated[str, doc("what a start of rmqserver does about it", minor=True)]
    apache: Annotated[str, doc("what a start of Apache's broker 5.5.0 does about it", minor=True)]
    at_byte: Annotated[int | None, doc("position in the file, in bytes", vital=True)]
    lost_messages: Annotated[int, doc("messages that are lost by it", vital=True)]
    kind: Annotated[str, doc("what kind of finding it is", minor=True)]
    log_offset: Annotated[int | None, doc("place in the commit log", wide=True)]
    topic: Annotated[str | None, doc("topic", wide=True)]
    queue_id: Annotated[int | None, doc("queue id", wide=True)]
    queue_offset: Annotated[int | None, doc("first queue offset that is concerned", wide=True)]
    count: Annotated[int, doc("how many messages, or steps back in time, are concerned", wide=True)]
    oldest_ms: Annotated[int | None, TIME, doc("when the oldest message concerned was stored", wide=True)]
    newest_ms: Annotated[int | None, TIME, doc("when the newest message concerned was stored", wide=True)]


class VerifySummary(Row, frozen=True):
    store: Annotated[str, doc("directory")]
    verdict: Annotated[str, doc("clean or damaged; of what was looked at")]
    errors: Annotated[int, doc("findings that lose messages, or keep brokers from starting")]
    warnings: Annotated[int, doc("findings that a start mends, or that harm nobody")]
    notes: Annotated[int, doc("other findings; --all shows them")]
    lost_messages: Annotated[int, doc("messages that are lost by it")]
    not_checked: Annotated[list[str] | None, doc("parts that a broker reads and that were not checked", sparse=True)]
    log_bytes: Annotated[int, doc("bytes of the commit log that were read")]
    records: Annotated[int, doc("records of the commit log that were read")]
    queue_units: Annotated[int, doc("units of consume queues that were compared with the records")]
    index_entries: Annotated[int, doc("entries of the index that were compared with the records")]
    tables: Annotated[int, doc("tables below config/ that were read")]
    duration_ms: Annotated[int, doc("how long it took")]
    more: Annotated[dict[str, int] | None, doc("findings of a kind that are too many to be shown", sparse=True)]


class VerifiedStore(ResultOf[FindingRow], frozen=True):
    """The findings, the worst first."""

    root: str
    report: Any
    shows_notes: bool

    def _findings(self) -> list[StoreFinding]:
        from rmqserver.store.checks.finding import Severity

        order = list(Severity)
        report: CheckReport = self.report
        shown = [each for each in report.findings if self.shows_notes or each.severity is not Severity.NOTE]
        return sorted(shown, key=lambda each: order.index(each.severity))

    def rows(self) -> Sequence[FindingRow]:
        return [
            row_of(
                FindingRow,
                each,
                severity=str(each.severity),
                kind=str(each.kind),
                at_byte=each.at,
                oldest_ms=each.begin_ms,
                newest_ms=each.end_ms,
            )
            for each in self._findings()
        ]

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str] | None:
        """Text in place of a table at a terminal: findings are sentences, which a table would cut off."""
        return None if width is None else self._lines(width, now_ms)

    def _lines(self, width: int, now_ms: int | None) -> Iterator[str]:
        for each in self._findings():
            at = "" if each.at is None else f", byte {units.count(each.at)}"
            place = f"{each.path}{at}: " if each.path else ""
            yield from wrapped_lines(f"{each.severity:{_INDENT}}{place}{each.what}", width, _INDENT)
            for line in filter(None, (_lost(each, now_ms), _becomes(each))):
                yield from wrapped_lines(f"{'':{_INDENT}}{line}", width, _INDENT)
        told = self.summary()
        found = ((told.errors, "error"), (told.warnings, "warning"), (told.notes, "note"))
        counts = ", ".join(counted(*each) for each in found)
        yield f"Verdict: {told.verdict}\n"
        yield f"Found: {counts}; lost: {counted(told.lost_messages, 'message')}\n"
        if told.not_checked:
            yield from wrapped_lines(f"Not checked: {', '.join(told.not_checked)}", width, _INDENT)
        read = (
            f"Read: {units.size(told.log_bytes)} of log with {units.count(told.records)} records, "
            f"{units.count(told.queue_units)} queue units, {units.count(told.index_entries)} index entries, "
            f"{units.count(told.tables)} tables"
        )
        yield from wrapped_lines(read, width, _INDENT)
        for kind, count in (told.more or {}).items():
            yield f"And {units.count(count)} more of {kind}.\n"

    def summary(self) -> VerifySummary:
        from rmqserver.store.checks.finding import FindingKind, Severity

        report: CheckReport = self.report
        not_checked = {each.path: None for each in report.findings if each.kind is FindingKind.NOT_CHECKED}
        return VerifySummary(
            store=self.root,
            verdict="damaged" if report.is_damaged else "clean",
            errors=report.count(Severity.ERROR),
            warnings=report.count(Severity.WARNING),
            notes=report.count(Severity.NOTE),
            lost_messages=report.lost_message_count,
            not_checked=list(not_checked) or None,
            log_bytes=report.log_bytes,
            records=report.record_count,
            queue_units=report.unit_count,
            index_entries=report.entry_count,
            tables=report.table_count,
            duration_ms=round(1000 * report.duration_s),
            more={str(kind): count for kind, count in report.left_out.items()} or None,
        )

    def damage(self) -> str | None:
        if not self.report.is_damaged:
            return None

        told = self.summary()
        return f"{self.root} is damaged: {counted(told.errors, 'error')}, {counted(told.warnings, 'warning')}"


def _lost(finding: StoreFinding, now_ms: int | None) -> str:
    if not finding.lost_messages:
        return ""
    said = f"lost: {counted(finding.lost_messages, 'message')}"
    times = [ms for ms in (finding.begin_ms, finding.end_ms) if ms is not None]
    if not times:
        return said
    told = dict.fromkeys(units.moment(ms) if now_ms is None else units.age(ms, now_ms) for ms in times)
    return f"{said}, stored {' to '.join(told)}"


def _becomes(finding: StoreFinding) -> str:
    """What a broker does about the finding when it starts."""
    if finding.ours == finding.apache:
        return finding.ours and f"a start: {finding.ours}"
    both = (("rmqserver", finding.ours), ("Apache's broker", finding.apache))
    return "; ".join(f"a start of {who}: {does}" for who, does in both if does)


def verified(found: Survey, on_progress: Progress, *, shows_notes: bool) -> VerifiedStore:
    """Checks the store, again if a running broker has meanwhile made the first files of a kind: only these tell their
    size."""
    from rmqserver.store.checks.store_check import check_store
    from rmqserver.store.found.survey import survey

    report = check_store(found, on_progress)
    while found.is_in_use and (now := survey(found.root, found.disk)).options != found.options:
        found, report = now, check_store(now, on_progress)
    return VerifiedStore(found.root, report, shows_notes)
