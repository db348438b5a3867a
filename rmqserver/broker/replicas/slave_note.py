"""What a slave records in its store for its next start: that it was a slave, and whether its log differs from its
master's. The logs cannot be compared while the master is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.master import SlaveLog, SlaveLogFile
from rmqserver.broker.tables.config_table import from_file

if TYPE_CHECKING:
    from rmqserver.store.disk.config_files import ConfigFiles

FILE_NAME = "slaveLog.json"
"""Apache's brokers have no such file."""


class SlaveNote:
    def __init__(self, files: ConfigFiles):
        self.is_other_log = False
        self._files = files

    def load(self) -> None:
        """Call it when the broker starts as a slave. Raises StorageError."""
        self.is_other_log = _read(self._files).is_other_log
        self._save()

    def compared(self, *, is_other_log: bool) -> None:
        if is_other_log is not self.is_other_log:
            self.is_other_log = is_other_log
            self._save()

    def _save(self) -> None:
        _save(self._files, SlaveLog(is_slave=True, is_other_log=self.is_other_log))


def was_slave(files: ConfigFiles) -> bool:
    """Whether the broker's tables are copies of another broker's, whose log may be longer. Raises StorageError."""
    return _read(files).is_slave


def forget_slave_note(files: ConfigFiles) -> None:
    """Records that this broker is no longer a slave."""
    if was_slave(files):
        _save(files, SlaveLog())


def _read(files: ConfigFiles) -> SlaveLog:
    return from_file(files.load(FILE_NAME), SlaveLogFile, FILE_NAME).slave_log


def _save(files: ConfigFiles, note: SlaveLog) -> None:
    files.save_now(FILE_NAME, {"slaveLog": msgspec.to_builtins(note)})
