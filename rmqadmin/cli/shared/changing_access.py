"""How commands change users and permissions: like other changes on several servers, and with a word about brokers that
check neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmqadmin.cli.call import Call
from rmqadmin.cli.shared.changing import change, undoable
from rmqadmin.core.access.enforcement import without_effect
from rmqadmin.core.changes import Changes, Step, targets_done


def change_access(call: Call, steps: Sequence[Step], mqadmin_text: Callable[[list[str]], str]) -> Changes:
    """``change``, for mqadmin's commands."""
    return _told(call, change(call, steps, mqadmin_text))


def undoable_access(call: Call, steps: Sequence[Step]) -> Changes:
    """``undoable``, for the others."""
    return _told(call, undoable(call, steps))


def _told(call: Call, found: Changes) -> Changes:
    if call.as_mqadmin:
        return found
    # A target may be a broker's address, or the address and a name.
    targets = [row.target for row in found.found] if call.dry_run else targets_done(found.found)
    said = without_effect(call.admin, [target.partition(" ")[0] for target in targets])
    if said is not None:
        call.notice(said)
    return found
