"""The results of all checks of a store, for the functions that judge them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rmqserver.store.checks.dry_run import DryRun
from rmqserver.store.checks.findings.finding import FindingKind, Findings, Severity, StoreFinding
from rmqserver.store.checks.findings.starts import LogStart
from rmqserver.store.checks.found_files import FoundFiles
from rmqserver.store.checks.looks.index_check import IndexCheck
from rmqserver.store.checks.looks.log_check import LogCheck
from rmqserver.store.checks.looks.queue_check import QueueCheck
from rmqserver.store.checks.survey import Survey


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
        self, severity: Severity, kind: FindingKind, what: str, path: str, at: int | None = None, **more: Any
    ) -> None:
        """A finding in the file ``path``, below the root."""
        self.findings.add(StoreFinding(severity=severity, kind=kind, what=what, path=path, at=at, **more))

    def add_of_log(self, severity: Severity, kind: FindingKind, what: str, log_offset: int, **more: Any) -> None:
        """A finding at a place of the commit log."""
        base = self.log.base_of(log_offset)
        path = self.found.below(self.log.path(base))
        self.add(severity, kind, what, path, log_offset - base, log_offset=log_offset, **more)
