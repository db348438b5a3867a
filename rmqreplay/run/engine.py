"""The interface of the engine that reads and sends a job's messages: Spark for large volumes (``spark_engine.py``), or
this process for small redrives (``local_engine.py``). Plan, ledger, permits and audit are the same for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rmqreplay.plans.plan import Plan
from rmqreplay.run.wave_spec import TaskReport, WaveSpec
from rmqreplay.source.live import OpenCluster
from rmqreplay.source.offset_ranges import OffsetRange, OffsetSet


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
