"""A table of named entries in one JSON file under ``config/``: topics and groups. Entries are replaced, never changed
in place, because their rendered form is kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from rmqproto.bodies.base import Body, DataVersion
from rmqproto.errors import StorageError
from rmqserver.broker.errors import TableFull
from rmqserver.store.disk.config_files import ConfigFiles, Document
from rmqserver.store.disk.table_file import TableFile

E = TypeVar("E", bound=Body)
T = TypeVar("T")

ENTRIES_MAX = 50_000
"""Topics, or groups, of one broker. Any client can create one by naming it. The limit is ours: Apache's broker takes as
many as its heap holds."""


def next_version(version: DataVersion, now_ms: int) -> DataVersion:
    """The version after one change (``DataVersion.nextVersion``, 5.5.0)."""
    return DataVersion(counter=version.counter + 1, state_version=version.state_version, timestamp=now_ms)


def from_file(value: Any, type: type[T], where: str) -> T:
    """Converts a JSON value of a configuration file to ``type``. Raises a StorageError that names ``where`` it
    stands."""
    try:
        return msgspec.convert(value, type, strict=False, str_keys=True)
    except msgspec.ValidationError as error:
        raise StorageError(f"config/{where}: {error}", hint="repair the file, or remove it") from None


class ConfigTable(Generic[E]):
    """``member`` is the member of the file that holds the entries. When a change returns, it is in the file, unless the
    table is large (``TableFile``). It survives if the process is killed then, so anything that follows from it may be
    answered."""

    def __init__(self, files: ConfigFiles, file_name: str, member: str, type: type[E], clock_ms: Callable[[], int]):
        self.data_version = DataVersion(timestamp=clock_ms())  # otherwise a wiped table would look like the one before
        self.on_change: list[Callable[[Collection[str] | None], None]] = []
        """Called after every change: with the names of what was put, with no names after a deletion, and with None if
        any entry may have changed."""
        self._file = TableFile(files, file_name, member)
        self._type = type
        self._clock_ms = clock_ms
        self._entries: dict[str, E] = {}

    def get(self, name: str) -> E | None:
        return self._entries.get(name)

    def all(self) -> Mapping[str, E]:
        """All entries by name, in the order of their creation. Not to be changed."""
        return self._entries

    def load(self) -> Document:
        """Loads the file's entries over those of the table, and returns the file's content. Raises StorageError if that
        cannot be a table of ours."""
        document, name, member = self._file.load(), self._file.name, self._file.member
        if version := document.get("dataVersion"):
            self.data_version = from_file(version, DataVersion, f"{name}: dataVersion")
        entries = from_file(document.get(member) or {}, dict[str, Any], f"{name}: {member}")
        for key, value in entries.items():
            self._set(key, from_file(value, self._type, f"{name}: {key}"))
        return document

    def put_entries(self, entries: Mapping[str, E]) -> None:
        """Puts all of them as one change. Raises TableFull if there is no room for all; then none is put."""
        added_count = sum(name not in self._entries for name in entries)
        if added_count and len(self._entries) + added_count > ENTRIES_MAX:
            remark = f"{self._file.member} holds {ENTRIES_MAX} entries, and no more are taken: delete some"
            raise TableFull(remark)
        for name, entry in entries.items():
            self._set(name, entry)
        if entries:
            self.changed(entries.keys())

    def delete(self, name: str) -> bool:
        """Returns False if there was none."""
        if self._entries.pop(name, None) is None:
            return False
        self._file.remove(name)
        self.changed(())
        return True

    def take_over(self, entries: Mapping[str, E], version: DataVersion) -> None:
        """Makes the table that of another broker, version included."""
        for name in self._entries.keys() - entries.keys():
            del self._entries[name]
            self._file.remove(name)
        for name, entry in entries.items():
            if self._entries.get(name) != entry:
                self._set(name, entry)
        self.data_version = version
        self.save()
        for callback in self.on_change:
            callback(None)

    def changed(self, put_names: Collection[str] | None = None) -> None:
        """Counts a change, saves the table, and calls ``on_change``."""
        self.data_version = next_version(self.data_version, self._clock_ms())
        self.save()
        for callback in self.on_change:
            callback(put_names)

    def save(self) -> None:
        self._file.save({"dataVersion": msgspec.to_builtins(self.data_version), **self.other_members()})

    def other_members(self) -> Document:
        """Members of the file besides version and entries, for tables that have more."""
        return {}

    def _set(self, name: str, entry: E) -> None:
        self._entries[name] = entry
        self._file.put(name, msgspec.to_builtins(entry))
