"""kill -9 loses nothing in either flush mode: all messages that were acknowledged or consumed are there afterwards."""

from pathlib import Path

import pytest

from tests.support.quick import first_is_quick

from .invariants import Violation
from .kill_cycles import KillCycles, Ledger

CYCLES = 2
CYCLES_CRASH = 50


@pytest.mark.parametrize("flush", first_is_quick(["sync", "async"]))
def test_nothing_is_lost_doubled_or_out_of_order(tmp_path: Path, flush: str) -> None:
    KillCycles(tmp_path, flush, seed=0).run(CYCLES)


@pytest.mark.crash
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_fifty_kills_lose_nothing(tmp_path: Path, flush: str) -> None:
    KillCycles(tmp_path, flush, seed=1).run(CYCLES_CRASH)


def cut_the_log(store: Path) -> None:
    """Makes the store look as if the broker had answered before writing: the later half of the records is gone. Only
    whole records go, because a start refuses a store in which the last record that was dispatched is broken."""
    path = min((store / "commitlog").iterdir())
    content = path.read_bytes()
    starts, end = [], 0
    while size := int.from_bytes(content[end : end + 4]):
        starts.append(end)
        end += size
    cut = starts[len(starts) // 2]
    with path.open("r+b") as file:
        file.seek(cut)
        file.write(bytes(end - cut))


def test_the_ledger_sees_an_answer_before_the_write(tmp_path: Path) -> None:
    with pytest.raises(Violation, match=r"was acknowledged|were seen"):
        KillCycles(tmp_path, "async", seed=2, damage=cut_the_log).run(1)


@pytest.mark.parametrize(
    ("served", "told"),
    [
        ({0: 0, 1: 1}, "2 was acknowledged"),
        ({0: 0, 1: 2, 2: 2}, "1 was acknowledged"),
        ({0: 0, 1: 1, 2: 2}, "3 was seen"),
        ({0: 0, 1: 1, 2: 2, 3: 3, 4: 3}, "doubled"),
        ({0: 0, 1: 1, 2: 2, 3: 3, 4: 9}, "never sent"),
    ],
)
def test_the_ledger_sees(served: dict[int, int], told: str) -> None:
    ledger = Ledger()
    ledger.next_number = 5
    ledger.acked = {0: 0, 1: 1, 2: 2}
    ledger.seen = {0: 0, 3: 3}
    ledger.compare({0: 0, 1: 1, 2: 2, 3: 3, 4: 4})
    with pytest.raises(Violation, match=told):
        ledger.compare(served)
