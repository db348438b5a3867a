"""Property strings of many messages, taken apart without a loop: every separator is found in one pass over their bytes,
and names and values are slices between them. Strings that are not as 5.x writes them are parsed one by one."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqproto import properties as props

Ints = npt.NDArray[np.int64]

_NAME_END, _VALUE_END = 1, 2


class PropertyColumns:
    """``texts``: one property string a message, an Arrow array without nulls."""

    def __init__(self, texts: pa.Array):
        self.texts = texts

    def maps(self) -> pa.Array:
        """Names and values, one map a message."""
        entries = self._entries
        if entries is None:
            return pa.array([list(each.items()) for each in self._parsed], pa.map_(pa.string(), pa.string()))
        firsts, names, values = entries
        return pa.MapArray.from_arrays(pa.array(firsts.astype(np.int32)), names, values)

    def value(self, name: str) -> pa.Array:
        """One property's values, null where a message has none; the last one where it has several, as in Java."""
        entries = self._entries
        if entries is None:
            return pa.array([each.get(name) for each in self._parsed], pa.string())
        firsts, names, values = entries
        found = np.flatnonzero(pc.equal(names, pa.scalar(name, pa.string())).to_numpy(zero_copy_only=False))
        if not len(found):
            return pa.nulls(len(self.texts), pa.string())
        entry_of = np.zeros(len(self.texts), np.int64)
        is_missing = np.ones(len(self.texts), np.bool_)
        rows = np.searchsorted(firsts, found, "right") - 1
        entry_of[rows], is_missing[rows] = found, False
        return values.take(pa.array(entry_of, mask=is_missing))

    @cached_property
    def _entries(self) -> tuple[Ints, pa.Array, pa.Array] | None:
        """First entry of every message (and the end), names, values; None where a string is of another form: without
        its last 0x02, with an empty name or value, or with an entry that has no 0x01, or two."""
        edges, data = self._bytes()
        name_ends, value_ends = np.flatnonzero(data == _NAME_END), np.flatnonzero(data == _VALUE_END)
        if len(name_ends) != len(value_ends):
            return None
        starts = np.concatenate([np.zeros(1, np.int64), value_ends[:-1] + 1]) if len(value_ends) else value_ends
        is_regular = (starts < name_ends).all() and (name_ends + 1 < value_ends).all()
        firsts = np.searchsorted(value_ends, edges, "left")
        sizes = np.diff(edges)
        ends_well = data[np.maximum(edges[1:], 1)[sizes > 0] - 1] == _VALUE_END
        if not is_regular or not ends_well.all():
            return None
        count = len(starts)
        cuts = np.empty(4 * count + 1, np.int32)
        cuts[0:-1:4], cuts[1::4], cuts[2::4], cuts[3::4] = starts, name_ends, name_ends + 1, value_ends
        cuts[-1] = value_ends[-1] + 1 if count else 0
        slices = pa.Array.from_buffers(pa.string(), 4 * count, [None, pa.py_buffer(cuts), pa.py_buffer(data)])
        return (
            firsts,
            slices.take(pa.array(np.arange(0, 4 * count, 4))),
            slices.take(pa.array(np.arange(2, 4 * count, 4))),
        )

    def _bytes(self) -> tuple[Ints, Any]:
        """Where each string starts in the data, with the end of the last; and the data, starting at 0."""
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
