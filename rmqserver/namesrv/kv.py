"""The nameserver's key-value table: namespaces of settings that tools put there, such as the queues of ordered topics.
It is kept in Apache's file (``kvConfig.json``), which is written at every change."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rmqproto.codes import ResponseCode
from rmqproto.errors import StorageError
from rmqserver.operation import Refused
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk

KV_MAX_CHARS = 16 << 20
"""Limit for namespaces, keys and values together, since the whole table is written at every change."""

_MEMBER = "configTable"


class KvConfig:
    """Values by namespace and key, in the file ``path``, or only in memory if that is None. The caller closes it."""

    def __init__(self, path: Path | None = None):
        self._path = path or Path()
        self._files = ConfigFiles(str(path.parent), OsDisk(), self._not_saved) if path else None
        self._namespaces: dict[str, dict[str, str]] = {}
        self._is_all_saved = True
        self._size_chars = 0

    def load(self) -> None:
        """Loads the file, if there is one. Raises StorageError if it is not a table of namespaces."""
        document = self._files.load(self._path.name) if self._files else {}
        try:
            self._namespaces = msgspec.convert(document.get(_MEMBER) or {}, dict[str, dict[str, str]])
        except msgspec.ValidationError as error:
            raise StorageError(f"{self._path}: {error}", hint="repair the file, or remove it") from None
        for namespace, pairs in self._namespaces.items():
            self._size_chars += len(namespace) + sum(len(key) + len(value) for key, value in pairs.items())

    def close(self) -> bool:
        """Writes pending changes. Returns False if any write since the start has failed."""
        if self._files is not None:
            self._files.close()
        return self._is_all_saved

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def all(self, namespace: str) -> dict[str, str] | None:
        """Keys and values of a namespace; None if nothing was ever put into it."""
        return self._namespaces.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Raises Refused if there is no room."""
        before = self.get(namespace, key)
        added_chars = len(value) - len(before) if before is not None else len(key) + len(value)
        if namespace not in self._namespaces:
            added_chars += len(namespace)
        if self._size_chars + added_chars > KV_MAX_CHARS:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the table holds {KV_MAX_CHARS} characters, and takes no more")
        self._size_chars += added_chars
        self._namespaces.setdefault(namespace, {})[key] = value
        self._save()

    def delete(self, namespace: str, key: str) -> None:
        """The namespace stays, even if it is empty."""
        value = self._namespaces.get(namespace, {}).pop(key, None)
        if value is not None:
            self._size_chars -= len(key) + len(value)
            self._save()

    def _save(self) -> None:
        """Writes the file before the change is answered, so a killed process keeps it."""
        if self._files is not None:
            self._files.save_now(self._path.name, {_MEMBER: self._namespaces})

    def _not_saved(self, error: StorageError) -> None:
        self._is_all_saved = False
