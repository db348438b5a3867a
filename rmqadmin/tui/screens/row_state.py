"""The column that says what is wrong with a row, by the findings of `core/health`. Rows with the worst come first."""

from __future__ import annotations

import msgspec

from rmqadmin.core.health.finding import Check, Finding, Grade
from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import BY_GRADE, Mark
from rmqadmin.tui.widgets.tables.columns import JUDGED, VITAL, Column


class RowState(msgspec.Struct, frozen=True):
    """``found``: what is wrong, the worst first. ``usual``: what is said if nothing is. ``error``: why the
    row's numbers cannot be read. ``told_beside``: what another column tells."""

    found: tuple[Finding, ...] = ()
    usual: str | None = None
    error: str | None = None
    told_beside: Check | None = None

    @property
    def rank(self) -> int:
        """0 for what is broken or cannot be read, 1 for what is worth a look, 2 for all else."""
        grade = self.found[0].grade if self.found else None
        return 0 if self.error or grade is Grade.ERROR else 1 if grade is Grade.WARNING else 2

    def text(self) -> str | None:
        return "; ".join(filter(None, [self.error, *(one.what for one in self._said)])) or self.usual

    def mark(self) -> Mark:
        if self.error:
            return Mark.BAD
        return BY_GRADE[self._said[0].grade] if self._said else Mark.DIM

    @property
    def _said(self) -> list[Finding]:
        return [one for one in self.found if one.check != self.told_beside]


STATE = "state"


def state_column(readable_width: int = 38, *, is_sparse: bool = False) -> Column:
    return Column(
        name=STATE,
        part=JUDGED,
        value=RowState.text,
        form=lambda text: text or "",
        mark=RowState.mark,
        shape=Shape.CLAUSES,
        importance=VITAL,
        readable_width=readable_width,
        is_sparse=is_sparse,
    )
