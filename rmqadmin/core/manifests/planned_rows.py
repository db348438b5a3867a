"""The changes that `apply` makes and `diff` finds, as rows and as lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

from rmqadmin.core.changes import NOT_PLANNED, ChangeRow, FieldChange
from rmqadmin.core.manifests.plan import ObjectStep
from rmqadmin.core.results import FoundRows, Row, doc
from rmqadmin.core.terminal_text import printable
from rmqproto.errors import UsageError

_KEEP = "keep"
_MARKS = {"create": "+", "delete": "-", **dict.fromkeys(NOT_PLANNED, "!")}


class AppliedRow(Row, frozen=True):
    kind: Annotated[str, doc("topic, group, user or acl", key=True)]
    name: Annotated[str, doc("its name; empty for a server that cannot be reached, or refuses", key=True)]
    target: Annotated[str, doc("address of the server", key=True)]
    action: Annotated[str, doc("create, change, delete, unreached or refused", vital=True)]
    changes: Annotated[list[FieldChange], doc("field, before, after", vital=True)]
    done: Annotated[bool, doc("false under --dry-run and of diff, and where it failed", vital=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class AppliedTotals(Row, frozen=True):
    created_count: Annotated[int, doc("to be created, or created: each on each server")]
    changed_count: Annotated[int, doc("to be changed, or changed")]
    deleted_count: Annotated[int, doc("to be deleted, or deleted")]
    kept_count: Annotated[int, doc("as the file says already")]
    failed_count: Annotated[int, doc("not done, with an error")]
    undo_file: Annotated[str | None, doc("what `apply -f` takes back to how topics and groups were", sparse=True)]


class Applied(FoundRows[AppliedRow], frozen=True):
    """What is different from the file, one row an object and server. ``without_effect``: which brokers take no notice
    of users and permissions, and why."""

    kept_count: int
    undo_file: str | None = None
    without_effect: str | None = None

    def summary(self) -> AppliedTotals:
        counts = Counter("failed" if row.error is not None else row.action for row in self.found)
        return AppliedTotals(
            created_count=counts["create"],
            changed_count=counts["change"],
            deleted_count=counts["delete"],
            kept_count=self.kept_count,
            failed_count=counts["failed"],
            undo_file=self.undo_file,
        )

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str]:
        """The lines of a diff: each object and server, then its fields, then the counts."""
        for row in self.found:
            how = f": {row.error}" if row.error is not None else ", done" if row.done else ""
            yield printable(f"{_MARKS.get(row.action, '~')} {row.kind} {row.name} on {row.target}{how}") + "\n"
            for change in row.changes if row.action != "delete" else ():
                said = change.for_people()
                yield printable(f"    {said.replace(' none -> ', ' ') if row.action == 'create' else said}") + "\n"
        yield self._totals_line() + "\n"

    def _totals_line(self) -> str:
        totals = self.summary()
        words = ("created", "changed", "deleted")
        if not any(row.done for row in self.found):
            words = ("to create", "to change", "to delete")
        counts = (totals.created_count, totals.changed_count, totals.deleted_count)
        said = [
            *zip(counts, words, strict=True),
            (totals.failed_count, "failed"),
            (self.kept_count, "kept"),
        ]
        return ", ".join(f"{count:,} {word}" for count, word in said if count) or "the file names nothing"

    def remark(self) -> str | None:
        return self.without_effect

    def problem(self) -> str | None:
        failed = [row for row in self.found if row.error is not None]
        return f"{len(failed)} of {len(self.found)} failed: {failed[0].error}" if failed else None


class NotComparedError(UsageError):
    """A server refused a question of `diff`. Ends with status 2, which diff(1) uses for trouble; 1 means
    differences."""


class Differences(Applied, frozen=True):
    """What `apply` would do. The status says whether there is anything."""

    def exit_status(self) -> int:
        return 1 if self.found else 0


def applied_rows(steps: Sequence[ObjectStep], rows: Sequence[ChangeRow]) -> list[AppliedRow]:
    return [
        AppliedRow(
            kind=one.noun,
            name=one.name,
            target=row.target,
            action=row.action,
            changes=row.changes,
            done=row.done,
            error=row.error,
        )
        for one, row in zip(steps, rows, strict=True)
    ]


def what_changes(steps: Sequence[ObjectStep]) -> list[ObjectStep]:
    """The steps that change something."""
    return [one for one in steps if one.step.action != _KEEP]
