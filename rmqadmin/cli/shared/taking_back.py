"""Takes one of our brokers back to an earlier state: what a person is shown and asked first (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.changes import Changes, FieldChange, Step, carry_out
from rmqadmin.core.servers.own_requests import contents, own_answer

SnapshotName = Annotated[str, Value.NAME, typer.Argument(metavar="NAME", help="Letters, digits, - and _, up to 64.")]


def take_back(call: Call, addrs: Sequence[str], action: str, to: str, act: Callable[[str], None]) -> Changes:
    """Takes brokers back to the state that ``to`` describes; their present state is lost. Asks the user to type their
    names first; where nobody can be asked, UsageError without ``--yes``."""
    admin = call.admin
    steps = [
        Step(
            addr,
            action,
            [FieldChange(what, count, to) for what, count in contents(admin, addr).items()],
            partial(own_answer, partial(act, addr)),
        )
        for addr in addrs
    ]
    preview = Changes(carry_out(steps, dry_run=True))
    if call.dry_run:
        return preview
    names = ", ".join(admin.broker_config(addr)["brokerName"] for addr in addrs)
    call.confirm(f"What {names} has now is lost.", names, preview=preview)
    return Changes(carry_out(steps, dry_run=False))
