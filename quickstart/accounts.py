"""The closing table, which accounts for every flight by its row number and says in words what does not add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from quickstart.redrive import Redriven
from quickstart.traffic import Consumed


@dataclass(frozen=True)
class Accounts:
    """Everything that was counted, at both ends and on the broker in between."""

    published_count: int
    stored_count: int
    consumed: Consumed
    counted_by_hour: int
    dead: Counter[int]
    dead_with_cause: int
    redriven: Redriven
    taken: Counter[int]
    """How often each redriven row was delivered to the group that reads the new topic."""

    def problems(self) -> list[str]:
        """What does not add up. Empty if every row is accounted for."""
        offered = set(range(1, self.published_count + 1))
        found = []
        if self.stored_count != len(offered):
            found.append(f"{self.stored_count} messages are stored, but {len(offered)} were published")
        if missing := offered - self.consumed.booked.keys() - self.dead.keys():
            found.append(f"{len(missing)} rows are lost, the first of them {sorted(missing)[:5]}")
        if both := self.consumed.booked.keys() & self.dead.keys():
            found.append(f"{len(both)} rows are booked and dead letters, the first of them {sorted(both)[:5]}")
        for name, rows in (("booked", self.consumed.booked), ("dead letters", self.dead)):
            if doubled := [row for row, times in rows.items() if times > 1]:
                found.append(f"{len(doubled)} rows are doubled among the {name}, the first of them {doubled[:5]}")
        if unknown := (self.consumed.booked.keys() | self.dead.keys()) - offered:
            found.append(f"{len(unknown)} rows came that were never published")
        if self.dead.keys() != self.consumed.failed.keys():
            found.append("the dead letters are not the flights whose booking failed")
        if self.counted_by_hour != len(self.consumed.booked):
            found.append(
                f"the stream counted {self.counted_by_hour} arrivals, and {len(self.consumed.booked)} are booked"
            )
        if self.dead_with_cause != len(self.dead):
            found.append(f"the causes are those of {self.dead_with_cause} dead letters, of {len(self.dead)}")
        return found + self._redrive_problems()

    def _redrive_problems(self) -> list[str]:
        redriven, dead_count = self.redriven, len(self.dead)
        found = []
        if redriven.delivered != dead_count:
            found.append(f"{redriven.delivered} dead letters were redriven of {dead_count}")
        if redriven.audited != redriven.delivered or redriven.missing or redriven.doubled:
            found.append(
                f"the audit found {redriven.audited} of {redriven.delivered} redriven, {redriven.missing} missing, "
                f"{redriven.doubled} doubled"
            )
        if self.taken != Counter(self.dead.keys()):
            found.append(
                f"the group of the new topic was given {self.taken.total()} messages, not each dead letter once"
            )
        if redriven.again_delivered:
            found.append(f"the same redrive once more sent {redriven.again_delivered} messages")
        return found

    def show(self) -> None:
        table = Table(title="Every flight accounted for, by row number")
        table.add_column("what")
        table.add_column("flights", justify="right")
        table.add_column("must be")
        rows = (
            ("published", self.published_count, ""),
            ("stored", self.stored_count, "published"),
            ("consumed (arrivals booked)", len(self.consumed.booked), ""),
            ("counted by hour in the stream", self.counted_by_hour, "consumed"),
            ("dead letters (no arrival)", len(self.dead), ""),
            ("dead letters in the report of causes", self.dead_with_cause, "dead letters"),
            ("consumed + dead letters", len(self.consumed.booked) + len(self.dead), "published"),
            ("tries of flights without arrival", self.consumed.failed.total(), "2 x dead letters"),
            ("redriven", self.redriven.delivered, "dead letters"),
            ("found by the audit", self.redriven.audited, "redriven"),
            ("missing", self.redriven.missing, "0"),
            ("doubled", self.redriven.doubled, "0"),
            ("redriven by a second redrive", self.redriven.again_delivered, "0"),
            ("taken from the new topic", self.taken.total(), "redriven"),
        )
        for what, count, must_be in rows:
            table.add_row(what, f"{count:,}", must_be)
        Console().print(table)
