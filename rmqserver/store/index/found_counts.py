"""How many slots and units the index files of a store have, worked out from the files: a size alone fits many pairs of
counts."""

from __future__ import annotations

from collections.abc import Iterator

from rmqserver.core import INDEX_UNIT
from rmqserver.store.disk.disk import Disk, File
from rmqserver.store.index.index_file import HEADER, SLOT, IndexHeader, file_size_bytes

_READ_BYTES = 4 << 20

Counts = tuple[int, int]
"""Slots and units of a file."""


def found_counts(disk: Disk, paths: list[str], expected: Counts) -> Counts | None:
    """The counts with which the files of this directory were made: the expected ones if the sizes allow them, else
    those that one of the files proves. None if none does."""
    sizes = {disk.file_size(path) for path in paths} - {0}
    if not sizes or file_size_bytes(*expected) in sizes:
        return expected
    for path in reversed(paths):
        file = disk.open(path, read_only=True)
        found = next(_proven(file), None)
        if found is not None:
            return found
    return None


def _proven(file: File) -> Iterator[Counts]:
    """Searches for the last unit by the log offset in the header. The last unit is the newest of its slot, so the slot
    must point to it."""
    size = file.size()
    data = file.pread(HEADER.size, 0)
    if len(data) < HEADER.size:
        return
    header = IndexHeader(*HEADER.unpack(data))
    last = header.next_unit - 1
    if last < 1 or last * INDEX_UNIT.size > size:
        return
    for at in _places(file, header.end_log_offset.to_bytes(8, "big", signed=True)):
        units_at = at - 4 - last * INDEX_UNIT.size
        slot_count, rest = divmod(units_at - HEADER.size, SLOT.size)
        unit_count, more = divmod(size - units_at, INDEX_UNIT.size)
        if slot_count < 1 or rest or more or unit_count <= last:
            continue
        key_hash = int.from_bytes(file.pread(4, at - 4), "big")
        (newest,) = SLOT.unpack(file.pread(SLOT.size, HEADER.size + SLOT.size * (key_hash % slot_count)))
        _, first_offset, _, _ = INDEX_UNIT.unpack(file.pread(INDEX_UNIT.size, units_at + INDEX_UNIT.size))
        if newest == last and first_offset == header.begin_log_offset:
            yield slot_count, unit_count


def _places(file: File, wanted: bytes) -> Iterator[int]:
    """Where these bytes occur in a file behind the header; holes are not read."""
    at, size, overlap = HEADER.size, file.size(), len(wanted) - 1
    while (at := file.next_data(at)) < size:
        data = file.pread(_READ_BYTES + overlap, at)
        found = data.find(wanted)
        while found >= 0:
            yield at + found
            found = data.find(wanted, found + 1)
        at += _READ_BYTES
