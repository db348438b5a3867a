"""Property strings of many messages, parsed without a loop: one pass over their bytes finds every separator. Names and
values are slices between separators, copied only on demand. Strings in another form than 5.x writes are parsed one by
one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rmqproto.message import properties as props

Ints = npt.NDArray[np.int64]

_NAME_END, _VALUE_END = 1, 2
_HEAD_SIZE = 8
"""Names are compared by their first bytes as one number, and by the rest only if those are equal."""


@dataclass(frozen=True, slots=True)
class _Entries:
    """Names and values in ``data``, message by message. ``firsts``: the first entry of every message, and the end."""

    data: Any
    firsts: Ints
    name_starts: Ints
    name_ends: Ints
    value_ends: Ints

    def slices(self) -> pa.Array:
        """Four slices for every entry: its name, a separator, its value, a separator."""
        count = len(self.name_starts)
        cuts = np.empty(4 * count + 1, np.int32)
        cuts[0:-1:4], cuts[1::4], cuts[2::4], cuts[3::4] = (
            self.name_starts, self.name_ends, self.name_ends + 1, self.value_ends,
        )  # fmt: skip
        cuts[-1] = self.value_ends[-1] + 1 if count else 0
        return pa.Array.from_buffers(pa.string(), 4 * count, [None, pa.py_buffer(cuts), pa.py_buffer(self.data)])

    def name_heads(self) -> npt.NDArray[np.uint64]:
        """The first bytes of every name and of what follows it, as little-endian numbers."""
        padded = np.concatenate([self.data, np.zeros(_HEAD_SIZE, np.uint8)])
        return np.ndarray((len(self.data) + 1,), "<u8", padded.data, strides=(1,))[self.name_starts]


class PropertyColumns:
    """``texts``: one property string per message, an Arrow array without nulls. ``not_utf8``: the messages whose string
    was damaged and now has replacement characters."""

    def __init__(self, texts: pa.Array, not_utf8: Sequence[int] = ()):
        self.texts = texts
        self.not_utf8 = not_utf8

    def maps(self) -> pa.Array:
        """Names and values, one map per message."""
        entries = self._entries
        if entries is None:
            return pa.array([list(each.items()) for each in self._parsed], pa.map_(pa.string(), pa.string()))
        names, values = (self._slices.take(pa.array(np.arange(at, len(self._slices), 4))) for at in (0, 2))
        return pa.MapArray.from_arrays(pa.array(entries.firsts.astype(np.int32)), names, values)

    def value(self, name: str) -> pa.Array:
        """One property's values; null if a message has none, the last one if it has several, as in Java."""
        entries = self._entries
        if entries is None:
            return pa.array([each.get(name) for each in self._parsed], pa.string())
        found = self._entries_named(entries, name.encode())
        if not len(found):
            return pa.nulls(len(self.texts), pa.string())
        value_at = 4 * found + 2
        owners = self._owners[found]
        if len(found) == len(self.texts) and (owners[1:] > owners[:-1]).all():  # each message has it once
            return self._slices.take(pa.array(value_at))
        all_at = np.full(len(self.texts), -1)
        all_at[owners] = value_at
        return self._slices.take(pa.array(all_at, mask=all_at < 0))

    def _entries_named(self, entries: _Entries, name: bytes) -> Ints:
        head, rest = name[:_HEAD_SIZE], np.frombuffer(name[_HEAD_SIZE:], np.uint8)
        mask = (1 << 8 * len(head)) - 1
        is_it = (self._name_heads & np.uint64(mask)) == int.from_bytes(head, "little")
        found = np.flatnonzero(is_it & (entries.name_ends - entries.name_starts == len(name)))
        if len(rest) and len(found):
            places = entries.name_starts[found, None] + _HEAD_SIZE + np.arange(len(rest))
            found = found[(entries.data[places] == rest).all(axis=1)]
        return found

    @cached_property
    def _slices(self) -> pa.Array:
        assert self._entries is not None
        return self._entries.slices()

    @cached_property
    def _name_heads(self) -> npt.NDArray[np.uint64]:
        assert self._entries is not None
        return self._entries.name_heads()

    @cached_property
    def _owners(self) -> Ints:
        """The message that each entry belongs to."""
        assert self._entries is not None
        return np.repeat(np.arange(len(self.texts)), np.diff(self._entries.firsts))

    @cached_property
    def _entries(self) -> _Entries | None:
        """The entries of all strings. None if a string has another form: no 0x02 at its end, an empty name or value, or
        an entry without exactly one 0x01."""
        edges, data = self._bytes()
        separators = np.flatnonzero(data <= _VALUE_END)
        marks = data[separators]
        if not ((marks[0::2] == _NAME_END).all() and (marks[1::2] == _VALUE_END).all()):
            return None
        if len(marks) % 2 or (len(data) and data[-1] != _VALUE_END):
            return None
        name_ends, value_ends = np.ascontiguousarray(separators[0::2]), np.ascontiguousarray(separators[1::2])
        starts = np.concatenate([np.zeros(1, np.int64), value_ends[:-1] + 1]) if len(value_ends) else value_ends
        is_regular = (starts < name_ends).all() and (name_ends + 1 < value_ends).all()
        ends_well = data[np.maximum(edges[1:], 1)[np.diff(edges) > 0] - 1] == _VALUE_END
        if not is_regular or not ends_well.all():
            return None
        return _Entries(data, np.searchsorted(value_ends, edges, "left"), starts, name_ends, value_ends)

    def _bytes(self) -> tuple[Ints, Any]:
        """The start of each string in the data and the end of the last one; and the data, starting at 0."""
        _, offsets, data = self.texts.buffers()
        count, first = len(self.texts), self.texts.offset
        edges = (
            np.frombuffer(offsets, np.int32)[first : first + count + 1].astype(np.int64)
            if count
            else np.zeros(1, np.int64)
        )
        raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        return edges - edges[0], raw[edges[0] : edges[-1]]

    @cached_property
    def _parsed(self) -> list[dict[str, str]]:
        return [props.parse(text) for text in self.texts.to_pylist()]
