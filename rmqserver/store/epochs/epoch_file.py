"""The file of a broker's epochs (``storePathEpochFile``; ``EpochFileCache``, ``CheckpointFile``, 5.5.0)."""

from __future__ import annotations

from rmqproto.errors import ProtocolError, StorageError
from rmqserver.store.disk.disk import Disk, make_directory, storage_error
from rmqserver.store.disk.whole_files import BACKUP, replace_with_backup
from rmqserver.store.epochs.epoch_list import EpochList


class EpochFile:
    """``epochs`` are as on the device after ``load`` and ``save``."""

    def __init__(self, path: str, disk: Disk):
        self.epochs = EpochList()
        self._path = path
        self._disk = disk

    def load(self) -> None:
        """Empty if there is no file. StorageError if neither the file nor its older copy can be read: a slave without
        epochs would take its whole log for its master's."""
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

    def begin(self, epoch: int, start_offset: int) -> None:
        """Starts an epoch, and saves it. ProtocolError if it cannot follow the last one, StorageError if the disk
        refuses; nothing is changed then, so the same epoch can begin later."""
        before = list(self.epochs.entries)
        self.epochs.begin(epoch, start_offset)
        try:
            self.save()
        except StorageError:
            self.epochs.entries[:] = before
            raise

    def save(self) -> None:
        """Removes the file if the list has become empty; an Apache broker would leave it. StorageError if the disk
        refuses."""
        path, disk = self._path, self._disk
        try:
            if not self.epochs.entries:
                for name in (path + BACKUP, path):
                    if disk.is_file(name):
                        disk.unlink(name)
                        disk.sync_directory(path.rpartition("/")[0])
                return
            make_directory(disk, path.rpartition("/")[0])
            replace_with_backup(disk, path, self.epochs.to_text().encode())
        except OSError as error:
            raise storage_error(error, "cannot write", path) from error


def epochs_in_untrusted(data: bytes) -> EpochList:
    """The content of such a file. ProtocolError if it is damaged; its text says how."""
    if not data:
        raise ProtocolError("is empty")  # an Apache broker was stopped while it wrote it
    try:
        return EpochList.of_text_untrusted(data.decode("ascii", "replace"))
    except ProtocolError as error:
        raise ProtocolError(f"is damaged: {error}") from None
