"""How commands change several servers: takes the steps, prints mqadmin's words, and says how to undo them if some
failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmqadmin.cli.call import Call
from rmqadmin.core.changes import Changes, Step, carry_out, rows_of, take, targets_done, warn


def change(call: Call, steps: Sequence[Step], mqadmin_text: Callable[[list[str]], str]) -> Changes:
    """Takes the steps. ``mqadmin_text`` gets the targets that are done. Under ``--dry-run`` the steps are only
    shown."""
    warn(steps, call.notice)
    if call.dry_run:
        return Changes(carry_out(steps, dry_run=True))
    taken = take(steps)
    back = None
    if any(error is not None for error in taken.errors):
        from rmqadmin.core.manifests.way_back import way_back  # only if there is something to undo

        back = way_back(call.command, steps, taken, call.now_ms(), call.notice)
    rows = rows_of(steps, taken.errors)
    return Changes(rows, mqadmin_text(targets_done(rows)), back)


def undoable(call: Call, steps: Sequence[Step]) -> Changes:
    """Like ``change``, for commands that mqadmin does not have: always says how to undo the change, if that is
    possible."""
    warn(steps, call.notice)
    if call.dry_run:
        return Changes(carry_out(steps, dry_run=True))
    from rmqadmin.core.manifests.way_back import carry_out_undoable  # as above

    rows, _ = carry_out_undoable(call.command, steps, call.now_ms(), call.notice)
    return Changes(rows)
