"""How commands change several servers: takes the steps, prints mqadmin's words, and says how to undo them if some
failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmqadmin.call import Call
from rmqadmin.core.changes import Changes, Step, carry_out, targets_done


def change(call: Call, steps: Sequence[Step], mqadmin_text: Callable[[list[str]], str]) -> Changes:
    """Takes the steps. ``mqadmin_text`` gets the targets that are done. Under ``--dry-run`` the steps are only
    shown."""
    rows = carry_out(steps, dry_run=call.dry_run)
    if call.dry_run:
        return Changes(rows)
    back = None
    if any(row.error is not None for row in rows):
        from rmqadmin.core.manifests.way_back import way_back  # only if there is something to undo

        back = way_back(call.command, steps, rows, call.now_ms())
    return Changes(rows, mqadmin_text(targets_done(rows)), back)


def undoable(call: Call, steps: Sequence[Step]) -> Changes:
    """Like ``change``, for commands that mqadmin does not have: always says how to undo the change, if that is
    possible."""
    if call.dry_run:
        return Changes(carry_out(steps, dry_run=True))
    from rmqadmin.core.manifests.way_back import carry_out_undoable  # as above

    rows, _ = carry_out_undoable(call.command, steps, call.now_ms(), call.notice)
    return Changes(rows)
