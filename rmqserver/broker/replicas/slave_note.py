"""What a slave leaves in its store for its next start: that it was one, and whether its log is another than its
master's. Nobody can compare them while the master is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqserver.store.disk.config_files import ConfigFiles

FILE_NAME = "slaveLog.json"
"""Ours."""

_IS_SLAVE = "isSlave"
_IS_OTHER = "isOtherLog"


class SlaveNote:
    def __init__(self, files: ConfigFiles):
        self.is_other_log = False
        self._files = files

    def load(self) -> None:
        """At a start as a slave."""
        self.is_other_log = self._files.load(FILE_NAME).get(_IS_OTHER) is True
        self._save()

    def compared(self, *, is_other_log: bool) -> None:
        if is_other_log is not self.is_other_log:
            self.is_other_log = is_other_log
            self._save()

    def _save(self) -> None:
        self._files.save_now(FILE_NAME, {_IS_SLAVE: True, _IS_OTHER: self.is_other_log})


def was_slave(files: ConfigFiles) -> bool:
    """Whether its tables are copies of another broker's, whose log may have gone further."""
    return files.load(FILE_NAME).get(_IS_SLAVE) is True


def forget(files: ConfigFiles) -> None:
    """This broker is a slave no more."""
    if was_slave(files):
        files.save_now(FILE_NAME, {_IS_SLAVE: False, _IS_OTHER: False})
