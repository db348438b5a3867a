"""A table of named entries in one JSON file under ``config/``: topics and groups. Entries are replaced, never changed
in place, so that a table which is being written by another thread stays whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from rmqproto.bodies import Body, DataVersion
from rmqproto.codes import ResponseCode
from rmqproto.errors import StorageError
from rmqserver.answer import Refused
from rmqserver.store.config_files import ConfigFiles, Document

E = TypeVar("E", bound=Body)
T = TypeVar("T")

ENTRIES_MAX = 50_000
"""Topics, and groups, of one broker: any client makes one by naming it, and each change goes through the whole table.
Ours; Apache's broker takes what its heap takes."""


def next_version(version: DataVersion, now_ms: int) -> DataVersion:
    """The version after one change (``DataVersion.nextVersion``, 5.5.0)."""
    return DataVersion(counter=version.counter + 1, state_version=version.state_version, timestamp=now_ms)


def from_file(value: Any, type: type[T], where: str) -> T:
    """A JSON value of a configuration file as ``type``. StorageError that names ``where`` it stands."""
    try:
        return msgspec.convert(value, type, strict=False, str_keys=True)
    except msgspec.ValidationError as error:
        raise StorageError(f"config/{where}: {error}", hint="repair the file, or remove it") from None


class ConfigTable(Generic[E]):
    """``member`` is the file's member that holds the entries. Every change is saved at once, by a thread."""

    def __init__(self, files: ConfigFiles, file_name: str, member: str, type: type[E], clock_ms: Callable[[], int]):
        self.data_version = DataVersion(timestamp=clock_ms())  # or a wiped table would pass for the one before
        self.on_change: list[Callable[[], None]] = []
        """Called after every change: the nameservers are told of topics at once."""
        self._files = files
        self._file_name = file_name
        self._member = member
        self._type = type
        self._clock_ms = clock_ms
        self._entries: dict[str, E] = {}
        self._plain: dict[str, Document] = {}
        """The entries as the file has them: to save a table of a thousand topics must not convert all of them."""

    def get(self, name: str) -> E | None:
        return self._entries.get(name)

    def all(self) -> Mapping[str, E]:
        """All entries by name, in the order of their creation. Not to be changed."""
        return self._entries

    def load(self) -> Document:
        """Takes over what the file has, over what the table has; returns the file's content. StorageError where
        that cannot be a table of ours."""
        document = self._files.load(self._file_name)
        if version := document.get("dataVersion"):
            self.data_version = from_file(version, DataVersion, f"{self._file_name}: dataVersion")
        entries = from_file(document.get(self._member) or {}, dict[str, Any], f"{self._file_name}: {self._member}")
        for name, value in entries.items():
            self._set(name, from_file(value, self._type, f"{self._file_name}: {name}"))
        return document

    def put_entry(self, name: str, entry: E) -> None:
        """Refused if there is no room for one more."""
        if len(self._entries) >= ENTRIES_MAX and name not in self._entries:
            remark = f"{self._member} holds {ENTRIES_MAX} entries, and no more are taken: delete some"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        self._set(name, entry)
        self.changed()

    def delete(self, name: str) -> bool:
        """False if there was none."""
        if self._entries.pop(name, None) is None:
            return False
        del self._plain[name]
        self.changed()
        return True

    def changed(self) -> None:
        """Counts a change, saves the table, tells who wants to know."""
        self.data_version = next_version(self.data_version, self._clock_ms())
        self.save()
        for callback in self.on_change:
            callback()

    def save(self) -> None:
        document = {"dataVersion": msgspec.to_builtins(self.data_version), **self.other_members()}
        self._files.save(self._file_name, {**document, self._member: dict(self._plain)}, table=self._member)

    def other_members(self) -> Document:
        """Members of the file beside version and entries, for tables that have some."""
        return {}

    def _set(self, name: str, entry: E) -> None:
        self._entries[name] = entry
        self._plain[name] = msgspec.to_builtins(entry)
