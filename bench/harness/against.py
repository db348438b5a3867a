"""``--against``: the broker of another checkout of this project runs beside ours, under the same rows in the same run.
Its commit is the "before" of a change, ours the "after".

A machine's speed drifts by more than a change costs. So the two take turns, the order changes with every round, and
each round gives its own ratio. The table shows the median ratio, and the ratio of the best rounds, which other load on
the machine disturbs least."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import table
from bench.harness.extent import Extent
from bench.harness.measure import Load, seed
from bench.harness.rows import Row
from bench.harness.servers import ROOT, apache, checkout_env, ours

BEFORE, AFTER, APACHE = "before", "ours", "apache"
RATIO_AT_LEAST = 0.98
ROUNDS_MIN = 4
"""Even, so that both have as many first turns as second ones."""


class CheckoutError(Exception):
    """The path has no checkout that can be compared with this one."""


@dataclass(frozen=True)
class Comparison:
    """One row. ``ratios`` are ours / before, one for each round; ``best`` is the ratio of the best rounds."""

    name: str
    before_per_s: float
    after_per_s: float
    ratios: list[float]
    best: float
    cpu_ratio: float
    """CPU per message, before / ours, median of the rounds. Above 1, ours takes less. Other load hardly affects it."""
    of_apache: float | None
    """Ours / Apache's, by medians."""
    errors: int

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def is_reached(self) -> bool:
        """Whether the row is fast enough. It fails only if both ratios do: other load may lower the median, but not the
        best round."""
        return max(self.ratio, self.best) >= RATIO_AT_LEAST

    def as_dict(self) -> dict[str, Any]:
        return {
            "row": self.name, "before_per_s": self.before_per_s, "ours_per_s": self.after_per_s, "ratio": self.ratio,
            "ratios": self.ratios, "best": self.best,
            "cpu_ratio": self.cpu_ratio, "of_apache": self.of_apache, "is_reached": self.is_reached,
            "errors": self.errors,
        }  # fmt: skip


def check_checkout(root: Path) -> None:
    """CheckoutError if Python would not import ``rmqserver`` from ``root``, or if only one of the two checkouts has the
    native core, which alone makes a difference of a fifth."""
    where = "import rmqserver; print(rmqserver.__path__[0])"
    asked = subprocess.run(
        [sys.executable, "-c", where], cwd=root, env=checkout_env(root), capture_output=True, text=True
    )
    if asked.returncode or Path(asked.stdout.strip()) != root / "rmqserver":
        raise CheckoutError(f"{root} is not a checkout of this project: {root / 'rmqserver'} was not found")
    natives = {each: any((each / "rmqserver").rglob(_native_of(each))) for each in (ROOT, root)}
    if len(set(natives.values())) > 1:
        without = next(each for each, is_there in natives.items() if not is_there)
        raise CheckoutError(f"the native core is in one of the two only: build it in {without} (pip install -e .)")


def _native_of(root: Path) -> str:
    """Before the core there was a module of the index."""
    return "_core*.so" if (root / "rmqserver/core").is_dir() else "_index*.so"


def take(load: Load, root: Path, wanted: list[Row], extent: Extent) -> list[Comparison]:
    """Measures both. Apache's broker takes part if ``extent`` wants it and there is a Java."""
    check_checkout(root)
    rounds = max(ROUNDS_MIN, extent.rounds + extent.rounds % 2)
    with ExitStack() as stack:
        brokers = [stack.enter_context(ours(root=root, name=BEFORE)), stack.enter_context(ours(name=AFTER))]
        if extent.with_apache and shutil.which("java"):
            brokers.append(stack.enter_context(apache()))
        for broker in brokers:
            seed(broker)
        return [compare(row, runs) for row, runs in table.measure(load, brokers, wanted, rounds, extent.seconds)]


def compare(row: Row, runs: dict[str, list[dict[str, Any]]]) -> Comparison:
    """``runs`` maps a broker's name to its figures of each round."""
    per_s = {name: [figures["messages_per_s"] for figures in of_broker] for name, of_broker in runs.items()}
    before, after = per_s[BEFORE], per_s[AFTER]
    medians = {name: statistics.median(each) for name, each in per_s.items()}
    return Comparison(
        row.name,
        medians[BEFORE],
        medians[AFTER],
        ratios=[new / old for old, new in zip(before, after, strict=True)],
        best=max(after) / max(before),
        cpu_ratio=statistics.median(
            old["cpu_us"] / new["cpu_us"] for old, new in zip(runs[BEFORE], runs[AFTER], strict=True)
        ),
        of_apache=medians[AFTER] / medians[APACHE] if APACHE in medians else None,
        errors=sum(figures["errors"] for of_broker in runs.values() for figures in of_broker),
    )


def show(found: list[Comparison]) -> None:
    print(
        f"{'row':28} {'before/s':>10} {'ours/s':>10} {'ratio':>7} {'from-to':>11} {'best':>6} {'CPU':>6}"
        f" {'ours/Apache':>12}  ratio or best >= {RATIO_AT_LEAST}"
    )
    for each in found:
        of_apache = "" if each.of_apache is None else f"{each.of_apache:.2f}"
        spread = f"{min(each.ratios):.2f}-{max(each.ratios):.2f}"
        note = f"  {each.errors} ERRORS" if each.errors else ""
        print(
            f"{each.name:28} {each.before_per_s:>10.0f} {each.after_per_s:>10.0f} {each.ratio:>7.3f} {spread:>11}"
            f" {each.best:>6.3f} {each.cpu_ratio:>6.3f} {of_apache:>12}  {'ok' if each.is_reached else 'MISSED'}{note}"
        )
