"""Changes on several servers as dialogs show them: one line for each server and field, with the values before and
after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Annotated

from rmqadmin.core.changes import KEEP, ChangeRow
from rmqadmin.core.results import ResultOf, Row, doc

_DELETE = "delete"


class ChangeLine(Row, frozen=True):
    target: Annotated[str, doc("address of the server", key=True)]
    action: Annotated[str, doc("create, change, keep, delete, or what else is done")]
    field: Annotated[str | None, doc("what of it is changed", key=True)]
    before: Annotated[str | None, doc("its value before")]
    after: Annotated[str | None, doc("its value then", vital=True)]
    outcome: Annotated[str | None, doc("✔ if it was done, ✖ if not, ? if that is unknown", sparse=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class ChangeLines(ResultOf[ChangeLine], frozen=True):
    """What would change, or was changed. ``unknown``: whether each of these may have been done, although it failed."""

    steps: list[ChangeRow]
    unknown: Sequence[bool] = ()

    @property
    def changes_nothing(self) -> bool:
        return all(step.action == KEEP for step in self.steps)

    def rows(self) -> Sequence[ChangeLine]:
        return [line for step, unknown in zip_longest(self.steps, self.unknown) for line in _lines(step, unknown)]

    def problem(self) -> str | None:
        failed = [step for step in self.steps if step.error is not None]
        return f"{len(failed)} of {len(self.steps)} failed: {failed[0].error}" if failed else None


def _lines(step: ChangeRow, is_unknown: bool | None) -> Iterator[ChangeLine]:
    """The lines of one step. A deletion has a single line, because all fields go."""
    changes = [] if step.action == _DELETE else step.changes
    sides: list[tuple[str | None, str | None, str | None]] = [(one.field, *one.sides()) for one in changes]
    outcome = "✔ done" if step.done else "? unknown" if is_unknown else "✖ not done" if step.error else None
    for field, before, after in sides or [(None, None, None)]:
        yield ChangeLine(step.target, step.action, field, before, after, outcome, step.error)
