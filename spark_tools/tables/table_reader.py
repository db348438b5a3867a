"""``.option("table", …)``: a table is read in one task for each store, group, or cluster. Nothing stays open between
calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rmqproto.errors import NotFoundError
from rmqproto.java.java_numbers import INT_MAX, LONG_MAX
from rmqproto.names import DLQ_PREFIX, TRACE_TOPIC
from rmqreplay.ledger.letter_source import FileLetters, LiveLetters
from rmqreplay.ledger.letters import Letter, Place
from rmqreplay.ledger.sent_before import check_root, sent_of_letters
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.pulling import PullRules
from rmqreplay.source.queue_ranges import did_you_mean
from rmqreplay.source.store_view import StoreView
from spark_tools.arrow_records import DATE_MAX_MS, DATE_MIN_MS
from spark_tools.part_reader import read_any
from spark_tools.partitions import cluster_of, plan_read
from spark_tools.schema import kinds_of
from spark_tools.source_options import ReadOptions
from spark_tools.spark_worker import hints_in_text
from spark_tools.tables.found_messages import live_halves, live_timers, store_halves, store_timers
from spark_tools.tables.positions import (
    Values,
    live_groups,
    live_offsets,
    live_queues,
    store_groups,
    store_offsets,
    store_queues,
    store_topics,
)
from spark_tools.tables.traces_and_letters import in_ms, letter_rows, trace_rows

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 4096
_HIGHEST = {"int": INT_MAX, "bigint": LONG_MAX}


@dataclass
class TablePart(InputPartition):
    """One task: the whole cluster or one store (``path``), of ``deadletters`` one group of it."""

    path: str | None
    group: str | None

    def __init__(self, path: str | None, group: str | None):
        super().__init__(None)
        self.path, self.group = path, group


class TableReader(DataSourceReader):
    def __init__(self, options: ReadOptions, columns: list[str]):
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        paths: list[str | None] = [*self._options.paths] or [None]
        with hints_in_text():
            self._check_names()
        if self._options.table != "deadletters":
            return [TablePart(path, None) for path in paths]
        return [TablePart(path, group) for path in paths for group in self._groups(path)]

    def _check_names(self) -> None:
        """NotFoundError for a group or topic that nobody knows: its name is probably wrong."""
        self._check_known("group", self._options.groups, store_groups, live_groups)
        self._check_known("topic", self._options.topics, store_topics, LiveCluster.topics)

    def _check_known(
        self,
        kind: str,
        wanted: list[str] | None,
        of_store: Callable[[str], Iterable[str]],
        of_cluster: Callable[[LiveCluster], Iterable[str] | None],
    ) -> None:
        if not wanted:
            return
        known: Iterable[str] | None
        if self._options.paths:
            known = set().union(*map(of_store, self._options.paths))
        else:
            with cluster_of(self._options) as cluster:
                known = of_cluster(cluster)
        unknown = sorted(set(wanted).difference(known)) if known is not None else []
        if unknown:
            hint = did_you_mean(unknown[0], sorted(known or ()))
            raise NotFoundError(f"there is no {kind} {unknown[0]}", hint=hint)

    def _groups(self, path: str | None) -> list[str]:
        """The groups with dead letters, or those that were asked for."""
        if path is None:
            with cluster_of(self._options) as cluster:
                topics = cluster.topics()
        else:
            with StoreView(path) as view:
                topics = view.topics()
        found = [topic.removeprefix(DLQ_PREFIX) for topic in topics if topic.startswith(DLQ_PREFIX)]
        wanted = self._options.groups
        return found if wanted is None else [group for group in found if group in wanted]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TablePart):  # an empty plan, as of ``RocketMQReader``
            return
        with hints_in_text():
            yield from _batches(self._rows(partition), str(self._options.table), self._columns)

    def _rows(self, part: TablePart) -> Iterator[Values]:
        options = self._options
        if options.table == "traces":
            return trace_rows(self._read(part), options.topics or [TRACE_TOPIC])
        if part.group is not None:
            return letter_rows(self._read(part), part.group, None if options.ledger is None else self._sent(part))
        return self._rows_of_cluster() if part.path is None else self._rows_of_store(part.path)

    def _rows_of_cluster(self) -> Iterator[Values]:
        options = self._options
        rules = PullRules(
            batch_size=options.pull_batch_size, timeout_s=options.pull_timeout_ms / 1000,
            read_timeout_s=options.read_timeout_ms / 1000, group=options.reader_group, fail_on_data_loss=False,
        )  # fmt: skip
        with cluster_of(options) as cluster:
            if options.table == "queues":
                yield from live_queues(cluster, dict.fromkeys(options.topics or cluster.topics()))
            elif options.table == "offsets":
                yield from live_offsets(cluster, options.groups)
            else:
                yield from (live_halves if options.table == "halves" else live_timers)(cluster, rules)

    def _rows_of_store(self, path: str) -> Iterator[Values]:
        options = self._options
        root, broker_name = os.path.abspath(path), self._broker_name(path)
        if options.table == "queues":
            return store_queues(root, broker_name, options.topics)
        if options.table == "offsets":
            return store_offsets(root, broker_name, options.groups)
        return (store_halves if options.table == "halves" else store_timers)(root, broker_name)

    def _broker_name(self, path: str) -> str:
        names = dict(zip(self._options.paths, self._options.broker_names, strict=False))
        with StoreView(path, names.get(path)) as view:
            return view.broker_name

    def _read(self, part: TablePart) -> Callable[[list[str], list[str]], Iterator[Values]]:
        """Reads topics of this part. A topic that is not there has no messages."""

        def read(topics: list[str], columns: list[str]) -> Iterator[Values]:
            there = [topic for topic in topics if topic in self._topics(part)]
            if not there:
                return
            options = replace(self._options, topics=there, paths=[part.path] if part.path else [], groups=None)
            if part.path is not None:
                options = replace(options, broker_names=[self._broker_name(part.path)])
            for planned in plan_read(options).parts:
                for batch in read_any(planned, options, columns):
                    yield from in_ms(batch.to_pylist(maps_as_pydicts="lossy"))

        return read

    def _topics(self, part: TablePart) -> list[str]:
        if part.path is None:
            with cluster_of(self._options) as cluster:
                return cluster.topics()
        with StoreView(part.path) as view:
            return view.topics()

    def _sent(self, part: TablePart) -> Callable[[dict[Place, Letter]], set[Place]]:
        """Which letters the ledgers say were redriven."""
        root = os.path.abspath(os.path.expanduser(self._options.ledger or ""))
        check_root(root)

        def sent(letters: dict[Place, Letter]) -> set[Place]:
            if part.path is None:
                with cluster_of(self._options) as cluster:
                    return sent_of_letters(root, letters, LiveLetters(cluster.admin))
            with StoreView(part.path, self._broker_name(part.path)) as view:
                return sent_of_letters(root, letters, FileLetters(view))

        return sent


def _batches(rows: Iterator[Values], table: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from spark_tools.schema import arrow_of

    kinds = kinds_of(table)
    schema = pa.schema([(name, arrow_of(kinds[name])) for name in columns])
    while chunk := list(islice(rows, BATCH_ROWS)):
        arrays = [
            pa.array([_stored(row.get(field.name), kinds[field.name]) for row in chunk], field.type) for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stored(value: Any, kind: str) -> Any:
    """As Arrow takes it: times in microseconds, maps as pairs. A client may write any number: one that the column
    cannot hold is null."""
    if kind == "timestamp" and value is not None:
        return value * 1000 if DATE_MIN_MS <= value <= DATE_MAX_MS else None
    if kind in _HIGHEST and value is not None:
        return value if -_HIGHEST[kind] <= value <= _HIGHEST[kind] else None
    return list(value.items()) if kind.startswith("map") and value is not None else value
