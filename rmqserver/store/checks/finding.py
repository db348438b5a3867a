"""What a check of a store can find: kinds, severities, and the content of a finding."""

from __future__ import annotations

import enum

import msgspec


class Severity(enum.StrEnum):
    """NOTE: a fact about the store, nothing is wrong. WARNING: a start repairs it, or it does no harm. ERROR: messages
    are lost or out of reach, or no broker starts."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FindingKind(enum.StrEnum):
    """The value is the name that scripts see; the text behind it tells what it means."""

    description: str

    def __new__(cls, value: str, description: str) -> FindingKind:
        found = str.__new__(cls, value)
        found._value_ = value
        found.description = description
        return found

    FILE_SIZE = "file-size", "a file has another size than the others of its kind"
    FILE_MISSING = "file-missing", "a file between others is not there"
    FILE_STRAY = "file-stray", "a file that belongs to no store lies among those that do"

    LOG_DAMAGE = "log-damage", "bytes of the commit log from which no record can be taken, with records behind them"
    LOG_TAIL = "log-tail", "bytes behind the last record of the commit log that are not one"
    LOG_LOST = "log-lost", "the commit log ends before something that was flushed"
    RECORD_TORN = "record-torn", "the properties of a record have zeros in them: they were not written whole"
    RECORD_PROPERTIES = "record-properties", "the properties of a record are not as any broker writes them"
    RECORD_TIME = "record-time", "the store times of the log go back, or lie far from those around them"
    RECORD_FLAGS = "record-flags", "a record has flags that no broker sets"

    QUEUE_DIFFERS = "queue-differs", "a consume queue is not as the log says"
    TOPIC_DELETED = "topic-deleted", "messages of a topic that was deleted lie in the log until they expire"

    INDEX_DIFFERS = "index-differs", "the index is not as the log says"
    INDEX_COUNTS = "index-counts", "nothing tells how many slots the index files have"

    UNCLEAN = "unclean", "no broker has stopped on this store since one started"
    IN_USE = "in-use", "a broker is running on this store"
    FLUSH_FAILED = "flush-failed", "a flush failed: what was written then may not be on the device"
    CHECKPOINT = "checkpoint", "the checkpoint is missing, short, or speaks of what is not there"

    TABLE_DAMAGED = "table-damaged", "a table below config/ cannot be read"
    TABLE_OFFSET = "table-offset", "a table has an offset that its queue has not"
    TABLE_TOPIC = "table-topic", "a queue has messages of a topic that no table names"

    TIMERS_DIFFER = "timers-differ", "the timer wheel and its log are not as the commit log says"
    TIMER_CHECK = "timer-check", "config/timercheck speaks of what is not there"

    EPOCHS = "epochs", "the epochs of a broker of a set cannot be read, or speak of what is not there"
    IDENTITY = "identity", "which broker of its set this is cannot be read"
    SEQUENCES = "sequences", "the table of producers' numbers cannot be read"

    NOT_CHECKED = "not-checked", "what a broker reads and was not looked at here, and why"
    STRANGER = "stranger", "no broker reads such a file here"
    SIZES = "sizes", "the store was made with other file sizes than a broker's defaults"


class StoreFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding. ``path`` is relative to the store's root, ``at`` a byte in that file. Offsets and times that do not
    apply are None. ``count`` is the number of messages, or of steps back in time. ``ours`` and ``apache`` tell what
    a start of either broker would do about it."""

    severity: Severity
    kind: FindingKind
    what: str
    path: str
    at: int | None = None
    log_offset: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    count: int = 1
    lost_messages: int = 0
    begin_ms: int | None = None
    end_ms: int | None = None
    ours: str = ""
    apache: str = ""

    @property
    def is_damage(self) -> bool:
        return self.severity is not Severity.NOTE


FINDINGS_OF_A_KIND_MAX = 1000
"""Findings kept of one kind; more are only counted. One damaged file may hold a million."""


class Findings:
    """Everything found so far, in the order of the checks."""

    def __init__(self) -> None:
        self.all: list[StoreFinding] = []
        self.left_out: dict[FindingKind, int] = {}
        self._counts: dict[FindingKind, int] = {}

    def add(self, finding: StoreFinding) -> None:
        count = self._counts[finding.kind] = self._counts.get(finding.kind, 0) + 1
        if count <= FINDINGS_OF_A_KIND_MAX:
            self.all.append(finding)
        else:
            self.left_out[finding.kind] = self.left_out.get(finding.kind, 0) + 1
