"""The nameserver's key-value table: namespaces of settings that tools put there, such as the queues of ordered topics.
Kept in Apache's file (``kvConfig.json``), written at every change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from rmqproto.errors import StorageError

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of ordered topics: topic to ``broker-a:4;broker-b:8``, a broker's name and its number of queues."""

_MEMBER = "configTable"


class JsonFiles(Protocol):
    """Where the table is kept (``rmqserver.store.config_files``)."""

    def load(self, name: str) -> dict[str, Any] | None: ...

    def save(self, name: str, document: Mapping[str, Any]) -> None: ...


class KvConfig:
    """Values by namespace and key. With no ``files`` the table lives in memory alone."""

    def __init__(self, files: JsonFiles | None = None, file_name: str = "kvConfig.json"):
        self._files = files
        self._file_name = file_name
        self._namespaces: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        """Takes over the file, if there is one. StorageError if it is no table of namespaces."""
        document = (self._files.load(self._file_name) if self._files else None) or {}
        try:
            self._namespaces = msgspec.convert(document.get(_MEMBER) or {}, dict[str, dict[str, str]])
        except msgspec.ValidationError as error:
            raise StorageError(f"{self._file_name}: {error}", hint="repair the file, or remove it") from None

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def all(self, namespace: str) -> dict[str, str] | None:
        """Keys and values; None for a namespace in which nothing was ever put."""
        return self._namespaces.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        self._namespaces.setdefault(namespace, {})[key] = value
        self._save()

    def delete(self, namespace: str, key: str) -> None:
        """The namespace stays, even with nothing in it."""
        if self._namespaces.get(namespace, {}).pop(key, None) is not None:
            self._save()

    def _save(self) -> None:
        if self._files is not None:
            self._files.save(self._file_name, {_MEMBER: self._namespaces})
