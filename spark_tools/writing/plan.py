"""What an idempotent write fixes before it begins: its topic's queues, because a row that is sent again must go to its
queue although others may have come since, and their ends, from which on its rows are looked for. A stream keeps this
in its checkpoint, because a batch may be repeated by another driver."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RefusedError, StorageError, UsageError
from rmqproto.wording import counted
from rmqreplay.ledger.ledger import Fence
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.pulling import READ_TIMEOUT_S, PullRules, check_allowed, persist
from rmqserver.store.sequences.sequence_table import KEPT_MS
from spark_tools.given_options import local_path
from spark_tools.writing.rows import writable_queues

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

REPEATED_MAX_MS = KEPT_MS - 4 * 3600 * 1000
"""A batch that began earlier is not repeated: brokers forget a producer that is quiet for a day."""
OWN_SETTING = "uniqueKeyCheckMillis"
"""Every broker that knows producers' numbers has this setting, and no other has."""
FILE = "rocketmq-write.json"


class WritePlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``queues`` are in the order of ``writable_queues``, with their ends. ``batch_id`` is None outside a stream.
    ``is_repeated``: the batch was begun before, perhaps by another driver and with other tasks."""

    topic: str
    queues: Annotated[list[Fence], msgspec.Meta(min_length=1)]
    body_max_bytes: int
    write_id: str
    batch_id: int | None
    begun_ms: int
    is_repeated: bool = False

    @property
    def message_queues(self) -> list[MessageQueue]:
        return [MessageQueue(each.topic, each.broker_name, each.queue_id) for each in self.queues]


def make_plan(cluster: LiveCluster, topic: str, batch_id: int | None = None) -> WritePlan:
    """UsageError for a broker that does not recognise messages that are sent again; RefusedError if they may not be
    read, to be compared."""
    queues = writable_queues(cluster, topic)
    sizes = [_body_max_bytes(cluster, topic, name) for name in sorted({queue.broker_name for queue in queues})]
    ends = [
        Fence(topic, queue.broker_name, queue.queue_id, max(0, cluster.admin.max_offset(
            cluster.master(topic, queue.broker_name), topic, queue.queue_id)))
        for queue in queues
    ]  # fmt: skip
    check_allowed(cluster, {each.queue: each.queue_offset for each in ends}, PullRules(batch_size=1))
    return WritePlan(
        topic=topic, queues=ends, body_max_bytes=min(sizes), write_id=secrets.token_hex(16), batch_id=batch_id,
        begun_ms=time.time_ns() // 1_000_000,
    )  # fmt: skip


def _body_max_bytes(cluster: LiveCluster, topic: str, broker_name: str) -> int:
    try:
        settings = cluster.admin.broker_config(cluster.master(topic, broker_name), with_own_defaults=True)
    except RefusedError as error:
        raise UsageError(
            f"delivery=idempotent has to ask {broker_name} for its settings, which it refuses: {error}",
            hint="allow Get on the cluster",
        ) from None
    if OWN_SETTING not in settings:
        raise UsageError(
            f"delivery=idempotent needs rmqserver, and {broker_name} is another: it would store repeats twice",
            hint="write at-least-once, or send with spark-replay, which looks before it sends again",
        )
    return int(settings["maxMessageSize"])


class StreamCheckpoint:
    """The plan of a stream's newest batch, in the stream's checkpoint directory. Only a driver uses it."""

    def __init__(self, location: str):
        self._files, self._root = _file_system(location)

    def plan(self, cluster: LiveCluster, topic: str) -> WritePlan:
        """The plan of the batch that is to be written: the kept one if the batch was begun before. UsageError if it
        cannot be repeated now, StorageError if the checkpoint does not tell."""
        batch_id = self.newest_batch()
        with self._errors_in_words("read"):
            kept = self._kept()
        if kept is None or kept.batch_id != batch_id:
            make = partial(make_plan, cluster, topic, batch_id)
            # A later batch has written to the topic before: its brokers are waited for.
            made = persist(make, cluster.forget_routes, READ_TIMEOUT_S) if batch_id else make()
            with self._errors_in_words("written"):
                self._keep(made)
            return made
        if kept.topic != topic:
            raise UsageError(
                f"batch {batch_id} of this query was begun for the topic {kept.topic}, and not for {topic}",
                hint="finish it there, or begin with a new checkpoint",
            )
        age_ms = time.time_ns() // 1_000_000 - kept.begun_ms
        if age_ms > REPEATED_MAX_MS:
            raise UsageError(
                f"batch {batch_id} of this query was begun {age_ms // 3_600_000} hours ago, and brokers may have "
                "forgotten what it stored",
                hint="write this batch at-least-once, or begin with a new checkpoint",
            )
        return msgspec.structs.replace(kept, is_repeated=True)

    def newest_batch(self) -> int:
        """Of the offset log: Spark notes each batch before it plans it. StorageError."""
        from pyarrow.fs import FileSelector

        with self._errors_in_words("read"):
            found = self._files.get_file_info(FileSelector(f"{self._root}/offsets", allow_not_found=True))
        return max((int(each.base_name) for each in found if each.base_name.isdecimal()), default=0)

    @contextlib.contextmanager
    def _errors_in_words(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"{FILE} or the offsets in the checkpoint {self._root} cannot be {what}: {error}",
                hint="delivery=idempotent has its driver read and write there",
            ) from None

    def _kept(self) -> WritePlan | None:
        try:
            with self._files.open_input_stream(f"{self._root}/{FILE}") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        try:
            return msgspec.json.decode(data, type=WritePlan)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StorageError(
                f"{FILE} in the checkpoint {self._root} is damaged ({counted(len(data), 'byte')}): {error}",
                hint="bring it back from a copy; without it nobody knows what this batch has stored: begin with a new "
                "checkpoint",
            ) from None

    def _keep(self, plan: WritePlan) -> None:
        part = f"{self._root}/{FILE}.part"
        self._files.create_dir(self._root, recursive=True)
        with self._files.open_output_stream(part) as file:
            file.write(msgspec.json.encode(plan))
        with contextlib.suppress(FileNotFoundError):
            if self._files.type_name != "local":  # not every file system replaces a file
                self._files.delete_file(f"{self._root}/{FILE}")
        self._files.move(part, f"{self._root}/{FILE}")


def is_first_batch(location: str | None) -> bool:
    """Whether a stream has written nothing before, as far as its checkpoint tells."""
    with contextlib.suppress(UsageError, StorageError):
        return location is None or StreamCheckpoint(location).newest_batch() == 0
    return True


def _file_system(location: str) -> tuple[FileSystem, str]:
    """UsageError if this driver has no file system of that kind."""
    import pyarrow as pa
    from pyarrow.fs import FileSystem, LocalFileSystem

    location = local_path(location)
    if ":" not in location or location.startswith("/"):
        return LocalFileSystem(), os.path.abspath(location)
    try:
        files, root = FileSystem.from_uri(location)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"checkpointLocation {location} cannot be used with delivery=idempotent: {error}") from None
    return files, str(root)
