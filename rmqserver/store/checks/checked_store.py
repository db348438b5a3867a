"""The results of all checks of a store, for the functions that judge them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rmqproto.errors import StorageError
from rmqproto.names import LIGHT_QUEUE_PREFIX
from rmqproto.wording import counted
from rmqserver.store.checks.dry_run import DryRun
from rmqserver.store.checks.finding import FindingKind, Findings, Severity, StoreFinding
from rmqserver.store.checks.found_files import FoundFiles
from rmqserver.store.checks.index_check import IndexCheck
from rmqserver.store.checks.log_check import LogCheck
from rmqserver.store.checks.log_walk import LogStretch, Reason
from rmqserver.store.checks.queue_check import LostMessages, QueueCheck
from rmqserver.store.checks.survey import Survey
from rmqserver.store.log.scan import first_record


@dataclass(slots=True)
class CheckedStore:
    """``ours`` and ``apache``: what a start of either broker makes of the log; ``dry`` is the trial start of ours.
    ``known_topics`` are the topics in topics.json; None if there is no such table."""

    found: Survey
    dry: DryRun
    log: FoundFiles
    records: LogCheck
    queues: QueueCheck
    index: IndexCheck | None
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
    """The start reads records from ``start_offset`` on and dispatches them from ``dispatched_from`` on; the log
    continues at ``end_offset``. Or the broker refuses."""

    start_offset: int = 0
    dispatched_from: int = 0
    end_offset: int = 0
    refusal: str = ""

    def refused(self, otherwise: str) -> str:
        """What the start does: its refusal, or else ``otherwise``."""
        return f"refuses to start: {self.refusal}" if self.refusal else otherwise

    def cuts_at(self, stretch: LogStretch, stretches: Sequence[LogStretch]) -> bool:
        """Whether the log ends because of this stretch: it is the first behind the end."""
        behind = next((each for each in stretches if each.log_offset >= self.end_offset), None)
        return not self.refusal and stretch is behind

    def what_becomes_of(self, stretch: LogStretch, stretches: Sequence[LogStretch]) -> str:
        """What the start does about one of the stretches, in a few words."""
        if self.refusal:
            return self.refused("")
        if stretch.log_offset >= self.end_offset:
            return "cuts the log off here" if self.cuts_at(stretch, stretches) else "cut off with what is before"
        if stretch.log_offset >= self.start_offset:
            return "takes it for a record" if stretch.reason is Reason.PLACE else "reads on behind it"
        return "does not look so far back: it stays"


def ours(refusal: StorageError | None, start_offset: int, end_offset: int) -> LogStart:
    return LogStart(start_offset, start_offset, end_offset, "" if refusal is None else str(refusal))


def apaches(
    found: Survey, log: FoundFiles, stretches: Sequence[LogStretch], end_offset: int, newest_known: int, refusal: str
) -> LogStart:
    """``end_offset``: where the records end; ``newest_known``: the end of the newest record that a consume queue
    knows."""
    if refusal or not log.bases:
        return LogStart(refusal=refusal)
    start = _apache_start(found, log, newest_known)
    ends = [each.log_offset for each in stretches if each.log_offset >= start and each.reason not in _APACHE_READS_ON]
    return LogStart(start, newest_known if found.is_clean else start, min([*ends, end_offset]))


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


def offsets(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


def named_queues(lost: Mapping[tuple[str, int], LostMessages]) -> str:
    """``OrderTopic-3 offsets 5 to 9, OrderTopic-4 offset 7 and 2 more queues``."""
    named = [
        f"{topic}-{queue_id} offset{'' if each.count == 1 else 's'} "
        f"{offsets(each.first_queue_offset, each.last_queue_offset)}"
        for (topic, queue_id), each in lost.items()
    ]
    rest = len(named) - QUEUES_NAMED_MAX
    text = ", ".join(named[:QUEUES_NAMED_MAX])
    return f"{text} and {counted(rest, 'more queue')}" if rest > 0 else text


def message_count(lost: Mapping[tuple[str, int], LostMessages]) -> int:
    """Number of messages, each counted once: a light queue also has units of other topics' messages."""
    plain = sum(each.count for (topic, _), each in lost.items() if not topic.startswith(LIGHT_QUEUE_PREFIX))
    return plain or sum(each.count for each in lost.values())
