"""What a replay or redrive shows: the plan's ranges, and what a dry run counted or an execution did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from rmqadmin.core.results import TIME, ResultOf, Row, doc
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqreplay.plans.plan import Plan
    from rmqreplay.run.entry import ReplayOutcome


class RangeRow(Row, frozen=True):
    topic: Annotated[str, doc("source topic", key=True)]
    broker_name: Annotated[str, doc("source broker", key=True)]
    queue_id: Annotated[int, doc("source queue id", key=True)]
    start_offset: Annotated[int, doc("first queue offset looked at")]
    end_offset: Annotated[int, doc("queue offset after the last one looked at")]


class ReplayTotals(Row, frozen=True):
    job: Annotated[str, doc("name of the job: what --job and --resume take")]
    executed: Annotated[bool, doc("false after a dry run")]
    target: Annotated[str, doc("topics that messages go to, or the file")]
    selected: Annotated[int, doc("messages selected, by the dry run's count")]
    size_bytes: Annotated[int, doc("bodies and properties of the selected messages")]
    excluded: Annotated[int, doc("left out: redriven by other jobs, or duplicates")]
    directory: Annotated[str, doc("plan and ledger", wide=True)]
    skipped: Annotated[int | None, doc("left out by --transform", sparse=True)] = None
    duplicates: Annotated[int | None, doc("duplicates left out by --dedup", sparse=True)] = None
    topics: Annotated[str | None, doc("messages by target topic, where there are several", sparse=True)] = None
    redriven_by: Annotated[str | None, doc("jobs that sent the messages left out, with counts", sparse=True)] = None
    perhaps_sent: Annotated[
        str | None, doc("jobs of earlier versions that perhaps sent some of them, with counts", sparse=True)
    ] = None
    groups: Annotated[str | None, doc("groups that read the target, and get the messages", sparse=True)] = None
    groups_again: Annotated[
        str | None, doc("those among them that did not fail, and get the messages again", sparse=True)
    ] = None
    would_reject: Annotated[int | None, doc("messages that could not be sent as they are", sparse=True)] = None
    reject_reasons: Annotated[str | None, doc("why they could not be sent", sparse=True)] = None
    oldest_ms: Annotated[int | None, TIME, doc("when the oldest selected message was stored", sparse=True)] = None
    newest_ms: Annotated[int | None, TIME, doc("when the newest selected message was stored", sparse=True)] = None
    tags: Annotated[str | None, doc("tags of the selected messages, with counts", sparse=True)] = None
    estimated_s: Annotated[float | None, doc("seconds that sending takes at --rate", sparse=True)] = None
    delivered: Annotated[int | None, doc("messages at the target now, by the ledger", sparse=True)] = None
    stored: Annotated[int | None, doc("messages sent and acknowledged by this run", sparse=True)] = None
    found: Annotated[int | None, doc("messages that were at the target already, after a fault", sparse=True)] = None
    rejected: Annotated[int | None, doc("messages that the target refuses", sparse=True)] = None
    failures_file: Annotated[str | None, doc("names every rejected message", sparse=True)] = None
    audited: Annotated[int | None, doc("messages that the audit found at the target", sparse=True)] = None
    missing: Annotated[int | None, doc("delivered by the ledger and not found by the audit", sparse=True)] = None
    doubled: Annotated[int | None, doc("copies that the audit found beyond the first", sparse=True)] = None
    seconds: Annotated[float | None, doc("duration of the run", sparse=True)] = None


class Replayed(ResultOf[RangeRow], frozen=True):
    """The plan's ranges, and what a dry run counted or an execution did."""

    plan: Plan
    outcome: ReplayOutcome
    rate: float | None = None

    def rows(self) -> Sequence[RangeRow]:
        return [
            RangeRow(
                topic=each.queue.topic,
                broker_name=each.queue.broker_name,
                queue_id=each.queue.queue_id,
                start_offset=each.start,
                end_offset=each.end,
            )
            for each in self.plan.ranges
        ]

    def summary(self) -> ReplayTotals:
        shown, result = self.plan.shown, self.outcome.result
        target = self.plan.target
        audit = result.audit if result is not None else None
        return ReplayTotals(
            job=self.plan.job,
            executed=result is not None,
            target=target.name if target.kind == "file" else ", ".join(target.topics),
            selected=shown.get("selected", 0),
            size_bytes=shown.get("size_bytes", 0),
            excluded=result.excluded if result is not None else shown.get("excluded", 0),
            skipped=(result.skipped if result is not None else shown.get("skipped")) or None,
            duplicates=shown.get("duplicates") or None,
            topics=_counts(shown.get("topics", {})) if len(target.topics) > 1 else None,
            redriven_by=_counts(shown.get("redriven_by", {})),
            perhaps_sent=_counts(shown.get("perhaps_sent", {})),
            groups=", ".join(shown.get("groups", [])) or None,
            groups_again=", ".join(shown.get("groups_again", [])) or None,
            would_reject=shown.get("would_reject") or None,
            reject_reasons=_counts(shown.get("reject_reasons", {})),
            oldest_ms=shown.get("oldest_ms"),
            newest_ms=shown.get("newest_ms"),
            tags=_counts(shown.get("tags", {})),
            estimated_s=round(shown.get("selected", 0) / self.rate, 1) if self.rate and result is None else None,
            delivered=result.delivered_total if result is not None else None,
            stored=result.stored if result is not None else None,
            found=result.found if result is not None else None,
            rejected=result.rejected if result is not None else None,
            failures_file=result.failures_path if result is not None else None,
            audited=audit.found if audit is not None else None,
            missing=audit.missing if audit is not None else None,
            doubled=audit.doubled if audit is not None else None,
            seconds=round(result.seconds, 1) if result is not None else None,
            directory=self.outcome.directory,
        )

    def problem(self) -> str | None:
        result = self.outcome.result
        if result is None:
            return None
        if result.audit is not None and not result.audit.is_good:
            found = result.audit
            return f"the audit found {found.missing} missing, {found.doubled} doubled, {found.unexpected} unexpected"
        return f"{counted(result.rejected, 'message')} rejected: {result.failures_path}" if result.rejected else None


def _counts(found: dict[str, int]) -> str | None:
    return ", ".join(f"{name or '(none)'} {count}" for name, count in sorted(found.items())) or None
