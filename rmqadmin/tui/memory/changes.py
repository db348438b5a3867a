"""The log of changes in a cluster while the dashboard runs: brokers, topics, groups, members, dead letters."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from contextlib import suppress

import msgspec

from rmqadmin.core.health.finding import Subject, SubjectKind
from rmqadmin.core.tables.marks import Mark
from rmqproto.wording import NAMES_TOLD_MAX, names_told

CHANGES_MAX = 500


class ChangeSeen(msgspec.Struct, frozen=True):
    """One entry of the log. ``subject`` is None if there are several. ``number`` counts up."""

    number: int
    at_ms: int
    subject: Subject | None
    text: str
    mark: Mark | None = None


class ChangeLog:
    """The log, newest entries last."""

    def __init__(self) -> None:
        self._changes: deque[ChangeSeen] = deque(maxlen=CHANGES_MAX)
        self._count = 0

    def add(self, at_ms: int, subject: Subject | None, text: str, mark: Mark | None = None) -> ChangeSeen:
        self._count += 1
        change = ChangeSeen(self._count, at_ms, subject, text, mark)
        self._changes.append(change)
        return change

    def replace(self, before: ChangeSeen, at_ms: int, text: str) -> ChangeSeen:
        """Replaces an entry because the same change has continued. The entry's time becomes ``at_ms``."""
        with suppress(ValueError):  # too old to be kept
            self._changes.remove(before)
        return self.add(at_ms, before.subject, text, before.mark)

    def newest_first(self) -> list[ChangeSeen]:
        return list(reversed(self._changes))

    def since(self, at_ms: int) -> int:
        """How many kept changes came after ``at_ms``."""
        return sum(change.at_ms > at_ms for change in self._changes)

    def add_names(
        self,
        at_ms: int,
        kind: SubjectKind,
        before: Collection[str],
        after: Collection[str],
        *,
        tells_new: bool = True,
        tells_deleted: bool = True,
    ) -> None:
        """Logs names that have come or gone. ``tells_new`` and ``tells_deleted`` are False if ``before`` and ``after``
        cannot show that."""
        new = set(after) - set(before) if tells_new else set()
        deleted = set(before) - set(after) if tells_deleted else set()
        for names, one, many in ((new, "is new", "are new"), (deleted, "was deleted", "were deleted")):
            if len(names) > NAMES_TOLD_MAX:
                self.add(at_ms, None, f"{len(names):,} {kind}s {many}: {names_told(sorted(names))}")
            else:
                for name in sorted(names):
                    self.add(at_ms, Subject(kind, name), f"{kind} {one}")
