"""What a person sees of changes before confirming them, and of changes that were stopped."""

from collections.abc import Callable
from functools import partial
from threading import Barrier

import pytest

from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import render
from rmqadmin.core.changes import ChangeRow, Changes, FieldChange, Step, carry_out, plan_each, unless_refused
from rmqadmin.core.contexts.permission import StoppedAtQuestion
from rmqadmin.core.tables.layout import TableView
from rmqproto.errors import ConnectError, NotFoundError, RefusedError, RequestTimeoutError, RocketMQError, UsageError

MANY = [FieldChange("readQueueNums", 4, 16), FieldChange("writeQueueNums", 4, 16), FieldChange("perm", 4, 6)]


def row(target: str, changes: list[FieldChange]) -> ChangeRow:
    return ChangeRow(target=target, action="change", changes=changes, done=False, error=None)


def test_changes_that_have_no_room_stand_below_each_in_its_line() -> None:
    """At 80 columns a dry run used to end in ``read_q…``."""
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
    """A person who stopped waiting for a hanging broker used to learn nothing about the changes already made."""
    taken: list[str] = []
    steps = [step("a", partial(taken.append, "a")), step("b", ctrl_c), step("c", partial(taken.append, "c"))]
    rows = carry_out(steps, dry_run=False)
    assert [row.done for row in rows] == [True, False, False]
    assert [row.error for row in rows] == [
        None, "interrupted: whether it was done is unknown", "interrupted before this"
    ]  # fmt: skip
    assert taken == ["a"]
    told = "1 of 3 failed: interrupted: whether it was done is unknown; 1 were not tried"
    assert Changes(rows).problem() == told, "it counted what was never tried as failed"


def test_ctrl_c_at_a_question_between_two_changes_has_failed_nothing() -> None:
    def ask() -> None:
        raise StoppedAtQuestion

    rows = carry_out([step("a", lambda: None), step("b", ask), step("c", lambda: None)], dry_run=False)
    assert Changes(rows).problem() == "interrupted: 2 of 3 were not tried"


def test_ctrl_c_before_anything_was_changed_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        carry_out([step("a", ctrl_c), step("b", lambda: None)], dry_run=False)


# --- what cannot be planned -------------------------------------------------------------------------------------------

NO = RefusedError(16, "no permission", address="b")


def planner(**errors: RocketMQError) -> Callable[[str], Step]:
    def plan(addr: str) -> Step:
        if addr in errors:
            raise errors[addr]
        return step(addr, lambda: None)

    return plan


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (NO, "refused"), (NotFoundError("b has no such property"), "refused"),
        (ConnectError("down", address="b"), "unreached"), (RequestTimeoutError("b is slow"), "unreached"),
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_planned_keeps_no_other_from_being_changed(error: RocketMQError, action: str) -> None:
    """A refusal used to end the whole change, although a dead server did not."""
    rows = carry_out(plan_each(["a", "b", "c"], planner(b=error)), dry_run=False)
    assert [(row.target, row.action, row.done) for row in rows] == [
        ("a", "change", True), ("b", action, False), ("c", "change", True)
    ]  # fmt: skip
    assert rows[1].error == str(error)


def test_what_is_refused_everywhere_is_the_error() -> None:
    with pytest.raises(RefusedError, match="no permission"):
        plan_each(["a", "b"], planner(a=NO, b=ConnectError("down", address="b")))


def test_wrong_words_are_wrong_everywhere() -> None:
    with pytest.raises(UsageError):
        plan_each(["a", "b"], planner(b=UsageError("no")))


def test_servers_are_asked_at_once() -> None:
    """Hanging servers used to be waited for one after another."""
    together = Barrier(3)

    def plan(addr: str) -> Step:
        together.wait(timeout=30)
        return step(addr, lambda: None)

    assert [each.target for each in plan_each(["a", "b", "c"], plan)] == ["a", "b", "c"]


def test_what_is_foretold_of_a_later_step_stays_if_nothing_before_it_is_refused() -> None:
    refusal = RefusedError(16, "no", address="n:9876")
    later = Step("n:9876", "delete", [], lambda: None, foretold=refusal)
    assert [one.foretold for one in unless_refused([step("a", lambda: None)], [later])] == [None, refusal]
