"""One table of named entries below ``config/``, in Apache's form. Each entry is rendered when it changes, and kept as
text, so a change in a table of ten thousand renders one entry. In a large table it also writes only one entry, in its
place."""

from __future__ import annotations

from rmqproto.wire.fastjson import dumps
from rmqserver.store.disk.config_files import ConfigFiles, Document, pretty_value, union
from rmqserver.store.disk.row_slots import RowSlots

SPARE_SHARE = 10
"""Spare rows, as a multiple of the row count from which a table is changed in place. More room means fewer writes of
the whole table, for which the broker waits on the device."""


class TableFile:
    """The file ``name``, whose member ``member`` holds the entries. Members that a newer broker added beside the
    entries, or to one, stay as they are. ``close`` it before its files."""

    def __init__(self, files: ConfigFiles, name: str, member: str):
        self.name = name
        self.member = member
        self._files = files
        self._others: Document = {}
        """The file's other members, and an empty one in place of the entries."""
        self._entries: dict[str, Document] = {}
        self._texts: dict[str, bytes] = {}
        """The entries that were put, as Apache writes them."""
        self._changed: dict[str, None] = {}
        """Keys of entries that the file does not have in their present form, in the order of their changes."""
        self._slots: RowSlots | None = None
        """Where the entries lie in the file, if it is changed in place."""

    def load(self) -> Document:
        """The file's content; its entries still have to be ``put``. StorageError as from ``ConfigFiles.load``."""
        document = self._files.load(self.name)
        entries = document.get(self.member)
        self._others = {**document, self.member: {}} if document else {}
        if isinstance(entries, dict):
            self._entries.update({key: entry for key, entry in entries.items() if isinstance(entry, dict)})
        return document

    def put(self, key: str, entry: Document) -> None:
        """Creates or replaces an entry. Members that the old entry had and this one lacks stay. A member given as None
        is removed."""
        entry = self._entries[key] = union(self._entries.get(key, {}), entry)
        self._texts[key] = b"\n\t\t" + dumps(key) + b":" + pretty_value(entry, 2)
        self._changed[key] = None

    def remove(self, key: str) -> None:
        """The entry must exist."""
        del self._entries[key], self._texts[key]
        self._changed[key] = None

    def save(self, others: Document) -> None:
        """Hands the table to the kernel, with ``others`` beside the entries."""
        self._others = union(self._others, {**others, self.member: {}})
        if not self._has_written_rows():
            self._write_anew()
        self._changed.clear()

    def close(self) -> None:
        """Leaves the file as Apache writes it."""
        if self._slots is not None:
            self._slots = None
            self._files.write_now(self.name, self._text())

    def _write_anew(self) -> None:
        is_large = len(self._texts) >= self._files.in_place_from_count
        rows = {key: self._row(key) for key in self._texts} if is_large else {}
        if RowSlots.can_hold(rows):
            head = self._head()
            self._slots = RowSlots(head, rows, self._end(), SPARE_SHARE * self._files.in_place_from_count)
            self._files.write_rows_now(self.name, self._slots.content(head, rows), self._text)
        else:
            self._slots = None
            self._files.write_now(self.name, self._text())

    def _has_written_rows(self) -> bool:
        """Whether the changed rows could be written in place."""
        if self._slots is None:
            return False
        rows = [(key, self._row(key) if key in self._texts else None) for key in self._changed]
        changes = self._slots.changes(self._head(), rows, self._end())
        return changes is not None and self._files.change_rows_now(self.name, changes)

    def _row(self, key: str) -> bytes:
        """The entry in its shortest form, without the blanks of Apache's form."""
        return dumps(key) + b":" + dumps(self._entries[key])

    # -- the file as text

    def _text(self) -> bytes:
        """The whole file, as Apache writes it."""
        entries = b",".join(self._texts.values())
        return self._head() + entries + (self._end() if entries else self._end().lstrip())

    def _head(self) -> bytes:
        """The text before the first entry."""
        before = list(self._others)[: list(self._others).index(self.member)]
        return b"{" + b"".join(self._member(name) + b"," for name in before) + b"\n\t" + dumps(self.member) + b":{"

    def _end(self) -> bytes:
        """The text behind the last entry."""
        after = list(self._others)[list(self._others).index(self.member) + 1 :]
        return b"\n\t}" + b"".join(b"," + self._member(name) for name in after) + b"\n}"

    def _member(self, name: str) -> bytes:
        return b"\n\t" + dumps(name) + b":" + pretty_value(self._others[name], 1)
