"""The rows of an earlier answer to the same question, so that a table can show what has changed since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rmqadmin.core.results import Row, columns


class EarlierRows:
    def __init__(self, rows: Sequence[Row]):
        self._by_name: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
        for row in reversed(rows):
            self._by_name[_name(row)].append(row)

    def take(self, row: Row) -> Row | None:
        """The earlier row of the same name; None if there was none. Of several with one name, each is taken once, in
        their order."""
        left = self._by_name.get(_name(row))
        return left.pop() if left else None


def _name(row: Row) -> tuple[str, ...]:
    return (row.__class__.__name__, *(str(getattr(row, one.name)) for one in columns(row.__class__) if one.is_key))
