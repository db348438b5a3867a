"""A run of the archive: what is there now, batch after batch, from where the manifest ends.

from spark_tools.archive.archive_run import ArchiveRequest, archive

outcome = archive(ArchiveRequest(name_server="127.0.0.1:9876", directory="/archive", topics=["orders"]))

Batches end where those of a stream would (``StreamPlanner``), with the same answers to what is gone, new or away. They
are not a query of Spark's streaming, because its checkpoint would be a second truth beside the manifest: a run that is
killed between the two would have to find out which of them is right.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqproto.errors import StorageError
from rmqreplay.source.archive_manifest import DIRECTORY, ArchivedBatch, Manifest, load_manifest, remove_leftovers
from rmqreplay.source.live import ClusterAccess, LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange, queue_text
from rmqreplay.source.queue_ranges import DataLossError
from rmqserver.store.disk.disk import OsDisk, make_directory, storage_error
from spark_tools.partitions import cluster_of
from spark_tools.session import SessionOptions, check_installed, errors_name_log, find_java, spark_session
from spark_tools.source_options import ReadOptions
from spark_tools.streaming.limits import TriggerLimits
from spark_tools.streaming.offsets import Places, StreamOffset, ranges_between
from spark_tools.streaming.planner import MadeAnewError, StreamPlanner
from spark_tools.streaming.survey import QueueSurvey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_MESSAGES_DEFAULT = 500_000
TASK_MESSAGES_MAX = 25_000
"""A queue's part of a batch is read by tasks of so many."""
LOCK = "_lock"
OTHER_DIRECTORY = "archive it in another directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRequest(ClusterAccess):
    """What to archive, and where. ``topics`` None: all but internal ones. ``every_s``: goes on with what comes, and
    looks for it this often."""

    name_server: str
    directory: str
    topics: list[str] | None = None
    batch_messages: int = BATCH_MESSAGES_DEFAULT
    allow_loss: bool = False
    """Goes on with what is left where retention was faster."""
    every_s: float | None = None


@dataclass(frozen=True, slots=True)
class ArchiveHooks:
    """The caller's callbacks."""

    on_stage: Callable[[str], None] = lambda text: None
    """Called with a text for people about a stage that begins and may take a while."""
    on_look: Callable[[LiveCluster, Places], None] = lambda cluster, ends: None
    """Called before each batch with where the archive ends in its queues."""
    on_batch: Callable[[ArchivedBatch], None] = lambda batch: None


@dataclass(slots=True)
class ArchiveOutcome:
    """``*_before``: how many batches there were, and where each queue was archived to. ``latest``: where queues end;
    ``begun``: where those begin that are not archived yet."""

    manifest: Manifest
    batches_before: int
    ends_before: Places
    latest: Places
    begun: Places


def archive(
    request: ArchiveRequest,
    hooks: ArchiveHooks = ArchiveHooks(),
    session: SessionOptions = SessionOptions(),
    *,
    look_only: bool = False,
    spark: SparkSession | None = None,
) -> ArchiveOutcome:
    """Archives what is there, unless it is to ``look_only``. ``spark``: a running session; None starts one, once there
    is something new. StorageError if another process writes the archive, DataLossError if retention was faster."""
    if not look_only:
        check_installed()
        if spark is None:
            find_java(session.java_home)
    options = ReadOptions(
        name_server=request.name_server,
        topics=request.topics,
        fail_on_data_loss=not request.allow_loss,
        records_per_partition_max=TASK_MESSAGES_MAX,
        access=request.apart(),
    )
    limits = TriggerLimits(offsets_max=request.batch_messages)
    with ExitStack() as stack:
        if not look_only:
            stack.enter_context(_writing(request.directory))
        manifest = load_manifest(request.directory)
        if not look_only:
            remove_leftovers(manifest)
        outcome = ArchiveOutcome(manifest, manifest.next_number, manifest.ends(), {}, {})
        cluster = stack.enter_context(cluster_of(options))
        survey = QueueSurvey(cluster, options)
        planner = StreamPlanner(survey, limits, not request.allow_loss)

        def archived() -> StreamOffset:
            """Of the topics that are asked for: the archive may have others."""
            ends = {queue: end for queue, end in manifest.ends().items() if survey.is_wanted(queue)}
            newest = {queue: manifest.newest_ms(queue) for queue in ends}
            marks = {queue: (ends[queue] - 1, at_ms) for queue, at_ms in newest.items() if at_ms is not None}
            return StreamOffset(ends, first=marks)

        def write(ranges: list[OffsetRange]) -> ArchivedBatch:
            nonlocal spark
            from spark_tools.archive.batches import archive_batch

            if spark is None:
                hooks.on_stage("starting Spark, which takes some seconds")
                spark = stack.enter_context(spark_session(session, hooks.on_stage))
            with errors_name_log(spark):
                return archive_batch(spark, manifest, options, ranges)

        with _losses_in_words():
            at = archived() if manifest.batches else planner.initial()
            if request.every_s is None:
                planner.stop_at_present()
            while True:
                hooks.on_look(cluster, archived().queues)
                end = planner.next(at, limited=True)
                _refuse_made_anew(manifest, end)
                outcome.begun = {**outcome.begun, **end.begun}
                ranges = ranges_between(at, end)
                if look_only or (not ranges and request.every_s is None):
                    break
                if ranges:
                    hooks.on_batch(write(ranges))
                    at = archived()
                else:
                    time.sleep(request.every_s or 0)
        outcome.latest = planner.latest
    return outcome


def _refuse_made_anew(manifest: Manifest, end: StreamOffset) -> None:
    """StorageError if a queue of the archive began again: its offsets would name two messages each."""
    archived = manifest.ends()
    for queue, at in {**end.queues, **end.begun}.items():
        if at < archived.get(queue, 0):
            raise StorageError(
                f"{queue_text(queue)} was made anew: it is at {at}, and {manifest.root} holds it up to"
                f" {archived[queue]}",
                hint=OTHER_DIRECTORY,
            )


@contextmanager
def _losses_in_words() -> Iterator[None]:
    try:
        yield
    except MadeAnewError as error:
        raise StorageError(str(error), hint=OTHER_DIRECTORY) from None
    except DataLossError as error:
        error.hint = "--allow-loss goes on with what is left; if retention was faster, the manifest tells the gap"
        raise


@contextmanager
def _writing(directory: str) -> Iterator[None]:
    """Holds the archive. StorageError if another process does, or the directory cannot be written."""
    disk, path = OsDisk(), os.path.join(directory, LOCK)
    try:
        make_directory(disk, os.path.join(directory, DIRECTORY))
        lock = disk.lock(path)
    except BlockingIOError:
        owner = disk.lock_owner(path)
        who = f"process {owner}" if owner else "another process"
        raise StorageError(f"{directory} is being written by {who}", hint="wait for it, or end it") from None
    except OSError as error:
        raise storage_error(error, "write", directory) from None
    try:
        yield
    finally:
        lock.close()
