"""However a store is damaged, it can be inspected and dumped, and its start can be planned."""

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import render
from rmqadmin.commands.export.stores import start_plan
from rmqadmin.core.results import Result, Row
from rmqadmin.core.stores.dumps.dump import DumpedRows, DumpWindow, log_rows
from rmqadmin.core.stores.dumps.queue_dump import index_rows, queue_rows
from rmqadmin.core.stores.dumps.table_dump import checkpoint_rows, table_rows, timer_rows, wheel_rows
from rmqadmin.core.stores.inspected import inspected_files, inspected_groups, inspected_topics
from rmqserver.store.checks.dry_run import BREAKS
from rmqserver.store.found.survey import Survey, survey
from tests.rmqserver.store.checks.stores import Damaged, fill

QUICK_COUNT, SLOW_COUNT = 25, 1500
WHOLE = DumpWindow()


def no_notice(_: str) -> None:
    pass


RESULTS: list[Callable[[Survey], Result]] = [
    lambda found: inspected_topics(found, list),
    inspected_groups,
    inspected_files,
    lambda found: start_plan(found, lambda: None),
]
DUMPS: list[Callable[[Survey], Iterable[Row]]] = [
    lambda found: log_rows(found, WHOLE, no_notice),
    lambda found: queue_rows(found, WHOLE),
    lambda found: index_rows(found, WHOLE),
    lambda found: timer_rows(found, WHOLE),
    lambda found: table_rows(found, WHOLE),
    checkpoint_rows,
]


def damage(root: Path, rng: Random) -> tuple[Damaged, str]:
    """Damages the store by a flipped bit, a lost or strange sector, a cut or a missing file. Returns it with a
    description."""
    paths = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name not in ("timerwheel", "lock")]
    path = rng.choice(paths)
    name, data = str(path.relative_to(root)), path.read_bytes()
    at = rng.choice([at for at, byte in enumerate(data) if byte] or [0])
    kind = rng.choice(("flip", "flip", "zeros", "noise", "cut", "missing"))
    damaged = Damaged.of(root)
    match kind:
        case "flip":
            damaged.flip(name, at, 1 << rng.randrange(8))
        case "zeros":
            damaged.write(name, bytes(min(512, len(data) - at)), at)
        case "noise":
            damaged.write(name, rng.randbytes(min(100, len(data) - at)), at)
        case "cut":
            damaged.cut(name, at)
        case "missing":
            damaged.disk.unlink(f"{root}/{name}")
    return damaged, f"{kind} at {at} of {name}"


def look_at(damaged: Damaged, what: str) -> None:
    found = survey(str(damaged.root), damaged.disk)
    for answer in RESULTS:
        text = render(answer(found), "store inspect", Format.JSON)
        assert BREAKS not in text, what
    for rows in DUMPS:
        for batch in DumpedRows(rows(found), None).batches():
            assert batch, what


def look_at_many(root: Path, seed: int, count: int) -> None:
    rng = Random(seed)
    for _ in range(count):
        look_at(*damage(root, rng))


@pytest.fixture(scope="module", params=[True, False], ids=["closed", "killed"])
def root(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Path:
    return fill(tmp_path_factory.mktemp("damaged") / "store", is_closed=request.param)


@pytest.mark.slow
def test_every_damage_is_shown(root: Path) -> None:
    look_at_many(root, 1, QUICK_COUNT)


@pytest.mark.sweep
def test_every_damage_is_shown_of_many(root: Path) -> None:
    look_at_many(root, 2, SLOW_COUNT)


def test_a_flipped_body_is_dumped_where_it_lies(root: Path) -> None:
    rows: Any = list(log_rows(survey(str(root), Damaged.of(root).disk), WHOLE, no_notice))
    for row in rows[1:-1:5]:
        damaged = Damaged.of(root)
        damaged.flip(row.path, row.at_byte + 90, 1)  # in the body, after the fixed fields
        found: Any = list(log_rows(survey(str(root), damaged.disk), WHOLE, no_notice))
        (bad,) = [each for each in found if each.problem]
        assert (bad.log_offset, bad.topic, bad.queue_offset) == (row.log_offset, row.topic, row.queue_offset)
        assert len(found) == len(rows)


def test_the_wheel_of_a_whole_store_is_read(root: Path) -> None:
    slots: Any = list(wheel_rows(survey(str(root), Damaged.of(root).disk), WHOLE))
    assert sum(slot.messages for slot in slots) == 5
