"""The files that keep the id for which this broker applied in its set (``BrokerMetadata``, ``TempBrokerMetadata``,
5.5.0)."""

from __future__ import annotations

from rmqproto.errors import ProtocolError, RefusedError, StorageError
from rmqserver.broker.controlled.controllers import LeaderQuestions, wall_ms
from rmqserver.store.disk.disk import Disk, make_directory, storage_error
from rmqserver.store.disk.whole_files import replace_file
from rmqserver.store.epochs import APPLIED_PART_COUNT, PART_COUNT, SEPARATOR, identity_parts_untrusted

TEMPORARY = "-temp"

_HINT = "put back a copy of it; or delete it, and the broker joins its set under a new id"


class IdentityFiles:
    """Methods raise StorageError for files that are damaged, belong to another broker, or cannot be written."""

    def __init__(self, path: str, cluster: str, broker_name: str, disk: Disk):
        self._path = path
        self._cluster = cluster
        self._broker_name = broker_name
        self._disk = disk

    def load(self) -> int | None:
        """Returns the id; None if there is none yet."""
        parts = self._parts(self._path, PART_COUNT)
        if parts is None and self._disk.is_file(self._path) and self.load_applied() is None:
            raise StorageError(
                f"{self._path} is empty, and so does not say which broker of its set this is",
                hint=_HINT,
            )
        return None if parts is None else int(parts[2])

    def load_applied(self) -> tuple[int, str] | None:
        """Returns the id that was applied for and the code used for it; None if no application was recorded."""
        parts = self._parts(self._path + TEMPORARY, APPLIED_PART_COUNT)
        return None if parts is None else (int(parts[2]), parts[3])

    def apply(self, broker_id: int, code: str) -> None:
        """Records that the broker is about to ask the controller for that id."""
        self._write(self._path + TEMPORARY, str(broker_id), code)

    def refuse(self) -> None:
        """Forgets the application: the id is another broker's."""
        self._unlink(self._path + TEMPORARY)

    def save(self, broker_id: int) -> None:
        """Saves the id as this broker's."""
        self._write(self._path, str(broker_id))
        self._unlink(self._path + TEMPORARY)

    async def apply_for_id(self, questions: LeaderQuestions, own_addr: str) -> int:
        """Gets an id from the controller, and saves it. A broker that was killed while it applied asks for the same id
        again, with the same code. Raises RefusedError, too, if the id is another broker's, and as ``questions`` do."""
        applied = self.load_applied()
        if applied is None:
            applied = await questions.next_id(), f"{own_addr};{wall_ms()}"
            self.apply(*applied)
        try:
            await questions.apply_for_id(*applied)
        except RefusedError:
            self.refuse()
            raise
        self.save(applied[0])
        return applied[0]

    def _parts(self, path: str, count: int) -> list[str] | None:
        if not self._disk.is_file(path):
            return None
        try:
            parts = identity_parts_untrusted(self._disk.read_bytes(path), count)
        except ProtocolError as error:
            raise StorageError(f"{path} {error}", hint=_HINT) from None
        if parts is not None and parts[:2] != [self._cluster, self._broker_name]:
            raise StorageError(
                f"{path} is of broker {parts[1]} of cluster {parts[0]}, and this is {self._broker_name} of "
                f"{self._cluster}",
                hint="give this broker another --data directory, or the names that it had",
            )
        return parts

    def _write(self, path: str, *rest: str) -> None:
        data = SEPARATOR.join((self._cluster, self._broker_name, *rest)).encode()
        try:
            make_directory(self._disk, path.rpartition("/")[0])
            replace_file(self._disk, path, data)
        except OSError as error:
            raise storage_error(error, "cannot write", path) from error

    def _unlink(self, path: str) -> None:
        if self._disk.is_file(path):
            self._disk.unlink(path)
            self._disk.sync_directory(path.rpartition("/")[0])
