"""Reads and writes the JSON tables below ``config/`` (``ConfigManager``, 5.5.0). Their content is the broker's
business. This file promises only that a table is always there, as it was before or as it is now, and that members which
a newer broker added are kept.

There are two ways to write a table. If its changes are acknowledged (topics, groups), it is handed to the kernel at
once, so that a killed process loses none of them. A thread syncs it later, and makes the synced version its ``.bak``. A
table that is written from time to time (offsets), or is large, is left to the thread entirely, which writes the newest
version and passes over those before it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from rmqproto.errors import ProtocolError, StorageError
from rmqproto.wire.fastjson import dumps, parse_large_untrusted
from rmqserver.store.disk.disk import Disk, File, make_directory, storage_error
from rmqserver.store.disk.whole_files import BACKUP, TEMPORARY, new_file, replace_file, replace_with_backup

_log = logging.getLogger(__name__)

COMPACT = frozenset({"timermetrics", "transactionMetrics"})
"""The tables that Apache writes on one line."""

PRIVATE = frozenset({"auth.json"})
"""The tables that hold secrets. Only their owner can read them and their copies."""

Document = dict[Any, Any]
"""One table. As loaded, its keys are text; integer keys are written without quotes, as Apache does."""


class _Job(NamedTuple):
    """The thread's task for a table. If it fails, the caller's thread calls ``again`` to start over."""

    do: Callable[[], None]
    again: Callable[[], None]


class ConfigFiles:
    """One thread calls it; ``close`` it. Write a table by ``save`` or by ``save_now``, and by ``save_now`` never
    after ``save``. ``on_error`` is called, in any thread, when a table could not be written or synced.

    Without ``background`` there is no thread, and ``wait_until_saved`` does its work.
    """

    def __init__(
        self,
        directory: str,
        disk: Disk,
        on_error: Callable[[StorageError], None] | None = None,
        *,
        background: bool = True,
    ):
        self.directory = directory
        self._disk = disk
        self._on_error = on_error
        self._background = background
        self._documents: dict[str, Document] = {}
        self._jobs: dict[str, _Job] = {}
        """The thread's waiting jobs, by table. A newer job replaces an older one."""
        self._failed: dict[str, Callable[[], None]] = {}
        """Tables that could not be written; tried again with the next save of any table, and at the end."""
        self._backed_up: set[str] = set()
        """Tables whose ``.bak`` was synced by this process. The file of any other may be another broker's, damaged, or
        not on the device, and must not become the ``.bak``."""
        self._changed = threading.Condition()
        self._is_working = self._is_closed = self._is_directory_kept = False
        self._thread: threading.Thread | None = None

    # -- reading

    def load(self, name: str) -> Document:
        """The table ``name`` (``topics.json``); its ``.bak`` copy if it is missing or damaged; empty if there is
        neither. StorageError if what is there is damaged: replacing it by an empty table would lose it for good."""
        if self._disk.is_file(self.directory):
            raise StorageError(f"{self.directory} is a file, not a directory", hint="move it away")
        damaged = None
        for path in (f"{self.directory}/{name}", f"{self.directory}/{name}.bak"):
            if self._disk.is_directory(path):  # no table could be written in its place
                raise StorageError(f"{path}: a directory, not a table", hint="move it away")
            if not self._disk.is_file(path):
                continue
            try:
                data = self._disk.read_bytes(path)
            except OSError as error:
                raise storage_error(error, "cannot read configuration table", path) from error
            if not data.strip():
                damaged = damaged or f"{path}: the file is empty"
                continue
            try:
                document = _parse_untrusted(data)
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

    def save(self, name: str, document: Document) -> None:
        """Has ``document`` written soon, without waiting; it must not be changed afterwards.

        Members that the last document of that name had and this one lacks stay. A member given as None is removed.
        """
        merged = self._merged(name, document)
        self.write_later(name, lambda: _text(name, merged))

    def save_later(self, name: str, document: Callable[[], Document]) -> None:
        """As ``save``, for a large document, which ``document`` makes in the thread."""
        self.write_later(name, lambda: _text(name, self._merged(name, document())))

    def write_later(self, name: str, text: Callable[[], bytes]) -> None:
        """As ``save``, for a file's whole content, which ``text`` returns in the thread."""
        self._supersede(name)
        self._write_later(name, text)

    def save_now(self, name: str, document: Document) -> None:
        """As ``save``, but at return the kernel has the table, so a change can be acknowledged."""
        self.write_now(name, pretty(self._merged(name, document)))

    def write_now(self, name: str, data: bytes) -> None:
        """As ``save_now``, for a file's whole content."""
        self._supersede(name)
        self._place(name, data)

    def try_again(self) -> None:
        """Writes the tables that could not be written before."""
        with self._changed:
            failed, self._failed = self._failed, {}
        for again in failed.values():
            again()

    def wait_until_saved(self) -> None:
        """Returns when everything handed over so far is on the device, or was reported as failed."""
        if not self._background:
            while self._jobs:
                self._work(*self._next_job())
        with self._changed:
            self._changed.wait_for(lambda: not self._jobs and not self._is_working)

    def close(self) -> None:
        """Writes and syncs what waits, and ends the thread."""
        self.try_again()
        self.wait_until_saved()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # -- in the caller's thread

    def _merged(self, name: str, document: Document) -> Document:
        merged = self._documents[name] = union(self._documents.get(name, {}), document)
        return merged

    def _supersede(self, name: str) -> None:
        """Forgets a failed write of an older version of ``name``, and tries other failed tables again."""
        with self._changed:
            assert not self._is_closed
            self._failed.pop(name, None)
        self.try_again()

    def _write_later(self, name: str, text: Callable[[], bytes]) -> None:
        self._hand_over(name, do=lambda: self._write(name, text()), again=lambda: self._write_later(name, text))

    def _place(self, name: str, data: bytes) -> None:
        """Puts the table in its place. A reader finds the previous version or this one."""
        path = f"{self.directory}/{name}"
        try:
            self._make_directory()
            if name not in self._backed_up:
                self._back_up(name, data, ".now")
                self._backed_up.add(name)
            file = new_file(self._disk, path + TEMPORARY, data, is_private=name in PRIVATE)
            self._disk.rename(path + TEMPORARY, path)
        except OSError as error:
            with self._changed:
                self._failed[name] = lambda: self._place(name, data)
            self._report(name, error)
            return
        self._hand_over(name, do=lambda: self._sync(name, file, data), again=lambda: self._place(name, data))

    def _hand_over(self, name: str, do: Callable[[], None], again: Callable[[], None]) -> None:
        with self._changed:
            self._jobs[name] = _Job(do, again)
            if self._thread is None and self._background:
                self._thread = threading.Thread(target=self._run, name="store-config", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    # -- in the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_working = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._jobs or self._is_closed)
                if not self._jobs:
                    return
                self._is_working = True
                name, job = self._next_job()
            self._work(name, job)

    def _next_job(self) -> tuple[str, _Job]:
        name = next(iter(self._jobs))
        return name, self._jobs.pop(name)

    def _work(self, name: str, job: _Job) -> None:
        try:
            job.do()
        except Exception as error:  # whatever it is: without this thread, ``close`` would wait for ever
            with self._changed:
                if name not in self._jobs:  # else a newer version waits
                    self._failed.setdefault(name, job.again)
            self._report(name, error)

    def _write(self, name: str, data: bytes) -> None:
        """At every moment ``name``, or else ``name.bak``, is a complete table."""
        path = f"{self.directory}/{name}"
        self._make_directory()
        if name not in self._backed_up:
            replace_with_backup(self._disk, path, data, is_private=name in PRIVATE)
            self._backed_up.add(name)
            return
        new_file(self._disk, path + TEMPORARY, data, is_private=name in PRIVATE).fdatasync()
        if self._disk.is_file(path):
            self._disk.rename(path, path + BACKUP)
        self._disk.rename(path + TEMPORARY, path)
        self._disk.sync_directory(self.directory)

    def _sync(self, name: str, file: File, data: bytes) -> None:
        file.fdatasync()
        self._back_up(name, data, TEMPORARY)

    # -- in any thread

    def _make_directory(self) -> None:
        if not self._is_directory_kept:
            make_directory(self._disk, self.directory)
            self._is_directory_kept = True

    def _back_up(self, name: str, data: bytes, temporary: str) -> None:
        """Makes ``name.bak`` a version that is on the device. Each thread uses its own temporary file."""
        path = f"{self.directory}/{name}{BACKUP}"
        replace_file(self._disk, path, data, temporary=temporary, is_private=name in PRIVATE)

    def _report(self, name: str, error: Exception) -> None:
        if isinstance(error, FileNotFoundError):  # the directory was removed
            self._is_directory_kept = False
        problem = storage_error(error, "cannot write configuration table", f"{self.directory}/{name}")
        _log.error("%s", problem, exc_info=None if isinstance(error, OSError) else error)
        if self._on_error is not None:
            self._on_error(problem)


def _text(name: str, document: Document) -> bytes:
    return dumps(document) if name in COMPACT else pretty(document)


def _parse_untrusted(data: bytes) -> Any:
    """ProtocolError also for zeros: the size of such a file reached the device before its data."""
    if b"\0" in data:
        raise ProtocolError(f"zeros at byte {data.index(0)}")
    return parse_large_untrusted(data)


def union(before: Document, now: Document) -> Document:
    """``now`` with those members of ``before`` that it lacks, in the order of ``before``. Members given as None are
    removed."""
    if before.keys() <= now.keys() and None not in now.values():
        return now
    return {key: value for key, value in {**before, **now}.items() if value is not None}


def pretty(document: Document) -> bytes:
    """As fastjson2's pretty form: tabs, one member a line, lists of numbers on one line."""
    return pretty_value(document, 0)


def pretty_value(value: Any, depth: int) -> bytes:
    """A value nested ``depth`` deep, starting behind its key's colon."""
    parts: list[str] = []
    _write_pretty(value, "\n" + "\t" * depth, parts)
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
