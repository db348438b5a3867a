"""What a start of either broker would make of the commit log: ours by a trial, Apache's by its rules
(``CommitLog.recoverNormally``, ``recoverAbnormally``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rmqproto.errors import StorageError
from rmqserver.store.checks.found_files import FoundFiles
from rmqserver.store.checks.looks.log_walk import LogStretch, Reason
from rmqserver.store.checks.survey import Survey
from rmqserver.store.log.scan import first_record

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
