"""What the functions that judge a store have in common: where findings go, and what a start makes of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rmqproto.names import LIGHT_QUEUE_PREFIX
from rmqproto.wording import counted
from rmqserver.store.checks.dry_run import DryRun
from rmqserver.store.checks.finding import FindingKind, Findings, Severity, StoreFinding
from rmqserver.store.checks.log_walk import LogStretch, Reason
from rmqserver.store.found.found_files import FoundFiles
from rmqserver.store.found.survey import Survey
from rmqserver.store.log.scan import first_record


@dataclass(slots=True)
class CheckedStore:
    """``ours`` and ``apache``: what a start of either broker makes of the log; ``dry`` is the trial start of ours.
    ``known_topics`` are the topics in topics.json; None if there is no such table."""

    found: Survey
    dry: DryRun
    log: FoundFiles
    ours: LogStart
    apache: LogStart
    known_topics: frozenset[str] | None
    findings: Findings = field(default_factory=Findings)

    def add(
        self,
        severity: Severity,
        kind: FindingKind,
        what: str,
        path: str,
        at: int | None = None,
        *,
        becomes: str | tuple[str, str] = "",
        **more: Any,
    ) -> None:
        """A finding in the file ``path``, below the root. ``becomes``: what a start of either broker does about it, or
        of ours and of Apache's, unless it refuses."""
        if becomes:
            ours, apache = (becomes, becomes) if isinstance(becomes, str) else becomes
            more |= {"ours": self.ours.refused(ours), "apache": self.apache.refused(apache)}
        self.findings.add(StoreFinding(severity=severity, kind=kind, what=what, path=path, at=at, **more))

    def add_of_log(self, severity: Severity, kind: FindingKind, what: str, log_offset: int, **more: Any) -> None:
        """A finding at a place of the commit log."""
        base = self.log.base_of(log_offset)
        path = self.found.below(self.log.path(base))
        self.add(severity, kind, what, path, log_offset - base, log_offset=log_offset, **more)


APACHE_FILES_READ_MAX = 10
"""``commitLogRecoverMaxNum``: Apache's broker starts reading at most this many files back."""

_APACHE_READS_ON = frozenset({Reason.PLACE, Reason.NO_FILE})
"""Apache's broker does not compare a record's own offset, and continues with the next existing file."""


@dataclass(frozen=True, slots=True)
class LogStart:
    """The start reads records from ``start_offset`` on, and the log continues at ``end_offset``. Or the broker
    refuses."""

    start_offset: int = 0
    end_offset: int = 0
    refusal: str = ""

    def refused(self, otherwise: str) -> str:
        """What the start does: its refusal, or else ``otherwise``."""
        return f"refuses to start: {self.refusal}" if self.refusal else otherwise

    def what_becomes_of(self, stretch: LogStretch, stretches: Sequence[LogStretch], records_end: int) -> str:
        """What the start does about one of the stretches, in a few words. ``records_end`` is behind the last record."""
        if self.refusal:
            return self.refused("")
        if stretch.log_offset >= self.end_offset:
            if stretch is not next(each for each in stretches if each.log_offset >= self.end_offset):
                return "cut off with what is before"
            behind = records_end - stretch.end_offset
            return "cuts the log off here" + (f", with {counted(behind, 'byte')} of records behind it" * (behind > 0))
        if stretch.log_offset >= self.start_offset:
            return "takes it for a record" if stretch.reason is Reason.PLACE else "reads on behind it"
        return "does not look so far back: it stays"


def ours(dry: DryRun) -> LogStart:
    if dry.recovered is None:
        return LogStart(refusal=str(dry.refusal))
    return LogStart(dry.recovered.start_offset, dry.recovered.end_offset)


def apaches(
    found: Survey, log: FoundFiles, stretches: Sequence[LogStretch], end_offset: int, newest_known: int, refusal: str
) -> LogStart:
    """``end_offset``: where the records end; ``newest_known``: the end of the newest record that a consume queue
    knows."""
    if refusal or not log.bases:
        return LogStart(refusal=refusal)
    start = _apache_start(found, log, newest_known)
    ends = [each.log_offset for each in stretches if each.log_offset >= start and each.reason not in _APACHE_READS_ON]
    return LogStart(start, min([*ends, end_offset]))


def _apache_start(found: Survey, log: FoundFiles, newest_known: int) -> int:
    checkpoint = found.checkpoint
    for at, base in enumerate(reversed(log.bases), 1):
        if at == len(log.bases) or at == APACHE_FILES_READ_MAX:
            return base
        first = first_record(log, base) if log.read(base, 8) else None
        if first is None or not first.store_timestamp_ms:
            continue
        if found.is_clean:
            is_known = first.log_offset <= newest_known
        elif checkpoint.queues_log_offset:
            is_known = first.log_offset <= checkpoint.queues_log_offset
        else:
            is_known = first.store_timestamp_ms <= checkpoint.queues_timestamp_ms
        if is_known:
            return base
    return log.min_offset


QUEUES_NAMED_MAX = 3


@dataclass(slots=True)
class LostMessages:
    """Lost messages of one queue, in one stretch of the log."""

    first_queue_offset: int
    last_queue_offset: int
    count: int = 0

    def __str__(self) -> str:
        if self.count == 1:
            return f"offset {self.first_queue_offset}"
        return f"offsets {self.first_queue_offset} to {self.last_queue_offset}"


def note_lost(lost: dict[tuple[str, int], LostMessages], topic: str, queue_id: int, queue_offset: int) -> None:
    """Counts one more, by topic and queue id; each queue's come in order."""
    found = lost.setdefault((topic, queue_id), LostMessages(queue_offset, queue_offset))
    found.last_queue_offset = queue_offset
    found.count += 1


def named_queues(lost: Mapping[tuple[str, int], LostMessages]) -> str:
    """``OrderTopic-3 offsets 5 to 9, OrderTopic-4 offset 7 and 2 more queues``."""
    named = [f"{topic}-{queue_id} {each}" for (topic, queue_id), each in lost.items()]
    rest = len(named) - QUEUES_NAMED_MAX
    text = ", ".join(named[:QUEUES_NAMED_MAX])
    return f"{text} and {counted(rest, 'more queue')}" if rest > 0 else text


def message_count(lost: Mapping[tuple[str, int], LostMessages]) -> int:
    """Number of messages, each counted once: a light queue also has units of other topics' messages."""
    plain = sum(each.count for (topic, _), each in lost.items() if not topic.startswith(LIGHT_QUEUE_PREFIX))
    return plain or sum(each.count for each in lost.values())
