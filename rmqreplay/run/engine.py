"""The interface of the engine that reads and sends a job's messages: Spark for large volumes (``spark_engine.py``), or
this process for small redrives (``local_engine.py``). Plan, ledger, permits and audit are the same for both. With it,
the input and the reports of a wave's tasks: plain data that travels between driver and tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from rmqreplay.ledger.ledger import Fence
from rmqreplay.ledger.letters import Place, Runs, Witness, marked_runs, unmarked
from rmqreplay.plans.plan import Plan, TargetRule, Transform
from rmqreplay.sending.delivery import DeliveryReport, Rejected
from rmqreplay.sending.permit_service import Address
from rmqreplay.source.live import OpenCluster
from rmqreplay.source.offset_ranges import OffsetRange, OffsetSet, queue_text

SAMPLE_MAX = 20
SAMPLE_BODY_MAX_BYTES = 200


class WaveSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One wave's work. Without ``permits`` nothing is sent: the tasks only count (a dry run)."""

    job: str
    wave: int
    wanted: list[OffsetRange]
    excluded: Runs = {}
    target: TargetRule
    transform: Transform
    keep_order: bool = False
    name_server: str = ""
    fences: list[Fence] = []
    permits: Address | None = None
    send_timeout_ms: int = 3000
    batch_messages: int = 32
    in_flight: int = 4
    protected: bool = True
    """If False, messages that were not acknowledged are sent again, as plain tools do. For benchmarks and fault
    tests."""
    sample: int = 0


class Failure(msgspec.Struct, frozen=True):
    """A rejected message; ``code`` is 0 if the broker was not asked. ``queue`` is empty for damage in a log of which
    nobody can tell which message it was; then ``remark`` names its file and bytes."""

    queue: str
    queue_offset: int
    topic: str
    code: int
    remark: str


class TaskReport(msgspec.Struct, kw_only=True):
    """The outcome of one task's rows. A dry run fills only ``selected`` and the tallies."""

    selected: int = 0
    size_bytes: int = 0
    excluded: int = 0
    skipped: int = 0
    """Messages that the user's function left out."""
    stored: int = 0
    found: int = 0
    weak: int = 0
    doubtful: int = 0
    busy: int = 0
    delivered: Runs = {}
    marks: dict[str, bytes] = {}
    """Those of the delivered messages, by queue, in the order of their offsets."""
    witnesses: dict[str, Witness] = {}
    """The last selected message of each queue; only of a dry run."""
    origins: dict[str, int] = {}
    """Origin topic -> number of messages."""
    failures: list[Failure] = []
    topics: dict[str, int] = {}
    """Target topic -> number of messages."""
    tags: dict[str, int] = {}
    oldest_ms: int | None = None
    newest_ms: int | None = None
    samples: list[dict[str, Any]] = []

    def take(self, delivered: DeliveryReport, marks: Mapping[Place, bytes]) -> None:
        """``marks``: those of all messages that the task was to deliver."""
        self.stored, self.found = len(delivered.stored), len(delivered.found)
        self.weak, self.doubtful, self.busy = delivered.weak_count, delivered.doubtful_count, delivered.busy_count
        places = (*delivered.stored, *delivered.found)
        self.delivered, self.marks = marked_runs({place: marks[place] for place in places})
        self.failures += map(failure, delivered.rejected)


def note_witness(found: dict[str, Witness], queue: str, witness: Witness) -> None:
    if queue not in found or found[queue].queue_offset < witness.queue_offset:
        found[queue] = witness


def failure(rejected: Rejected) -> Failure:
    queue, queue_offset = rejected.place
    return Failure(queue_text(queue), queue_offset, rejected.topic, rejected.code, rejected.remark)


def merge_reports(reports: list[TaskReport]) -> TaskReport:
    """The reports of all tasks of a wave as one."""
    total = TaskReport()
    marks: dict[Place, bytes] = {}
    topics: Counter[str] = Counter()
    origins: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    for each in reports:
        for name in ("selected", "size_bytes", "excluded", "skipped", "stored", "found", "weak", "doubtful", "busy"):
            setattr(total, name, getattr(total, name) + getattr(each, name))
        marks |= unmarked(each.delivered, each.marks)
        for queue, witness in each.witnesses.items():
            note_witness(total.witnesses, queue, witness)
        total.failures = [*total.failures, *each.failures]
        total.samples = [*total.samples, *each.samples][:SAMPLE_MAX]
        topics.update(each.topics)
        tags.update(each.tags)
        origins.update(each.origins)
    total.delivered, total.marks = marked_runs(marks)
    total.topics, total.tags, total.origins = dict(topics), dict(tags), dict(origins)
    total.oldest_ms = min((each.oldest_ms for each in reports if each.oldest_ms is not None), default=None)
    total.newest_ms = max((each.newest_ms for each in reports if each.newest_ms is not None), default=None)
    return total


class Engine(Protocol):
    """Reads the messages that a plan selects. Repeated calls with the same plan give the same result."""

    @property
    def open_cluster(self) -> OpenCluster: ...

    @property
    def in_flight(self) -> int:
        """Requests under way in each of its tasks, if order does not matter."""

    @property
    def permit_host(self) -> str:
        """The address at which tasks reach this process."""

    def run(self, plan: Plan, ranges: Sequence[OffsetRange], spec: WaveSpec) -> TaskReport:
        """Sends one wave, or only counts it if ``spec`` has no permits. Returns when each of its messages is sent, left
        out or rejected. Any RocketMQError leaves the wave open."""

    def first_places(self, plan: Plan, limit: int, excluded: OffsetSet | None = None) -> OffsetSet:
        """The first ``limit`` selected messages by store time, of those that are not ``excluded``."""

    def duplicates(self, plan: Plan) -> OffsetSet:
        """The selected messages that ``plan.dedup`` leaves out: all but the first or the last of equal ones."""

    def write_files(self, plan: Plan, ranges: Sequence[OffsetRange], excluded: OffsetSet, directory: str) -> TaskReport:
        """Writes one wave to Parquet, replacing the files of a broken attempt. Damaged messages are written with their
        reason, and count as rejected."""
