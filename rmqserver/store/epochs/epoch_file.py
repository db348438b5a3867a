"""The file of a broker's epochs (``storePathEpochFile``; ``EpochFileCache``, ``CheckpointFile``, 5.5.0)."""

from __future__ import annotations

from rmqproto.errors import ProtocolError, StorageError
from rmqserver.store.disk.disk import Disk, make_directory, storage_error
from rmqserver.store.epochs.epoch_list import EpochList

BACKUP = ".bak"


class EpochFile:
    """``epochs`` are as on the device after ``load`` and ``save``."""

    def __init__(self, path: str, disk: Disk):
        self.epochs = EpochList()
        self._path = path
        self._disk = disk

    def load(self) -> None:
        """None if there is no file. StorageError if neither it nor its older copy can be read: a slave without epochs
        takes its whole log for its master's."""
        problem = ""
        for path in (self._path, self._path + BACKUP):
            if not self._disk.is_file(path):
                continue
            try:
                self.epochs = epochs_in_untrusted(self._disk.read_bytes(path))
                return
            except ProtocolError as error:
                problem = problem or f"{path} {error}"
        if problem:
            raise StorageError(problem, hint="put back a copy of the file, or start this broker on an empty store")

    def save(self) -> None:
        """StorageError if they cannot be written. An Apache broker leaves the file of a list that has become empty."""
        path, disk = self._path, self._disk
        try:
            if not self.epochs.entries:
                for name in (path + BACKUP, path):
                    if disk.is_file(name):
                        disk.unlink(name)
                        disk.sync_directory(path.rpartition("/")[0])
                return
            write_safely(disk, path, self.epochs.to_text().encode())
        except OSError as error:
            raise storage_error(error, "cannot write", path) from error


def epochs_in_untrusted(data: bytes) -> EpochList:
    """What such a file holds. ProtocolError, as what is said of it."""
    if not data:
        raise ProtocolError("is empty")  # an Apache broker was stopped as it wrote it
    try:
        return EpochList.of_text_untrusted(data.decode("ascii", "replace"))
    except ProtocolError as error:
        raise ProtocolError(f"is damaged: {error}") from None


def write_safely(disk: Disk, path: str, data: bytes) -> None:
    """The file is as before, or as now, whenever the process or the power goes; its ``.bak`` is what it was before.
    OSError."""
    directory = path.rpartition("/")[0]
    make_directory(disk, directory)
    before = disk.read_bytes(path) if disk.is_file(path) else b""
    for name, content in ((path + BACKUP, before), (path, data)):
        if content:
            file = disk.open(f"{name}.tmp", create_size_bytes=0)
            file.truncate(0)
            file.pwrite(content, 0)
            file.fdatasync()
            file.close()
            disk.rename(f"{name}.tmp", name)
    disk.sync_directory(directory)
