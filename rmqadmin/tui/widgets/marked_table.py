"""A table in which rows are marked, for what is then done with all of them. The mark is a dot before the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from rmqadmin.tui.widgets.columns import BASE
from rmqadmin.tui.widgets.row_table import RowTable

_MARK = Binding.Group("Mark", compact=True)


class MarkedTable(RowTable):
    """Posts ``MarksChanged``. A row that is marked stays so when it is hidden, or gone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", id="table.mark", group=_MARK),
        Binding("a", "mark_all", "Mark all", id="table.mark_all", group=_MARK),
    ]

    @dataclass
    class MarksChanged(Message):
        table: MarkedTable

    @property
    def marked(self) -> dict[str, Any]:
        """The base parts of the marked rows, by key, in the order in which they were marked."""
        return self.rows.marked

    def wanted(self) -> dict[str, Any]:
        """The marked rows, or, if there are none, the one under the cursor."""
        key = self.cursor_key
        return dict(self.marked) or ({} if key is None else {key: self.part(key)})

    def clear_marks(self) -> None:
        self._set_marks({})

    def action_mark(self) -> None:
        """Marks the row under the cursor, or takes its mark away, and goes on to the next."""
        key = self.cursor_key
        if key is None:
            return
        marked = dict(self.marked)
        if marked.pop(key, None) is None:
            marked[key] = self.part(key)
        self._set_marks(marked)
        self.action_move(1)

    def action_mark_all(self) -> None:
        """Marks all rows that the filter shows. If they are marked already: takes their marks away."""
        shown = {line.key: line.parts[BASE] for line in self.rows.shown}
        if shown.keys() <= self.marked.keys():
            self._set_marks({key: part for key, part in self.marked.items() if key not in shown})
        else:
            self._set_marks({**self.marked, **shown})

    def _set_marks(self, marked: dict[str, Any]) -> None:
        self.rows.marked = marked
        self.refresh()
        self.post_message(self.MarksChanged(self))

    def view_text(self) -> str:
        marked = f"{len(self.marked):,} marked" if self.marked else ""
        return ", ".join(filter(None, [marked, super().view_text()]))
