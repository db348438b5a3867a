"""A redrive of individually chosen dead letters: what would be sent where, and the outcome of each. It works as ``dlq
redrive`` does, with the same plan, ledger, permits and audit, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from rmqadmin.core.messages.dead_letters import Place, place_of
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.results import SENT_UNTOLD, TIME, FoundRows, ResultOf, Row, doc
from rmqproto.message import properties as props
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqadmin.core.contexts.settings import Access
    from rmqreplay.plans.plan import Plan
    from rmqreplay.plans.request import ReplayRequest
    from rmqreplay.run.entry import ReplayOutcome
    from rmqreplay.run.job import Hooks
    from rmqreplay.source.offset_ranges import OffsetSet


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

    def stopped_by(self, error: BaseException) -> str | None:
        return SENT_UNTOLD if self.outcome.result is not None else None

    def summary(self) -> ReplayTotals:
        shown, result = self.plan.shown, self.outcome.result
        target = self.plan.target
        values: dict[str, Any] = {name: shown.get(name, 0) for name in ("selected", "size_bytes", "excluded")}
        values |= {name: shown.get(name) or None for name in ("skipped", "duplicates", "would_reject")}
        values |= {name: shown.get(name) for name in ("oldest_ms", "newest_ms")}
        values |= {name: ", ".join(shown.get(name, [])) or None for name in ("groups", "groups_again")}
        counts = ("redriven_by", "perhaps_sent", "reject_reasons", "tags")
        values |= {name: _counts(shown.get(name, {})) for name in counts}
        if len(target.topics) > 1:
            values["topics"] = _counts(shown.get("topics", {}))
        if result is None:
            values["estimated_s"] = round(values["selected"] / self.rate, 1) if self.rate else None
        else:
            values |= {
                "excluded": result.excluded, "skipped": result.skipped or None, "delivered": result.delivered_total,
                "stored": result.stored, "found": result.found, "rejected": result.rejected,
                "failures_file": result.failures_path, "seconds": round(result.seconds, 3),
            }  # fmt: skip
            if (audit := result.audit) is not None:
                values |= {"audited": audit.found, "missing": audit.missing, "doubled": audit.doubled}
        return ReplayTotals(
            job=self.plan.job,
            executed=result is not None,
            target=target.name if target.kind == "file" else ", ".join(target.topics),
            directory=self.outcome.directory,
            **values,
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


REDRIVES_MAX = 3
"""A dead letter that was redriven this often is rejected by default."""

SENT = "sent"
LEFT_OUT = "left out: redriven before, or gone"
NOT_CONFIRMED = "not confirmed yet"
"""Outcomes. A letter that is not confirmed may have been sent: a redrive that is resumed looks for it first."""


class RedrivenLetter(Row, frozen=True):
    message_id: Annotated[str, doc("unique key, made by the producer", key=True)]
    keys: Annotated[str | None, doc("keys, separated by blanks")]
    broker_name: Annotated[str, doc("broker that stores it", minor=True)]
    queue_id: Annotated[int, doc("queue of the dead-letter topic", minor=True)]
    queue_offset: Annotated[int, doc("its place in the queue", minor=True)]
    target: Annotated[str | None, doc("topic that it goes to", vital=True)]
    outcome: Annotated[str, doc("what would become of it, or did", vital=True)]


class RedrivenLetters(FoundRows[RedrivenLetter], frozen=True):
    """The chosen dead letters, each with what becomes of it. ``stopped``: why the redrive stopped on the way."""

    replayed: Replayed
    stopped: str | None = None

    def summary(self) -> ReplayTotals:
        return self.replayed.summary()

    def problem(self) -> str | None:
        return self.stopped or self.replayed.problem()

    @property
    def sent_count(self) -> int:
        """How many have been sent, by the ledger."""
        return sum(letter.outcome == SENT for letter in self.found)


def chosen_letters(
    name_server: str,
    group: str,
    letters: Sequence[FoundMessage],
    *,
    to: str,
    rate: float | None,
    command: str,
    access: Access,
) -> ReplayRequest:
    """A request that redrives these dead letters of a group to where ``--to`` of ``dlq redrive`` says, with its default
    guards. It names them by offset id, because copies of one message share its unique key."""
    from rmqreplay.plans.plan import Selection, Transform, wave_messages_for
    from rmqreplay.plans.request import ReplayRequest
    from rmqreplay.source.offset_ranges import OffsetRange, hulls

    # From the first to the last of the letters of each queue, so that little else is read.
    offsets = hulls(OffsetRange(queue, at, at + 1) for queue, at in map(place_of, letters))
    return ReplayRequest(
        name_server=name_server,
        dlq_group=group,
        offsets=offsets,
        to=to,
        selection=Selection(ids=sorted(letter.stored.message_id for letter in letters)),
        transform=Transform(redrives_max=REDRIVES_MAX),
        wave_messages=wave_messages_for(rate),
        command=command,
        **access,
    )


def plan_letters(request: ReplayRequest, letters: Sequence[FoundMessage], rate: float | None) -> RedrivenLetters:
    """What would be sent where. Nothing is sent; the plan is kept under the name of its job. Errors are those of
    ``rmqreplay.run.entry.redrive``."""
    from rmqreplay.run.entry import Runner, redrive
    from rmqreplay.run.job import RunOptions

    run = RunOptions(rate=rate, credentials=request.credentials, tls=request.tls, address_map=request.address_map)
    runner = Runner(run=run, sample=len(letters))
    outcome = redrive(request, runner)
    shown = outcome.plan.shown
    targets = {each["from"]: each["to"] for each in shown["samples"]}
    refused = _remarks(shown["rejections"])
    rows = []
    for letter in letters:
        place = _place_text(place_of(letter))
        remark = refused.get(place)
        if remark is not None:
            rows.append(_row(letter, None, f"would be rejected: {remark}"))
        elif place in targets:
            rows.append(_row(letter, targets[place], "would be sent"))
        else:
            rows.append(_row(letter, None, LEFT_OUT))
    return RedrivenLetters(rows, Replayed(outcome.plan, outcome, rate))


def send_letters(
    planned: RedrivenLetters,
    letters: Sequence[FoundMessage],
    hooks: Hooks,
    access: Access,
) -> RedrivenLetters:
    """Sends as planned, or resumes. Errors are those of ``redrive``; ``letters_so_far`` says what was sent before."""
    from rmqreplay.ledger.ledger import read_ledger
    from rmqreplay.run.entry import Runner, redrive
    from rmqreplay.run.job import RunOptions

    job, rate = planned.replayed.plan.job, planned.replayed.rate
    run = RunOptions(rate=rate, **access)
    resumes = read_ledger(planned.replayed.outcome.directory).begin is not None
    outcome = redrive(None, Runner(run=run, hooks=hooks), execute=not resumes, resume=resumes, job=job)
    delivered = read_ledger(outcome.directory).delivered()
    path, failures = outcome.result.failures_path if outcome.result is not None else None, []
    if path is not None and os.path.exists(path):
        with open(path, "rb") as file:
            failures = [msgspec.json.decode(line) for line in file]
    refused = _remarks(failures)

    def not_sent(letter: FoundMessage, before: RedrivenLetter) -> RedrivenLetter:
        remark = refused.get(_place_text(place_of(letter)))
        return _row(letter, None, LEFT_OUT) if remark is None else _row(letter, before.target, f"rejected: {remark}")

    return RedrivenLetters(_outcomes(planned, letters, delivered, not_sent), Replayed(outcome.plan, outcome, rate))


def letters_so_far(planned: RedrivenLetters, letters: Sequence[FoundMessage], stopped: str) -> RedrivenLetters | None:
    """The letters when a redrive has stopped on the way because of ``stopped``; None if it had not begun."""
    from rmqreplay.ledger.ledger import read_ledger

    ledger = read_ledger(planned.replayed.outcome.directory)
    if ledger.begin is None:
        return None

    def not_sent(letter: FoundMessage, before: RedrivenLetter) -> RedrivenLetter:
        return _row(letter, before.target, before.outcome if before.target is None else NOT_CONFIRMED)

    return RedrivenLetters(_outcomes(planned, letters, ledger.delivered(), not_sent), planned.replayed, stopped)


def _outcomes(
    planned: RedrivenLetters,
    letters: Sequence[FoundMessage],
    delivered: OffsetSet,
    not_sent: Callable[[FoundMessage, RedrivenLetter], RedrivenLetter],
) -> list[RedrivenLetter]:
    """What became of each letter. ``not_sent`` says it for one that is not delivered."""
    return [
        _row(letter, before.target, SENT) if place_of(letter) in delivered else not_sent(letter, before)
        for letter, before in zip(letters, planned.found, strict=True)
    ]


def _remarks(failures: Sequence[dict[str, Any]]) -> dict[str, str]:
    return {f"{each['queue']}@{each['queue_offset']}": each["remark"] for each in failures}


def _place_text(place: Place) -> str:
    """A message's origin as the samples of a plan write it."""
    from rmqreplay.source.offset_ranges import queue_text

    queue, queue_offset = place
    return f"{queue_text(queue)}@{queue_offset}"


def _row(letter: FoundMessage, target: str | None, outcome: str) -> RedrivenLetter:
    stored = letter.stored
    return RedrivenLetter(
        message_id=letter.message_id,
        keys=letter.properties.get(props.KEYS),
        broker_name=letter.broker_name,
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        target=target,
        outcome=outcome,
    )
