"""An archive of topics as a source of messages, as it was when it was opened: another process may be adding to it."""

from __future__ import annotations

import os
from datetime import datetime
from types import TracebackType
from typing import Any

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, StorageError
from rmqreplay.ledger.letters import Letter, mark_of
from rmqreplay.source.archive_manifest import ArchivedRange, covering, is_archive, load_manifest
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.store_view import StoreView
from rmqserver.store.disk.disk import storage_error


class ArchiveView:
    """The queues of an archive, of one broker or several. StorageError if nothing was archived there."""

    broker_name = None

    def __init__(self, root: str):
        self.root = os.path.abspath(root)
        self._manifest = load_manifest(self.root)
        if not self._manifest.batches:
            raise StorageError(f"{root} holds no archive", hint="rmqadmin spark-archive makes one")

    def __enter__(self) -> ArchiveView:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def topics(self) -> list[str]:
        return sorted({queue.topic for queue in self._manifest.ranges})

    def queues(self, topic: str) -> list[MessageQueue]:
        return sorted(queue for queue in self._manifest.ranges if queue.topic == topic)

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        ranges = self._of(queue)
        return ranges[0].start, ranges[-1].end

    def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        for each in self._of(queue):
            if each.newest_ms is not None and each.newest_ms >= timestamp_ms:
                found = self.rows(each.offsets, ["queueOffset", "storeTimestamp"])
                return min(int(row["queueOffset"]) for row in found if _ms(row) >= timestamp_ms)
        return self.bounds(queue)[1]

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        return None

    def rows(self, wanted: OffsetRange, columns: list[str]) -> list[dict[str, Any]]:
        """Some columns of the archived messages of a range."""
        import pyarrow as pa  # comes with the extra [spark], which wrote the archive
        import pyarrow.dataset as ds

        field, queue = ds.field, wanted.queue
        takes = (field("brokerName") == queue.broker_name) & (field("queueId") == queue.queue_id)
        takes &= (field("queueOffset") >= wanted.start) & (field("queueOffset") < wanted.end)
        found: list[dict[str, Any]] = []
        form = ds.ParquetFileFormat(
            default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        )
        for file in covering(self._manifest, [wanted]):
            path = os.path.join(self.root, file.path)
            try:
                found += ds.dataset(path, format=form).to_table(columns, takes).to_pylist()
            except (OSError, pa.ArrowException) as error:
                raise storage_error(error, "read", path) from None
        return found

    def letter(self, queue: MessageQueue, queue_offset: int) -> Letter | None:
        """The message at a queue offset; None if it is not archived."""
        wanted = OffsetRange(queue, queue_offset, queue_offset + 1)
        rows = self.rows(wanted, ["msgId", "offsetMsgId", "storeTimestamp"])
        if not rows:
            return None
        message_id, offset_message_id, stored_ms = rows[0]["msgId"], rows[0]["offsetMsgId"], _ms(rows[0])
        return Letter(mark_of(message_id, offset_message_id, stored_ms), offset_message_id, stored_ms)

    def _of(self, queue: MessageQueue) -> list[ArchivedRange]:
        found = self._manifest.ranges.get(queue)
        if found is None:
            raise NotFoundError(f"{self.root} has no queue {queue.queue_id} of {queue.topic} on {queue.broker_name}")
        return found


def open_files(path: str, broker_name: str | None) -> ArchiveView | StoreView:
    """The archive or the store in a directory."""
    return ArchiveView(path) if is_archive(path) else StoreView(path, broker_name)


def _ms(row: dict[str, Any]) -> int:
    stored: datetime = row["storeTimestamp"]
    return round(stored.timestamp() * 1000)
