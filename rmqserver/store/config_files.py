"""The JSON tables below ``config/`` (``ConfigManager``, 5.5.0): how they are read, and written while the loop goes on.
What is in them is the broker's business; here is only the promise that a table is always there as it was before or as
it is now, and that members which a newer broker put into it are still there afterwards."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from rmqproto.errors import ProtocolError, StorageError
from rmqproto.fastjson import dumps, parse_untrusted
from rmqserver.store.disk import Disk, make_directory, storage_error

_log = logging.getLogger(__name__)

Document = dict[Any, Any]
"""One table. As loaded, its keys are text; integer keys are written without quotes, as Apache does."""


class ConfigFiles:
    """``load`` and ``save`` are called by one thread. Saves go to a thread of their own, which writes the newest
    document of each name; ``close`` waits for it. ``on_error`` is called, in that thread, when a save failed."""

    def __init__(self, directory: str, disk: Disk, on_error: Callable[[StorageError], None] | None = None):
        self.directory = directory
        self._disk = disk
        self._on_error = on_error
        self._documents: dict[str, Document] = {}
        self._waiting: dict[str, Document] = {}
        self._failed: dict[str, Document] = {}
        """What could not be written; tried again with the next save, whatever its name, and at the end."""
        self._changed = threading.Condition()
        self._is_writing = self._is_closed = self._is_directory_kept = False
        self._thread: threading.Thread | None = None

    # -- reading

    def load(self, name: str) -> Document:
        """The table ``name`` (``topics.json``); its ``.bak`` copy if it is missing or damaged; empty if there is
        neither. StorageError if what is there is damaged: an empty table in its place would lose it for good."""
        if self._disk.is_file(self.directory):
            raise StorageError(f"{self.directory} is a file, not a directory", hint="move it away")
        damaged = None
        for path in (f"{self.directory}/{name}", f"{self.directory}/{name}.bak"):
            if self._disk.is_directory(path):
                damaged = damaged or f"{path}: a directory, not a table"
            if not self._disk.is_file(path):
                continue
            try:
                data = self._disk.read_bytes(path)
            except OSError as error:
                raise storage_error(error, "cannot read configuration table", path) from error
            if not data.strip():
                continue
            try:
                document = parse_untrusted(data)
            except ProtocolError as error:
                damaged = damaged or f"{path}: {error}"
                continue
            if isinstance(document, dict):
                if damaged:
                    _log.warning("%s; using %s", damaged, path)
                self._documents[name] = document
                return document
            damaged = damaged or f"{path}: not a table"
        if damaged:
            raise StorageError(damaged, hint="repair the file by hand, or move it and its .bak away to start empty")
        return {}

    # -- writing

    def save(self, name: str, document: Document, *, table: str | None = None) -> None:
        """Has ``document`` written soon; it must not be changed afterwards. Does not wait.

        Members that the last document of that name had, and this one lacks, stay: at the top, and in those entries of
        the member ``table`` that both have. A member given as None goes.
        """
        document = _with_unknown_members(self._documents.get(name), document, table)
        self._documents[name] = document
        with self._changed:
            assert not self._is_closed
            self._waiting = {**self._failed, **self._waiting, name: document}
            self._failed.clear()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="store-config", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait_until_saved(self) -> None:
        """Returns when everything given to ``save`` so far is on the device, or was reported as failed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._is_writing)

    def close(self) -> None:
        """Writes what waits, and ends the thread."""
        with self._changed:
            self._is_closed = True
            self._waiting = {**self._failed, **self._waiting}
            self._failed.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                name = next(iter(self._waiting))
                document = self._waiting.pop(name)
                self._is_writing = True
            try:
                self._write(name, pretty(document))
            except OSError as error:
                problem = storage_error(error, "cannot write configuration table", f"{self.directory}/{name}")
                with self._changed:
                    self._failed.setdefault(name, document)
                _log.error("%s", problem)
                if self._on_error is not None:
                    self._on_error(problem)

    def _write(self, name: str, data: bytes) -> None:
        """At every moment ``name``, or else ``name.bak``, is a whole table."""
        path = f"{self.directory}/{name}"
        if not self._is_directory_kept:
            make_directory(self._disk, self.directory)
            self._is_directory_kept = True
        self._disk.unlink(path + ".tmp")
        file = self._disk.open(path + ".tmp", create_size_bytes=0)
        file.pwrite(data, 0)
        file.fdatasync()
        file.close()
        if self._disk.is_file(path):
            self._disk.rename(path, path + ".bak")
        self._disk.rename(path + ".tmp", path)
        self._disk.sync_directory(self.directory)


def _with_unknown_members(before: Document | None, now: Document, table: str | None) -> Document:
    if before is None:
        return now
    merged = dict(_union(before, now))
    if table is not None and isinstance(old := before.get(table), dict) and isinstance(new := now.get(table), dict):
        # Most entries are the very objects of the last time: to save a table of 50,000 must not stop the loop.
        merged[table] = {
            key: entry if (known := old.get(key)) is entry or not (isinstance(entry, dict) and isinstance(known, dict))
            else _union(known, entry)
            for key, entry in new.items()
        }  # fmt: skip
    return merged


def _union(before: Document, now: Document) -> Document:
    if before.keys() <= now.keys() and None not in now.values():
        return now
    return {key: value for key, value in {**before, **now}.items() if value is not None}


def pretty(document: Document) -> bytes:
    """As fastjson2's pretty form writes it: tabs, one member a line, lists of numbers on one line."""
    parts: list[str] = []
    _write_pretty(document, "\n", parts)
    return "".join(parts).encode()


def _write_pretty(value: Any, line: str, parts: list[str]) -> None:
    inner = line + "\t"
    if isinstance(value, dict) and value:
        separator = "{"
        for key, member in value.items():
            if member is None:
                continue
            parts.append(f"{separator}{inner}{dumps(key).decode()}:")
            _write_pretty(member, inner, parts)
            separator = ","
        parts.append(line + "}" if separator == "," else "{}")
    elif isinstance(value, list) and any(isinstance(element, str | dict | list) for element in value):
        separator = "["
        for element in value:
            parts.append(separator + inner)
            _write_pretty(element, inner, parts)
            separator = ","
        parts.append(line + "]")
    else:
        parts.append(dumps(value).decode())
