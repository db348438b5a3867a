"""Storage of a group's offsets: at the brokers for a group that shares its queues, or in a file per member for a
broadcasting group (``RemoteBrokerOffsetStore``, ``LocalFileOffsetStore``, 5.5.0)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from rmqclient.consuming.subscribing import MessageModel
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import LocalOffsets
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.ha import MASTER_ID
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import OffsetAnswer, QueryConsumerOffsetHeader, UpdateConsumerOffsetHeader
from rmqproto.wire import fastjson
from rmqproto.wire.fastjson import ObjectMap

DIRECTORY = ".rocketmq_offsets"
"""The directory below the user's home: ``rocketmq.client.localOffsetStoreDir``."""


class OffsetStore(Protocol):
    """All offsets are the queue offsets of the next message that the group needs."""

    async def read(self, queue: MessageQueue) -> int | None:
        """The group's offset; None if it has none. RocketMQError if it cannot be read now."""
        ...

    async def write(self, queue: MessageQueue, queue_offset: int) -> None:
        """RocketMQError if the offset could not be stored. It is safe after the next ``flush``."""
        ...

    async def flush(self) -> None:
        """RocketMQError if offsets could not be stored."""
        ...


class BrokerOffsetStore:
    """Offsets at the brokers: requests 14 and 15."""

    def __init__(self, client: ClientInstance, group: str, *, set_zero_if_not_found: bool | None = None):
        """``set_zero_if_not_found``: whether the broker may answer 0 for a group without an offset; None: as it
        does by itself."""
        self._client = client
        self._group = group
        self._set_zero_if_not_found = set_zero_if_not_found

    async def read(self, queue: MessageQueue) -> int | None:
        header = QueryConsumerOffsetHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id,
            set_zero_if_not_found=self._set_zero_if_not_found,
        )  # fmt: skip
        accept = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        address = self._client.routes.replica_of(queue, MASTER_ID)
        code = RequestCode.QUERY_CONSUMER_OFFSET
        answer = await self._client.channels.request(address, code, header, accept=accept)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        offset = from_ext(answer.ext, OffsetAnswer).offset
        return offset if offset >= 0 else None

    async def write(self, queue: MessageQueue, queue_offset: int) -> None:
        header = UpdateConsumerOffsetHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=queue_offset
        )
        address = self._client.routes.replica_of(queue, MASTER_ID)
        await self._client.channels.request(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def flush(self) -> None:
        """Does nothing: an offset is stored once its broker has answered."""


def offset_store(client: ClientInstance, group: str, model: MessageModel, directory: Path | None) -> OffsetStore:
    """The offset store of a consumer of that model. A broadcasting one keeps offsets in CLIENT_ID/GROUP/offsets.json
    below ``directory`` (None: Apache's directory). StorageError for a file that cannot be read."""
    if model is MessageModel.CLUSTERING:
        return BrokerOffsetStore(client, group)
    return LocalOffsetStore((directory or _home() / DIRECTORY) / client.client_id / group / "offsets.json")


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry in passwd
        raise StorageError("no home directory is known for offsets", hint="Set HOME, or name a directory.") from None


class LocalOffsetStore:
    """Offsets in ``file``, as JSON that Apache's clients can read. The previous version stays beside it as ``.bak``,
    and is used if the file is damaged. Only one process at a time may write it."""

    def __init__(self, file: Path):
        """StorageError if neither the file nor its copy can be read. Without a file there are no offsets."""
        self._file = file
        self._backup = file.with_name(file.name + ".bak")
        self._is_whole = False
        """Whether the file can be read. Otherwise it must not replace its copy."""
        self._offsets = self._load()
        self._is_changed = False

    async def read(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    async def write(self, queue: MessageQueue, queue_offset: int) -> None:
        self._is_changed |= self._offsets.get(queue) != queue_offset
        self._offsets[queue] = queue_offset

    async def flush(self) -> None:
        """Returns when the file is on disk."""
        if not self._is_changed:
            return
        self._is_changed = False
        data = fastjson.dumps(LocalOffsets(offset_table=ObjectMap(sorted(self._offsets.items()))))
        try:
            await anyio.to_thread.run_sync(self._save, data)
        except OSError as error:
            self._is_changed = True
            raise StorageError(f"offsets not stored: {error}") from None

    def _load(self) -> dict[MessageQueue, int]:
        problem = None
        for file in (self._file, self._backup):
            try:
                found = dict(fastjson.loads_untrusted(file.read_bytes(), LocalOffsets).offset_table)
            except FileNotFoundError:
                continue
            except (OSError, ProtocolError) as error:
                problem = StorageError(f"{file}: {error}", hint="Delete it to start over.")
            else:
                self._is_whole = file is self._file
                return found
        if problem is not None:
            raise problem
        return {}

    def _save(self, data: bytes) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_name(self._file.name + ".tmp")
        with fresh.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        if self._is_whole and self._file.exists():
            self._file.replace(self._backup)
        fresh.replace(self._file)
        self._is_whole = True
