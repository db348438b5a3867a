"""The stream as Spark sees it: a thin shell over ``StreamPlanner``. Spark plans in one process for the whole query and
reads in tasks; the reader is pickled into each, so its connections are opened at the first question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from spark_tools.partitions import cluster_of, cut_range, task_parts
from spark_tools.planned_part import PlannedPart
from spark_tools.schema import check_columns
from spark_tools.source_options import StreamOptions, parse_stream_options
from spark_tools.spark_worker import hints_in_text
from spark_tools.streaming.offsets import StreamOffset, parse_offset
from spark_tools.streaming.planner import StreamPlanner
from spark_tools.streaming.progress import GroupCommits
from spark_tools.streaming.survey import QueueSurvey

if TYPE_CHECKING:
    import pyarrow as pa

    from rmqreplay.source.live import LiveCluster


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``given`` are the options, and ``columns`` have their types. They are checked at the first question: an error of
    the constructor is hidden behind one of Spark's own (4.3)."""

    def __init__(self, given: Mapping[str, str], columns: list[tuple[str, str]]):
        self._given = given
        self._typed_columns = columns

    @cached_property
    def _options(self) -> StreamOptions:
        with hints_in_text():
            options = parse_stream_options(self._given)
            check_columns(self._typed_columns, properties=options.read.properties, corrupt=False)
            return options

    @cached_property
    def _cluster(self) -> LiveCluster:
        return cluster_of(self._options.read)

    @cached_property
    def _planner(self) -> StreamPlanner:
        survey = QueueSurvey(self._cluster, self._options.read)
        return StreamPlanner(survey, self._options.limits, self._options.read.fail_on_data_loss)

    @cached_property
    def _progress(self) -> GroupCommits | None:
        group = self._options.commit_group
        return None if group is None else GroupCommits(self._cluster, group)

    def initialOffset(self) -> dict[str, Any]:
        with hints_in_text():
            return self._planner.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits, since Spark has no limit of several. All are kept, unless Spark asks for everything."""
        limits = self._options.limits
        if limits.offsets_max:
            return ReadMaxRows(limits.offsets_max)
        if limits.bytes_max:
            return ReadMaxBytes(limits.bytes_max)
        return ReadMinRows(limits.offsets_min) if limits.offsets_min else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with hints_in_text():
            at = parse_offset(start)
            # A batch is planned when the one before is committed. The last ``commit`` of a query never comes.
            self._commit(at)
            end = self._planner.next(at, limited=not isinstance(limit, ReadAllAvailable))
            return start if end is at else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        latest = self._planner.latest
        return StreamOffset(latest).to_json() if latest else None

    def prepareForTriggerAvailableNow(self) -> None:
        with hints_in_text():
            self._planner.stop_at_present()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with hints_in_text():
            ranges = self._planner.ranges(parse_offset(start), parse_offset(end))
            options = self._options.read
            pieces = [piece for each in ranges for piece in cut_range(each, options, len(ranges))]
            return [PlannedPart(parts) for parts in task_parts(pieces, options)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, PlannedPart):
            return iter(())
        from spark_tools.part_reader import read_all

        return read_all(partition.parts, self._options.read, [name for name, _ in self._typed_columns])

    def commit(self, end: dict[str, Any]) -> None:
        self._commit(parse_offset(end))

    def _commit(self, offset: StreamOffset) -> None:
        if self._progress is not None and not offset.is_initial:
            self._progress.write(offset.queues)

    def stop(self) -> None:
        if "_cluster" in self.__dict__:
            self._cluster.close()
