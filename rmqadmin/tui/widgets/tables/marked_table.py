"""A table in which the user marks rows for a common action. The mark is a dot before the row."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from rmqadmin.tui.key_map import bound
from rmqadmin.tui.widgets.tables.columns import BASE
from rmqadmin.tui.widgets.tables.row_table import RowTable

_MARK = Binding.Group("Mark", compact=True)


class MarkedTable(RowTable):
    """Posts ``MarksChanged``. A marked row stays marked while it is hidden or gone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bound("mark", group=_MARK),
        bound("mark_all", group=_MARK),
    ]

    @dataclass
    class MarksChanged(Message):
        table: MarkedTable

    @dataclass
    class AllMarked(Message):
        """All rows that the filter shows were marked, except ``left_out_count`` rows in ``left_out``. If ``is_off``,
        all rows that pass the filter were unmarked instead."""

        table: MarkedTable
        is_off: bool
        left_out_count: int

    left_out: Collection[str] = ()
    """Keys of rows that can only be marked one by one."""

    @property
    def marked(self) -> dict[str, Any]:
        """The base parts of the marked rows, by key, in the order of marking."""
        return self.model.marked

    def wanted(self) -> dict[str, Any]:
        """The marked rows; if there are none, the row under the cursor."""
        key = self.cursor_key
        return dict(self.marked) or ({} if key is None else {key: self.part(key)})

    def clear_marks(self) -> None:
        self._set_marks({})

    def action_mark(self) -> None:
        """Marks or unmarks the row under the cursor, and moves to the next."""
        key = self.cursor_key
        if key is None:
            return
        marked = dict(self.marked)
        if marked.pop(key, None) is None:
            marked[key] = self.part(key)
        self._set_marks(marked)
        self.action_cursor_down()

    def action_mark_all(self) -> None:
        """Marks all rows that the filter shows, except ``left_out``. If all are marked already, unmarks every row that
        passes the filter, including rows no longer in the list."""
        shown = {line.key: line.parts[BASE] for line in self.model.shown if line.key not in self.left_out}
        is_off = bool(shown) and shown.keys() <= self.marked.keys()
        if is_off:
            self._set_marks({key: part for key, part in self.marked.items() if not self.model.would_pass(part)})
        else:
            self.add_marks(shown)
        self.post_message(self.AllMarked(self, is_off, self.shown_count - len(shown)))

    def add_marks(self, rows: Mapping[str, Any]) -> None:
        """Marks rows, given as base parts by key. They need not be in the list."""
        self._set_marks({**self.marked, **rows})

    def _set_marks(self, marked: dict[str, Any]) -> None:
        self.model.marked = marked
        self._write_view()
        self.post_message(self.MarksChanged(self))

    def view_text(self) -> str:
        marked = f"{len(self.marked):,} marked" if self.marked else ""
        return ", ".join(filter(None, [marked, super().view_text()]))
