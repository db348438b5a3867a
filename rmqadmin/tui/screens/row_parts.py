"""What screens with rows share: what a row is about, by the placeholders in the help of commands; the column that says
what is wrong with it, by the findings of `core/health`, with the worst rows first; and columns of what samples say of
it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import BY_GRADE, Mark
from rmqadmin.core.tables.sparkline import sparkline
from rmqadmin.tui.widgets.tables.columns import JUDGED, MINOR, VITAL, Column

if TYPE_CHECKING:
    from rmqadmin.core.servers.broker_state import Replica
    from rmqadmin.tui.memory.cluster import SeenBroker
    from rmqproto.bodies.base import MessageQueue


def of_replica(replica: Replica) -> dict[str, str]:
    return {"HOST:PORT": replica.broker_addr, "BROKER": replica.broker_name, "CLUSTER": replica.cluster}


def of_queue(queue: MessageQueue) -> dict[str, str]:
    return {"TOPIC": queue.topic, "BROKER": queue.broker_name, "QUEUE": str(queue.queue_id)}


def of_subject(subject: Subject, seen: Mapping[str, SeenBroker]) -> dict[str, str]:
    """``seen``: the brokers by ``NAME/ID``."""
    match subject.kind:
        case SubjectKind.BROKER:
            return of_replica(seen[subject.name].replica) if subject.name in seen else {}
        case SubjectKind.BROKER_SET:
            of_set = [one.replica for key, one in seen.items() if subject.name in (key, one.replica.broker_name)]
            return of_replica(of_set[0]) if of_set else {}
        case SubjectKind.NAME_SERVER:
            return {}
        case SubjectKind.TOPIC:
            return {"TOPIC": subject.name}
        case SubjectKind.QUEUE:
            group, _, queue = subject.name.rpartition(": ")
            topic, broker_name, queue_id = queue.rsplit("/", 2)
            return {"GROUP": group, "TOPIC": topic, "BROKER": broker_name, "QUEUE": queue_id}
        case _:
            return {"GROUP": subject.name}


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


OVER_TIME = "over time"
"""The part with the ``OverTime`` of a row."""

LINE_WIDTH = 60


def line_column(field: str, *, top: float | None = None) -> Column:
    """A sparkline of a number's last values, beside the number and without a title. It is empty if all are 0: there is
    nothing to see, and a growing line would be redrawn each time."""
    return Column(
        name=f"{field}_line",
        words=" ",
        part=OVER_TIME,
        value=lambda over: over.lines.get(field, []),
        form=lambda values: sparkline(values, LINE_WIDTH, top=top) if any(values) else "",
        shape=Shape.TREND,
        importance=MINOR,
    )


def trend_column() -> Column:
    return Column(name="trend", part=OVER_TIME, shape=Shape.PROSE, readable_width=22, importance=MINOR)
