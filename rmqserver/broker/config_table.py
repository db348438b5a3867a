"""A table of named entries in one JSON file under ``config/``: topics and groups. Entries are replaced, never changed
in place, so that what is being written by another thread stays whole; members of entries and of the file that we do
not know are kept, because a newer broker may have written them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from rmqproto.bodies import Body, DataVersion
from rmqproto.errors import ProtocolError, StorageError

if TYPE_CHECKING:
    from rmqserver.store.config_files import ConfigFiles

E = TypeVar("E", bound=Body)


def next_version(version: DataVersion, now_ms: int) -> DataVersion:
    """The version after one change (``DataVersion.nextVersion``, 5.5.0)."""
    return DataVersion(counter=version.counter + 1, state_version=version.state_version, timestamp=now_ms)


def convert_untrusted(value: Any, type: type[E], where: str) -> E:
    """A JSON value as ``type``. ProtocolError that names ``where`` it stands."""
    try:
        return msgspec.convert(value, type, strict=False, str_keys=True)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"{where}: {error}") from None


class ConfigTable(Generic[E]):
    """``member`` is the file's member that holds the entries; every change is saved at once (by a thread)."""

    def __init__(self, files: ConfigFiles, file_name: str, member: str, type: type[E], clock_ms: Callable[[], int]):
        self.data_version = DataVersion()
        self.on_change: Callable[[], None] | None = None
        """Called after every change: the nameservers are told of topics at once."""
        self._files = files
        self._file_name = file_name
        self._member = member
        self._type = type
        self._clock_ms = clock_ms
        self._entries: dict[str, E] = {}
        self._unknown: dict[str, dict[str, Any]] = {}
        self._document: dict[str, Any] = {}

    def get(self, name: str) -> E | None:
        return self._entries.get(name)

    def all(self) -> Mapping[str, E]:
        """All entries by name, in the order of their creation. Not to be changed."""
        return self._entries

    def load(self) -> None:
        """Takes over what the file has, over what the table has. StorageError if it is none of ours."""
        document = self._files.load(self._file_name) or {}
        entries = document.pop(self._member, None) or {}
        known = set(self._type.__struct_encode_fields__)
        try:
            self.data_version = convert_untrusted(document.pop("dataVersion", None) or {}, DataVersion, "dataVersion")
            for name, value in entries.items():
                self._entries[name] = convert_untrusted(value, self._type, f"{self._member}.{name}")
                if unknown := {key: item for key, item in value.items() if key not in known}:
                    self._unknown[name] = unknown
        except ProtocolError as error:
            raise StorageError(f"config/{self._file_name}: {error}", hint="repair the file, or remove it") from None
        self._document = document

    def put_entry(self, name: str, entry: E) -> None:
        self._entries[name] = entry
        self.changed()

    def delete(self, name: str) -> bool:
        """False if there was none."""
        self._unknown.pop(name, None)
        if self._entries.pop(name, None) is None:
            return False
        self.changed()
        return True

    def changed(self) -> None:
        """Counts a change, saves the table, tells who wants to know."""
        self.data_version = next_version(self.data_version, self._clock_ms())
        self.save()
        if self.on_change is not None:
            self.on_change()

    def save(self) -> None:
        self._files.save(self._file_name, self.document())

    def document(self) -> dict[str, Any]:
        """The file's content; 5.5.0 writes the members of an object in the order of their names."""
        entries: dict[str, Any] = {
            name: {**msgspec.to_builtins(entry), **self._unknown[name]} if name in self._unknown else entry
            for name, entry in self._entries.items()
        }
        document = {**self._document, "dataVersion": self.data_version, self._member: entries, **self.extra_members()}
        return dict(sorted(document.items()))

    def extra_members(self) -> dict[str, Any]:
        """Members of the file beside the entries, for tables that have some."""
        return {}
