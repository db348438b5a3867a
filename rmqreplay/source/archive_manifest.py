"""The manifest of an archive of topics: which offsets it holds, and in which files. The one place for its schema.

    ARCHIVE/_manifest/0000000012.json               one ``ArchivedBatch`` each, numbered from 0 without a gap
    ARCHIVE/topic=T/date=2026-11-28/0000000012-*.parquet   the messages of that batch, with the columns of the source
    ARCHIVE/_staging, ARCHIVE/_lock                 of the process that writes

A batch is there as soon as its file in the manifest is, which appears as a whole and is never changed. Files of a
batch that is not in the manifest are left by a run that was killed: the next one deletes them. Spark and others pass
over names that begin with an underscore, so that they read an archive as a table.
"""

from __future__ import annotations

import os
import shutil

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError
from rmqproto.wire.whole_types import whole
from rmqreplay.source.offset_ranges import OffsetRange, parse_queue_text, queue_text
from rmqserver.store.disk.disk import OsDisk, storage_error
from rmqserver.store.disk.whole_files import replace_file

VERSION = 1
DIRECTORY = "_manifest"
STAGING = "_staging"
NUMBER_DIGITS = 10


class ArchivedRange(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch has of a queue. ``messages`` is less than the count of offsets if some were gone when they were
    read; times are ms since the epoch, of the store, None if all were gone."""

    queue: str
    start: int
    end: int
    messages: int
    oldest_ms: int | None = None
    newest_ms: int | None = None

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(parse_queue_text(self.queue), self.start, self.end)

    @property
    def missing(self) -> int:
        return self.end - self.start - self.messages


class ArchivedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file; ``path`` is relative to the archive."""

    path: str
    topic: str
    size_bytes: int


class ArchivedBatch(msgspec.Struct, frozen=True, kw_only=True):
    version: int = VERSION
    number: int
    archived_ms: int
    ranges: list[ArchivedRange]
    files: list[ArchivedFile]


class Manifest:
    """The batches of an archive, as far as they follow each other. Whoever keeps one may ``add`` to it what came
    later."""

    def __init__(self, root: str):
        self.root = root
        self.batches: list[ArchivedBatch] = []
        self.ranges: dict[MessageQueue, list[ArchivedRange]] = {}
        """Of each queue in order; each begins where the one before ends."""

    @property
    def next_number(self) -> int:
        return len(self.batches)

    def ends(self) -> dict[MessageQueue, int]:
        """Where the archive ends in each of its queues."""
        return {queue: ranges[-1].end for queue, ranges in self.ranges.items()}

    def newest_ms(self, queue: MessageQueue) -> int | None:
        """When the newest archived message of a queue was stored; None if it has none."""
        return max((each.newest_ms for each in self.ranges.get(queue, ()) if each.newest_ms is not None), default=None)

    def add(self, batch: ArchivedBatch) -> None:
        """StorageError for a batch that does not continue the others."""
        path = batch_path(self.root, batch.number)
        if batch.number != self.next_number:
            raise StorageError(f"{path} says that it is batch {batch.number}, and {self.next_number} is expected")
        for each in batch.ranges:
            before = self.ranges.get(each.offsets.queue)
            if before is not None and before[-1].end != each.start:
                raise StorageError(
                    f"{path}: {each.queue} goes on at {each.start}, and the archive holds it up to {before[-1].end}"
                )
        for each in batch.ranges:
            self.ranges.setdefault(each.offsets.queue, []).append(each)
        self.batches.append(batch)


def batch_path(root: str, number: int) -> str:
    return os.path.join(root, DIRECTORY, f"{number:0{NUMBER_DIGITS}}.json")


def file_stem(number: int) -> str:
    """What the names of a batch's files begin with."""
    return f"{number:0{NUMBER_DIGITS}}-"


def is_archive(root: str) -> bool:
    return os.path.isdir(os.path.join(root, DIRECTORY))


def load_manifest(root: str) -> Manifest:
    """The manifest of the archive in a directory; empty if nothing was archived there. StorageError for one that is
    damaged, has a gap, or is of a later version."""
    manifest = Manifest(root)
    numbers = sorted(_numbers(root))
    for number in numbers:
        if number != manifest.next_number:
            raise StorageError(
                f"{batch_path(root, manifest.next_number)} is missing, and later batches are there",
                hint="restore it from a backup: without it, nobody knows what the archive holds",
            )
        manifest.add(_load(batch_path(root, number)))
    return manifest


def commit_batch(manifest: Manifest, batch: ArchivedBatch) -> None:
    """Adds the batch, durably: from its return on, its files belong to the archive. StorageError."""
    manifest.add(batch)
    path = batch_path(manifest.root, batch.number)
    try:
        replace_file(OsDisk(), path, msgspec.json.format(msgspec.json.encode(batch), indent=1) + b"\n")
    except OSError as error:
        raise storage_error(error, "write", path) from None


def remove_leftovers(manifest: Manifest) -> None:
    """Deletes what a run that was killed has written of the batch that comes next."""
    remove_staging(manifest)
    try:
        for parent, _, names in os.walk(manifest.root):
            for name in names:
                if name.startswith(file_stem(manifest.next_number)):
                    os.unlink(os.path.join(parent, name))
    except OSError as error:
        raise storage_error(error, "delete", manifest.root) from None


def remove_staging(manifest: Manifest) -> None:
    """As far as nobody writes there: the next run deletes the rest."""
    shutil.rmtree(os.path.join(manifest.root, STAGING), ignore_errors=True)


def covering(manifest: Manifest, ranges: list[OffsetRange]) -> list[ArchivedFile]:
    """The files that may have messages of the ranges. StorageError for one that is gone or was changed."""
    wanted: dict[str, list[OffsetRange]] = {}
    for each in ranges:
        wanted.setdefault(queue_text(each.queue), []).append(each)
    found = []
    for batch in manifest.batches:
        topics = {
            each.offsets.queue.topic
            for each in batch.ranges
            if any(each.start < other.end and other.start < each.end for other in wanted.get(each.queue, ()))
        }
        found += [file for file in batch.files if file.topic in topics]
    for file in found:
        path = os.path.join(manifest.root, file.path)
        try:
            size_bytes = os.stat(path).st_size
        except OSError as error:
            raise storage_error(error, "read", path) from None
        if size_bytes != file.size_bytes:
            raise StorageError(f"{path} has {size_bytes} bytes, and was archived with {file.size_bytes}")
    return found


def _numbers(root: str) -> list[int]:
    try:
        names = os.listdir(os.path.join(root, DIRECTORY))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(error, "read", os.path.join(root, DIRECTORY)) from None
    stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return [int(stem) for stem in stems if stem.isdecimal()]


def _load(path: str) -> ArchivedBatch:
    try:
        with open(path, "rb") as file:
            document = file.read()
        version = msgspec.json.decode(document, type=dict).get("version")
        if version != VERSION:
            raise StorageError(
                f"{path} has version {version}; this rmqadmin knows {VERSION}",
                hint="read the archive with the rmqadmin that wrote it, or a later one",
            )
        return msgspec.json.decode(document, type=whole(ArchivedBatch))
    except OSError as error:
        raise storage_error(error, "read", path) from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StorageError(f"{path}: not a batch of an archive: {error}") from None
