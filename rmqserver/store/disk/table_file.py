"""One table of named entries below ``config/``, in Apache's form. Each entry is rendered when it changes, and kept as
text, so a change in a table of ten thousand renders one entry."""

from __future__ import annotations

from rmqproto.wire.fastjson import dumps
from rmqserver.store.disk.config_files import ConfigFiles, Document, pretty_value, union

LARGE_COUNT = 1000
"""From this number of entries on, the thread writes the table: handing it to the kernel at every change would stop the
broker for milliseconds each time."""


class TableFile:
    """The file ``name``, whose member ``member`` holds the entries. Members that a newer broker added beside the
    entries, or to one, stay as they are."""

    def __init__(self, files: ConfigFiles, name: str, member: str):
        self.name = name
        self.member = member
        self._files = files
        self._others: Document = {}
        """The file's other members, and an empty one in place of the entries."""
        self._entries: dict[str, Document] = {}
        self._texts: dict[str, bytes] = {}
        """The entries that were put, as Apache writes them."""
        self._is_large = False
        """Stays true, because the thread may be writing the file."""

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

    def remove(self, key: str) -> None:
        """The entry must exist."""
        del self._entries[key], self._texts[key]

    def save(self, others: Document) -> None:
        """Hands the table to the kernel, with ``others`` beside the entries; a large one to the thread."""
        self._others = union(self._others, {**others, self.member: {}})
        texts, names = list(self._texts.values()), list(self._others)
        at = names.index(self.member)
        before = b"".join(self._member(name) + b"," for name in names[:at])
        head = b"{" + before + b"\n\t" + dumps(self.member) + b":{"
        end = b"\n\t}" + b"".join(b"," + self._member(name) for name in names[at + 1 :]) + b"\n}"
        self._is_large = self._is_large or len(texts) >= LARGE_COUNT
        if self._is_large:
            self._files.write_later(self.name, lambda: _joined(head, texts, end))
        else:
            self._files.write_now(self.name, _joined(head, texts, end))

    def _member(self, name: str) -> bytes:
        return b"\n\t" + dumps(name) + b":" + pretty_value(self._others[name], 1)


def _joined(head: bytes, entries: list[bytes], end: bytes) -> bytes:
    """The whole file, as Apache writes it."""
    return head + b",".join(entries) + (end if entries else end.lstrip())
