"""``spark-archive``: topics into Parquet before retention deletes them. ``spark_tools.archive`` does it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Texts
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.cli.options.replay_options import SparkOptions
from rmqadmin.cli.replay_run import session_options
from rmqadmin.cli.run_progress import StageLines
from rmqadmin.core.groups.lag import KeptSettings
from rmqadmin.core.results import Notice, ResultOf, Row, doc
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqreplay.source.archive_manifest import ArchivedBatch
    from rmqreplay.source.live import LiveCluster
    from spark_tools.archive.archive_run import ArchiveOutcome
    from spark_tools.streaming.offsets import Places


LOOK_EVERY_S = 60.0
_HOUR_MS = 3_600_000


class RetentionWatch:
    """Tells when the first message of a queue that is not archived is older than half of the time for which its broker
    keeps messages: early enough for a daily run that fails once with the default of three days. A broker keeps them
    for fileReservedTime; one that has had to delete more, for a full disk, as long as it does now."""

    def __init__(self, now_ms: Callable[[], int], notice: Notice):
        self._now_ms = now_ms
        self._notice = notice
        self._settings = KeptSettings()
        self._looked_s = float("-inf")
        self._unknown: set[str] = set()
        self.left_ms: dict[MessageQueue, int] = {}
        """How long the first message that waits is safe; at the first look that found one."""
        self.near: dict[MessageQueue, str] = {}

    def look(self, cluster: LiveCluster, ends: Places) -> None:
        """``ends``: where the archive ends. Looks once a minute; brokers that do not answer are passed over."""
        if time.monotonic() - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = time.monotonic()
        for queue, end in ends.items():
            try:
                self._look(cluster, queue, end)
            except RocketMQError:
                continue  # the archive itself waits for brokers, and says which

    def _look(self, cluster: LiveCluster, queue: MessageQueue, end: int) -> None:
        first, last = cluster.bounds(queue)
        if not first <= end < last:
            return
        address = cluster.reading_address(queue)
        waiting = cluster.admin.pull_message(address, queue, end, max_count=1).messages
        kept_ms = self._kept_ms(cluster, address)
        if not waiting or kept_ms is None:
            return
        age_ms = self._now_ms() - waiting[0].store_timestamp_ms
        self.left_ms.setdefault(queue, kept_ms - age_ms)
        if 2 * age_ms > kept_ms and queue not in self.near:
            self.near[queue] = (
                f"{queue.topic}/{queue.broker_name}/{queue.queue_id} was not archived from offset {end} on for"
                f" {age_ms / _HOUR_MS:.1f} h, and its broker keeps messages for {kept_ms / _HOUR_MS:.1f} h"
            )
            self._notice(f"{self.near[queue]}: archive more often")

    def _kept_ms(self, cluster: LiveCluster, address: str) -> int | None:
        kept_ms = self._settings.reserved_ms(cluster.admin, address)
        if kept_ms is None:
            if address not in self._unknown:
                self._notice(f"{address} does not say how long it keeps messages: nobody is warned of its retention")
            self._unknown.add(address)
            return None
        state = cluster.admin.broker_runtime_info(address)
        log_start, earliest = state.get("commitLogMinOffset", ""), state.get("earliestMessageTimeStamp", "")
        if log_start.isdecimal() and int(log_start) and earliest.isdecimal():
            return min(kept_ms, self._now_ms() - int(earliest))
        return kept_ms


class ArchivedQueueRow(Row, frozen=True):
    topic: Annotated[str, doc("topic", key=True)]
    broker_name: Annotated[str, doc("broker", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    start_offset: Annotated[int | None, doc("first queue offset in the archive")]
    end_offset: Annotated[int | None, doc("queue offset after the last one in the archive")]
    new: Annotated[int, doc("offsets that this run has archived")]
    waiting: Annotated[int | None, doc("messages that are not archived; unknown of a queue that was not looked at")]
    missing: Annotated[int | None, doc("offsets whose messages were gone before they were archived", sparse=True)]
    left_s: Annotated[
        int | None, doc("seconds until the first message that waited for this run may be deleted", sparse=True)
    ]


class ArchiveTotals(Row, frozen=True):
    directory: Annotated[str, doc("the archive")]
    messages: Annotated[int, doc("messages that this run has archived")]
    batches: Annotated[int, doc("batches that it has written")]
    files: Annotated[int, doc("Parquet files in them")]
    size_bytes: Annotated[int, doc("their size")]
    archived: Annotated[int, doc("messages in the whole archive")]


class Archived(ResultOf[ArchivedQueueRow], frozen=True):
    """Where each queue is archived to."""

    outcome: ArchiveOutcome
    watch: RetentionWatch

    def rows(self) -> Sequence[ArchivedQueueRow]:
        """Without queues that are empty."""
        outcome = self.outcome
        waiting = {queue for queue, at in outcome.begun.items() if outcome.latest.get(queue, at) > at}
        return [self._row(queue) for queue in sorted({*outcome.manifest.ranges, *waiting})]

    def _row(self, queue: MessageQueue) -> ArchivedQueueRow:
        ranges, latest = self.outcome.manifest.ranges.get(queue, []), self.outcome.latest.get(queue)
        start, end = (ranges[0].start, ranges[-1].end) if ranges else (None, None)
        left_ms = self.watch.left_ms.get(queue)
        return ArchivedQueueRow(
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            start_offset=start,
            end_offset=end,
            new=0 if end is None or start is None else end - self.outcome.ends_before.get(queue, start),
            waiting=None if latest is None else latest - (self.outcome.begun[queue] if end is None else end),
            missing=sum(each.missing for each in ranges) or None,
            left_s=None if left_ms is None else left_ms // 1000,
        )

    def summary(self) -> ArchiveTotals:
        batches = self.outcome.manifest.batches
        new = batches[self.outcome.batches_before :]
        files = [file for batch in new for file in batch.files]
        return ArchiveTotals(
            directory=self.outcome.manifest.root,
            messages=sum(each.messages for batch in new for each in batch.ranges),
            batches=len(new),
            files=len(files),
            size_bytes=sum(file.size_bytes for file in files),
            archived=sum(each.messages for batch in batches for each in batch.ranges),
        )

    def problem(self) -> str | None:
        new = self.outcome.manifest.batches[self.outcome.batches_before :]
        missing = sum(each.missing for batch in new for each in batch.ranges)
        found = [f"{counted(missing, 'message')} were gone before they were archived"] if missing else []
        if self.watch.near:
            found.append(f"retention gets near to {counted(len(self.watch.near), 'queue')}: archive more often")
        return "; ".join(found) or None


FOLLOW_S = 60.0
"""How often --follow writes. More often would make more, smaller files."""


def spark_archive(
    call: Call,
    spark: SparkOptions,
    directory: Annotated[str, Value.FILE, option("--archive", "The archive, new or to be continued.", metavar="DIR")],
    topics: Annotated[Texts, Value.TOPIC, option("--topic", "This topic. Repeatable. Default: all.")] = None,
    follow: Annotated[bool, option("--follow", "Go on with what comes, every minute, until Ctrl-C.")] = False,
    check: Annotated[
        bool, option("--check", "Archive nothing: show what waits, and whether retention is near.")
    ] = False,
    batch: Annotated[int | None, option("--batch", "Messages in a batch.", metavar="N", min=1)] = None,
    allow_loss: Annotated[bool, option("--allow-loss", "If retention was faster, go on with what is left.")] = False,
) -> Archived:
    """Archives what is there in Parquet, by topic and date, each message once, whatever crashes on the way; the next
    run goes on from there. Ends with 1 when retention gets near. Needs pip install 'rmqadmin[spark]'.

      rmqadmin spark-archive -n 127.0.0.1:9876 --topic orders --archive /data/archive
      rmqadmin spark-archive -n 127.0.0.1:9876 --archive /data/archive --check
    """
    from spark_tools.archive.archive_run import BATCH_MESSAGES_DEFAULT, ArchiveHooks, ArchiveRequest, archive

    watch, stage = RetentionWatch(call.now_ms, call.notice), StageLines(counted="archived")

    def tell(archived: ArchivedBatch) -> None:
        stage.stop()
        count = sum(each.messages for each in archived.ranges)
        call.notice(f"batch {archived.number}: {counted(count, 'message')} archived")
        stage("waiting for more" if follow else "going on")

    request = ArchiveRequest(
        name_server=";".join(call.namesrv_addrs),
        directory=directory,
        topics=topics or None,
        batch_messages=batch or BATCH_MESSAGES_DEFAULT,
        allow_loss=allow_loss,
        every_s=FOLLOW_S if follow and not check else None,
        **call.settings.access(),
    )
    try:
        outcome = archive(
            request,
            ArchiveHooks(on_stage=stage, on_look=watch.look, on_batch=tell),
            session_options(spark),
            look_only=check,
        )
    except BaseException as error:
        stage.stop()
        for note in getattr(error, "__notes__", ()):
            call.notice(note)
        if isinstance(error, KeyboardInterrupt):
            call.notice("every batch so far is whole; the same command goes on")
        raise
    finally:
        stage.stop()
    return Archived(outcome, watch)
