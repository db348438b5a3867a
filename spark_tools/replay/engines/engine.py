"""What a job needs of the engine that reads and sends its messages: Spark at volume (``spark_engine.py``), or this
process for small redrives (``local_engine.py``). Plan, ledger, permits and audit are the same for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spark_tools.live import OpenCluster
from spark_tools.offset_ranges import OffsetRange, OffsetSet
from spark_tools.replay.engines.wave_spec import TaskReport, WaveSpec
from spark_tools.replay.plans.plan import Plan


class Engine(Protocol):
    """Reads what a plan selects. The same call gives the same for the same plan, however often it is made."""

    @property
    def open_cluster(self) -> OpenCluster: ...

    @property
    def in_flight(self) -> int:
        """Requests under way in each of its tasks, if order does not matter."""

    @property
    def permit_host(self) -> str:
        """The address at which tasks reach this process."""

    def run(self, plan: Plan, ranges: Sequence[OffsetRange], spec: WaveSpec) -> TaskReport:
        """Sends one wave, or only counts it if ``spec`` has no permits. Returns when each of its messages is accounted
        for; any RocketMQError leaves the wave open."""

    def first_places(self, plan: Plan, limit: int, excluded: OffsetSet | None = None) -> OffsetSet:
        """The first ``limit`` selected messages by store time, of those that are not ``excluded``."""

    def duplicates(self, plan: Plan) -> OffsetSet:
        """The selected messages that ``plan.dedup`` leaves out: of equal ones all but the first or the last."""

    def write_files(self, plan: Plan, ranges: Sequence[OffsetRange], excluded: OffsetSet, directory: str) -> int:
        """Writes one wave to Parquet, in place of what a broken attempt left there. Returns the number of messages."""
