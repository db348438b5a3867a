"""What a person sees of changes before they say yes to them, and of those that were stopped."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from rmqadmin.core.changes import ChangeRow, Changes, FieldChange, Step, carry_out
from rmqadmin.core.tables.layout import TableView
from rmqadmin.output import Format, render

MANY = [FieldChange("readQueueNums", 4, 16), FieldChange("writeQueueNums", 4, 16), FieldChange("perm", 4, 6)]


def row(target: str, changes: list[FieldChange]) -> ChangeRow:
    return ChangeRow(target=target, action="change", changes=changes, done=False, error=None)


def test_changes_that_have_no_room_stand_below_each_in_its_line() -> None:
    """At 80 columns a dry run ended in ``read_q…``."""
    found = Changes([row("10.0.0.1:10911", MANY), row("10.0.0.2:10911", MANY), row("10.0.0.3:10911", MANY[:1])])
    text = render(found, "updateTopic", Format.TABLE, view=TableView(width=80))
    assert text.endswith("""
10.0.0.1:10911, 10.0.0.2:10911: change
    readQueueNums 4 -> 16
    writeQueueNums 4 -> 16
    perm R (4) -> RW (6)

10.0.0.3:10911: change
    readQueueNums 4 -> 16
""")


def test_changes_that_the_table_shows_stand_there_alone() -> None:
    found = Changes([row("10.0.0.1:10911", MANY[:1])])
    assert len(render(found, "updateTopic", Format.TABLE, view=TableView(width=80)).splitlines()) == 2
    many = Changes([row("10.0.0.1:10911", MANY)])
    assert len(render(many, "updateTopic", Format.TABLE, view=TableView(width=200)).splitlines()) == 2
    assert len(render(many, "updateTopic", Format.TABLE, view=TableView(width=None)).splitlines()) == 2


def ctrl_c() -> None:
    raise KeyboardInterrupt


def step(target: str, act: Callable[[], None]) -> Step:
    return Step(target, "change", MANY, act)


def test_after_ctrl_c_the_rows_say_which_servers_were_changed() -> None:
    """A person who does not wait for a broker that hangs was told nothing of those that had been changed already."""
    taken: list[str] = []
    steps = [step("a", partial(taken.append, "a")), step("b", ctrl_c), step("c", partial(taken.append, "c"))]
    rows = carry_out(steps, dry_run=False)
    assert [row.done for row in rows] == [True, False, False]
    assert [row.error for row in rows] == [
        None, "interrupted: whether it was done is unknown", "interrupted before this"
    ]  # fmt: skip
    assert taken == ["a"]


def test_ctrl_c_before_anything_was_changed_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        carry_out([step("a", ctrl_c), step("b", lambda: None)], dry_run=False)
